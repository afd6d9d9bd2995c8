package zkdev

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// A Request is a request as a control sees it. Fields that its operation does not
// have are zero.
type Request struct {
	Op      Op
	Session int64  // for OpConnect: the one asked for, 0 for a new one
	Client  string // of the Client that dialed, else empty
	Xid     int32
	Path    string
	Data    []byte // must not be changed
	Version int32  // the one expected; -1 for any
	Flags   int32  // of a create: 1 ephemeral, 2 sequential
	Watch   bool
	Ops     []Request // of a multi
}

// An Action is what happens to a request.
type Action struct {
	kind  actionKind
	code  Code
	delay time.Duration
}

type actionKind int

const (
	actPass actionKind = iota
	actRefuse
	actDelay
	actDelayReply
	actCutBefore
	actCutAfter
)

// Pass lets a request go on its way.
func Pass() Action { return Action{} }

// Refuse answers with an error; the request is not applied, and takes no zxid. For
// OpConnect it is CutBefore.
func Refuse(code Code) Action { return Action{kind: actRefuse, code: code} }

// Delay applies a request later. Requests behind it on the same connection wait, too: up to
// 10,000 of them, or 64 MB. A connection with more is cut.
func Delay(d time.Duration) Action { return Action{kind: actDelay, delay: d} }

// DelayReply applies a request at once and answers later. All that is sent to the
// connection meanwhile waits, too, up to 64 MB. A connection with more is cut.
func DelayReply(d time.Duration) Action { return Action{kind: actDelayReply, delay: d} }

// CutBefore closes the connection; the request is not applied.
func CutBefore() Action { return Action{kind: actCutBefore} }

// CutAfter applies a request and closes the connection without an answer. The client
// cannot tell it from CutBefore.
func CutAfter() Action { return Action{kind: actCutAfter} }

// A control decides on requests of one operation.
type control struct {
	op      Op
	decide  func(*Request) Action
	forever bool
}

// Control asks decide what to do with each request of an operation, until it
// answers with anything but Pass; then the control is removed. So a decide that
// always passes observes, until remove is called. Of several controls, that which was
// made first is asked first.
//
// decide has the server for itself, in the order in which
// requests are applied. It must be quick, and must not call the Server.
func (s *Server) Control(op Op, decide func(*Request) Action) (remove func()) {
	return s.control(&control{op: op, decide: decide})
}

// ControlKeep is Control, but the control stays until remove is called.
func (s *Server) ControlKeep(op Op, decide func(*Request) Action) (remove func()) {
	return s.control(&control{op: op, decide: decide, forever: true})
}

func (s *Server) control(added *control) (remove func()) {
	s.do(func(k *core) { k.controls = append(k.controls, added) })
	return func() { s.do(func(k *core) { k.forget(added) }) }
}

func (k *core) forget(removed *control) {
	k.controls = slices.DeleteFunc(k.controls, func(c *control) bool { return c == removed })
}

// decide asks the controls about a request.
func (k *core) decide(c *conn, r *wire.Request) Action {
	if len(k.controls) == 0 {
		return Pass()
	}
	view := viewOf(c, r)
	for _, control := range slices.Clone(k.controls) {
		if control.op != OpAny && control.op != Op(r.Op) {
			continue
		}
		action := control.decide(&view)
		if action.kind == actPass {
			continue
		}
		if !control.forever {
			k.forget(control)
		}
		return action
	}
	return Pass()
}

func viewOf(c *conn, r *wire.Request) Request {
	view := Request{
		Op: Op(r.Op), Session: c.session, Client: c.client.name(), Xid: r.Xid,
		Path: r.Path, Data: r.Data, Version: r.Version, Flags: r.Flags, Watch: r.Watch,
	}
	for i := range r.Ops {
		view.Ops = append(view.Ops, viewOf(c, &r.Ops[i]))
	}
	return view
}
