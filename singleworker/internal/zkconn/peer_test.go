package zkconn

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// peer is as much of a ZooKeeper server as these tests need: it greets one client at a
// time, answers pings, and has everything else answered by the test. It keeps no nodes.
type peer struct {
	granted time.Duration
	answer  func(request) reply // nil: everything is well and empty

	mu      sync.Mutex
	refuse  error    // what dialing ends with
	session int64    // told to clients; 0: "your session has expired"
	got     []string // requests in their order, of all connections
	conn    *peerConn
}

// peerConn is one connection. Reader and writer are apart because a pipe has no buffer.
type peerConn struct {
	net.Conn
	out chan []byte
}

// request is what a client asks for.
type request struct {
	op    string
	path  string
	data  []byte
	watch bool
	acl   []zk.ACL
	flags int32
	ops   []request // of a multi
}

func (r request) String() string {
	text := r.op + " " + r.path
	if r.watch {
		text += " and watch"
	}
	return text
}

// reply is what it gets: an error code of the server, or a body.
type reply struct {
	code   int32
	body   []byte
	silent bool // no answer at all
}

// The server's error codes.
const (
	codeNoNode     = -101
	codeNoAuth     = -102
	codeBadVersion = -103
	codeNodeExists = -110
	codeAuthFailed = -115
)

const sessionID = 0x1234

var discard = slog.New(slog.DiscardHandler)

func newPeer() *peer { return &peer{granted: 4 * time.Second, session: sessionID} }

// open connects a client of p, which is closed when the test ends.
func (p *peer) open(t *testing.T, cfg Config, onEvent func(Event)) *Conn {
	t.Helper()
	if cfg.Servers == "" {
		cfg.Servers = "zk1"
	}
	if cfg.Dial == nil {
		cfg.Dial = p.dial
	}
	cfg.SessionTimeout, cfg.Logger = 6*time.Second, discard
	if onEvent == nil {
		onEvent = func(Event) {}
	}
	conn, err := Open(cfg, onEvent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func (p *peer) dial(context.Context, string, string) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return nil, p.refuse
	}
	client, server := net.Pipe()
	conn := &peerConn{Conn: server, out: make(chan []byte, 1000)}
	p.conn = conn
	go func() {
		defer close(conn.out)
		p.read(conn)
	}()
	go func() {
		defer func() { _ = conn.Close() }()
		for frame := range conn.out {
			if _, err := conn.Write(frame); err != nil {
				return
			}
		}
	}()
	return client, nil
}

// requests lists what was asked for until now, without pings.
func (p *peer) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.got)
}

// hangUp breaks the connection.
func (p *peer) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.conn.Close()
}

// notify sends a watch event.
func (p *peer) notify(kind zk.EventType, path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	body := put(put(nil, int32(kind)), int32(zk.StateSyncConnected))
	p.conn.out <- frame(-1, 0, putText(body, path))
}

// read serves one connection until it breaks or is closed.
func (p *peer) read(conn *peerConn) {
	if _, err := readFrame(conn); err != nil {
		return
	}
	p.mu.Lock()
	session, granted := p.session, int32(p.granted.Milliseconds())
	p.mu.Unlock()
	if session == 0 {
		granted = 0
	}
	hello := binary.BigEndian.AppendUint64(put(put(nil, 0), granted), uint64(session))
	conn.out <- sized(putText(hello, "0123456789abcdef"))
	for session != 0 { // a server hangs up on an expired one
		in, err := readFrame(conn)
		if err != nil {
			return
		}
		xid, req := in.int(), request{op: operations[in.int()]}
		req.decode(in)
		if req.op == "ping" {
			conn.out <- frame(xid, 0, nil)
			continue
		}
		p.mu.Lock()
		p.got = append(p.got, req.String())
		p.mu.Unlock()
		answer := reply{}
		if p.answer != nil && req.op != "close" {
			answer = p.answer(req)
		}
		if !answer.silent {
			conn.out <- frame(xid, answer.code, answer.body)
		}
		if req.op == "close" {
			return
		}
	}
}

var operations = map[int32]string{
	1: "create", 2: "delete", 3: "exists", 4: "get", 5: "set", 6: "getACL", 11: "ping", 12: "children", 13: "check",
	14: "multi", 100: "auth", 101: "set watches", -11: "close",
}

func (r *request) decode(in *wire) {
	switch r.op {
	case "create":
		r.path, r.data = in.text(), []byte(in.text())
		for range in.int() {
			r.acl = append(r.acl, zk.ACL{Perms: in.int(), Scheme: in.text(), ID: in.text()})
		}
		r.flags = in.int()
	case "set":
		r.path, r.data = in.text(), []byte(in.text())
		in.int()
	case "delete", "check":
		r.path = in.text()
		in.int()
	case "get", "children", "exists":
		r.path, r.watch = in.text(), in.bool()
	case "getACL":
		r.path = in.text()
	case "auth":
		in.int()
		r.path = in.text() + " " + in.text()
	case "multi":
		for {
			op := request{op: operations[in.int()]}
			done := in.bool()
			in.int()
			if done {
				return
			}
			op.decode(in)
			r.ops = append(r.ops, op)
		}
	}
}

// wire is a frame being read; reading beyond its end is a mistake of the test's.
type wire struct{ rest []byte }

func (w *wire) int() int32 {
	n := binary.BigEndian.Uint32(w.rest)
	w.rest = w.rest[4:]
	return int32(n)
}

func (w *wire) bool() bool {
	b := w.rest[0] != 0
	w.rest = w.rest[1:]
	return b
}

func (w *wire) text() string {
	n := max(0, w.int()) // -1: no data at all
	text := string(w.rest[:n])
	w.rest = w.rest[n:]
	return text
}

func readFrame(r io.Reader) (*wire, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(r, body)
	return &wire{body}, err
}

func put(b []byte, n int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }

func putText(b []byte, text string) []byte { return append(put(b, int32(len(text))), text...) }

// putStat appends a node's stat with the given data version.
func putStat(b []byte, version int32) []byte {
	b = append(b, make([]byte, 32)...) // czxid, mzxid, ctime, mtime
	return append(put(b, version), make([]byte, 32)...)
}

func sized(body []byte) []byte { return append(put(nil, int32(len(body))), body...) }

func frame(xid, code int32, body []byte) []byte {
	header := binary.BigEndian.AppendUint64(put(nil, xid), 1) // zxid
	return sized(append(put(header, code), body...))
}

// node answers a get.
func node(data string, version int32) reply { return reply{body: putStat(putText(nil, data), version)} }

// multiReply answers a multi: the operation at refused, if it is one, with that code.
func multiReply(req request, refused int, code int32) reply {
	var body []byte
	for i, op := range req.ops {
		result := int32(0)
		switch {
		case refused < 0:
			body = append(put(body, opcode(op.op)), 0)
			body = put(body, 0)
			switch op.op {
			case "create":
				body = putText(body, op.path)
			case "set":
				body = putStat(body, 7)
			}
			continue
		case i == refused:
			result = code
		case i > refused:
			result = -2
		}
		body = put(put(append(put(body, -1), 0), result), result)
	}
	return reply{body: put(append(put(body, -1), 1), -1)}
}

func opcode(name string) int32 {
	for code, op := range operations {
		if op == name {
			return code
		}
	}
	panic(fmt.Sprintf("no operation %q", name))
}
