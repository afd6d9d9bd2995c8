package tree

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// Apply answers a request of a client whose session is alive. Connecting, auth and
// closing the session are not requests of this kind.
func (s *State) Apply(now time.Time, client Client, r *wire.Request) Output {
	var out Output
	var reply Reply
	switch r.Op {
	case wire.OpCreate, wire.OpCreate2, wire.OpDelete, wire.OpSetData, wire.OpSetACL,
		wire.OpReconfig, wire.OpCreateContainer, wire.OpCreateTTL:
		reply = s.write(&out, now, client, r)
	case wire.OpCheck:
		if reply = s.write(&out, now, client, r); reply.Code == wire.OK {
			return out // ZooKeeper fails to answer a check that succeeds outside of a multi
		}
	case wire.OpMulti:
		reply = s.multi(&out, now, client, r)
	case wire.OpPing:
	case wire.OpAddWatch, wire.OpSASL:
		reply.Code = wire.Unimplemented
	default:
		if !s.read(&out, &reply, client, r) {
			// An operation that ZooKeeper does not know is answered so.
			out.Reply = &Reply{Zxid: -1, Code: wire.Unimplemented}
			out.Close = true
			return out
		}
	}
	reply.Zxid = s.last
	out.Reply = &reply
	return out
}

// write is a transaction of one operation.
func (s *State) write(out *Output, now time.Time, client Client, r *wire.Request) Reply {
	s.begin()
	code := wire.MarshallingError
	var c change
	// ZooKeeper stumbles over a null path where it looks for a parent, and nowhere else.
	stumbles := r.Null && (r.Op == wire.OpCreate || r.Op == wire.OpCreate2 || r.Op == wire.OpDelete)
	if !r.Malformed && !stumbles {
		c, code = s.plan(client).prepare(r)
	}
	if code != wire.OK {
		out.Txns = append(out.Txns, s.refusal(now, client, r, code))
		return Reply{Code: code}
	}
	return Reply{Body: s.commit(out, now, client.Session, c).Body}
}
