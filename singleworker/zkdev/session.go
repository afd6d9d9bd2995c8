package zkdev

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

var (
	errZxidAhead       = errors.New("the client has seen a later zxid than this server: it was connected to another server, or to an earlier one on this address")
	errTooManySessions = errors.New("too many sessions")
	errNotReadOnly     = errors.New("this server is read-only, and the client wants another")
)

// connect handles the first message of a connection. It returns false if the requested session is
// partitioned: the message then counts as not yet arrived.
func (k *core) connect(c *conn, message []byte) bool {
	hello, err := wire.DecodeConnect(message)
	if err != nil {
		k.complain(c, err)
		return true
	}
	if c.session = hello.Session; k.isCut(c) {
		return false
	}
	k.traffic.Requests[OpConnect]++
	action := k.controls.decide(c, &wire.Request{Header: wire.Header{Op: wire.OpConnect}})
	if action.kind == actRefuse {
		action = CutBefore() // the protocol has no reply for it
	}
	k.perform(c, action, 0, func(lose bool) {
		k.begin(c, hello, lose)
		if lose {
			k.hangUp(c, false)
		}
	})
	return true
}

// begin attaches a connection to a new or existing session.
func (k *core) begin(c *conn, hello wire.Connect, lose bool) {
	switch {
	case hello.LastZxid > k.state.Zxid():
		k.complain(c, errZxidAhead)
		return
	case k.readOnly && !hello.TakesReadOnly:
		k.complain(c, errNotReadOnly)
		return
	case hello.Session == 0 && k.state.CountSessions() >= maxSessions:
		k.complain(c, errTooManySessions)
		return
	}
	now := k.now()
	c.timeout = min(max(time.Duration(hello.Timeout)*time.Millisecond, k.config.MinSession), k.config.MaxSession)
	granted, ok := hello.Session, true
	if hello.Session == 0 {
		id, out := k.state.OpenSession(now, c.timeout)
		granted = id
		k.deliver(out)
	} else {
		// The session's previous connection is closed, even if the new client's password is wrong.
		if old := k.attached[hello.Session]; old != nil {
			k.hangUp(old, false)
		}
		password := tree.Password(hello.Session)
		ok = bytes.Equal(hello.Password, password[:]) && k.state.Touch(now, hello.Session, c.timeout)
	}
	k.awaitExpiry() // a reconnect may have shortened the timeout
	if !ok {
		c.session = 0
		k.send(c, wire.ConnectFrame(0, 0, [wire.PasswordLen]byte{}, hello.HasReadOnly, k.readOnly))
		k.hangUp(c, true)
		return
	}
	if f := k.behind[c.client]; f != nil {
		seen := hello.LastZxid // which a server that is behind that would refuse
		if hello.Session == 0 {
			seen = k.state.Zxid()
		}
		k.catchUp(f, seen)
	}
	c.session, c.ready = granted, true
	k.attached[granted] = c
	if !lose {
		k.send(c, wire.ConnectFrame(granted, int32(c.timeout.Milliseconds()), tree.Password(granted), hello.HasReadOnly, k.readOnly))
	}
}

// endSession ends a session without a request of its client, whose connection is closed.
func (k *core) endSession(now time.Time, id int64, expired bool) {
	if c := k.attached[id]; c != nil {
		k.hangUp(c, false)
	}
	k.deliver(k.state.CloseSession(now, id, expired))
}

// dropSessions ends all sessions.
func (k *core) dropSessions(now time.Time) {
	for _, session := range k.state.Sessions() {
		k.endSession(now, session.ID, true)
	}
}

// ExpireSession ends a session as if it had timed out: its ephemeral nodes are deleted and its
// client's connection is closed. It returns ErrNoSession if there is no such session.
func (s *Server) ExpireSession(id int64) error {
	err := fmt.Errorf("%w: %#x", ErrNoSession, id)
	s.do(func(k *core) {
		if k.state.HasSession(id) {
			k.endSession(time.Now(), id, true)
			err = nil
		}
	})
	return err
}

// Disconnect cuts a session's connection, if any. The session stays alive, and the client can
// reconnect.
func (s *Server) Disconnect(id int64) {
	s.do(func(k *core) {
		if c := k.attached[id]; c != nil {
			k.hangUp(c, false)
		}
	})
}
