package zkdev

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// A Request is a request as seen by a function passed to Control. Fields that its operation does
// not have are zero.
type Request struct {
	Op      Op
	Session int64  // for OpConnect the requested session, 0 for a new one
	Client  string // name of the Client that dialed, or ""
	Xid     int32
	Path    string
	Data    []byte // read only
	Version int32  // expected version; -1 for any
	Flags   int32  // of a create: 1 ephemeral, 2 sequential
	Watch   bool
	Ops     []Request // of a multi or multiRead; of a setWatches, the readings that would set such watches
}

// An Action is the server's treatment of a request.
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

// Pass handles the request normally.
func Pass() Action { return Action{} }

// Refuse replies with an error. The request is not applied and consumes no zxid. For OpConnect,
// Refuse is the same as CutBefore.
func Refuse(code Code) Action { return Action{kind: actRefuse, code: code} }

// Delay applies the request after d. Later requests on the same connection wait, too: at most
// 10,000 of them, or 64 MB. A connection with more is cut.
func Delay(d time.Duration) Action { return Action{kind: actDelay, delay: d} }

// DelayReply applies the request at once and replies after d. Everything else that is sent on the
// connection waits, too: at most 64 MB. A connection with more is cut.
func DelayReply(d time.Duration) Action { return Action{kind: actDelayReply, delay: d} }

// CutBefore closes the connection without applying the request.
func CutBefore() Action { return Action{kind: actCutBefore} }

// CutAfter applies the request and closes the connection without a reply. The client cannot
// distinguish it from CutBefore.
func CutAfter() Action { return Action{kind: actCutAfter} }

// A control decides about requests of one operation.
type control struct {
	op      Op
	decide  func(*Request) Action
	forever bool
}

// Control calls decide for each request of an operation, in the order in which requests are
// applied. The first Action other than Pass removes the control, so a decide that always returns
// Pass only observes. remove removes it earlier. Controls are asked in the order in which they were
// added.
//
// Controls of OpGetData, OpGetChildren and OpGetChildren2 are also asked for the readings of a
// multiRead, after the controls of OpMultiRead. There, Refuse fails that reading alone, and any
// other Action but Pass applies to the whole request.
//
// The server does nothing else while decide runs. decide must be quick and must not call the
// Server.
func (s *Server) Control(op Op, decide func(*Request) Action) (remove func()) {
	return s.control(&control{op: op, decide: decide})
}

// ControlKeep is like Control, but the control stays until remove is called.
func (s *Server) ControlKeep(op Op, decide func(*Request) Action) (remove func()) {
	return s.control(&control{op: op, decide: decide, forever: true})
}

func (s *Server) control(added *control) (remove func()) {
	s.do(func(k *core) { k.controls = append(k.controls, added) })
	return func() { s.do(func(k *core) { k.controls.forget(added) }) }
}

// controls are asked in the order in which they were added.
type controls []*control

func (l *controls) forget(removed *control) {
	*l = slices.DeleteFunc(*l, func(c *control) bool { return c == removed })
}

// decide returns the Action of the first control that does not pass the request.
func (l *controls) decide(c *conn, r *wire.Request) Action {
	if len(*l) == 0 {
		return Pass()
	}
	view := viewOf(c, r)
	action := l.ask(&view, func(op Op) bool { return op == OpAny || op == view.Op })
	if action.kind != actPass || r.Op != wire.OpMultiRead {
		return action
	}
	for i := range view.Ops {
		reading := &view.Ops[i]
		action := l.ask(reading, func(op Op) bool {
			return op == reading.Op || op == OpGetChildren2 && reading.Op == OpGetChildren
		})
		switch action.kind {
		case actPass:
		case actRefuse:
			r.Ops[i].Refused = wire.Code(action.code)
		default:
			return action
		}
	}
	return Pass()
}

// ask asks the controls of some operations.
func (l *controls) ask(view *Request, of func(Op) bool) Action {
	for _, control := range slices.Clone(*l) {
		if !of(control.op) {
			continue
		}
		action := control.decide(view)
		if action.kind == actPass {
			continue
		}
		if !control.forever {
			l.forget(control)
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
	for _, kind := range []struct {
		op    Op
		paths []string
	}{{OpGetData, r.Watches.Data}, {OpExists, r.Watches.Exist}, {OpGetChildren, r.Watches.Child}} {
		for _, path := range kind.paths {
			view.Ops = append(view.Ops, Request{
				Op: kind.op, Session: view.Session, Client: view.Client, Xid: view.Xid, Path: path, Watch: true,
			})
		}
	}
	return view
}
