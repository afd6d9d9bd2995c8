package tree

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// Apply applies a request of a client whose session is alive. It does not handle connect, auth and
// closeSession.
func (s *State) Apply(now time.Time, client Client, r *wire.Request) Output {
	var out Output
	var reply Reply
	switch r.Op {
	case wire.OpCreate, wire.OpCreate2, wire.OpDelete, wire.OpSetData, wire.OpSetACL,
		wire.OpReconfig, wire.OpCreateContainer, wire.OpCreateTTL:
		reply = s.write(&out, now, client, r)
	case wire.OpCheck:
		if reply = s.write(&out, now, client, r); reply.Code == wire.OK {
			return out // ZooKeeper does not reply to a successful check outside of a multi
		}
	case wire.OpMulti:
		reply = s.multi(&out, now, client, r)
	case wire.OpPing:
	case wire.OpAddWatch, wire.OpSASL:
		reply.Code = wire.Unimplemented
	default:
		if !s.read(&out, &reply, client, r) {
			// ZooKeeper's reply to an unknown operation.
			out.Reply = &Reply{Zxid: -1, Code: wire.Unimplemented}
			out.Close = true
			return out
		}
	}
	reply.Zxid = s.last
	out.Reply = &reply
	return out
}

// write applies a transaction of one operation.
func (s *State) write(out *Output, now time.Time, client Client, r *wire.Request) Reply {
	s.begin()
	code := wire.MarshallingError
	var c change
	// ZooKeeper fails on a null path only where it looks for the parent.
	fails := r.Null && (r.Op == wire.OpCreate || r.Op == wire.OpCreate2 || r.Op == wire.OpDelete)
	if !r.Malformed && !fails {
		c, code = s.plan(client).prepare(r)
	}
	if code != wire.OK {
		out.Txns = append(out.Txns, s.refusal(now, client, r, code))
		return Reply{Code: code}
	}
	return Reply{Body: s.commit(out, now, client.Session, c).Body}
}
