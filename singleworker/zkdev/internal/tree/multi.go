package tree

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// multi applies all operations of a transaction or none. A refused operation is not an error of the
// request: each operation has a result, which is 0 for those before the refused one and
// RuntimeInconsistency for those after it.
func (s *State) multi(out *Output, now time.Time, client Client, r *wire.Request) Reply {
	if r.Null && !r.Malformed {
		// ZooKeeper fails on the null before it starts the transaction, and loses a zxid.
		s.taken++
		return Reply{Code: wire.MarshallingError, Body: wire.MultiBody{}}
	}
	s.begin()
	if r.Malformed {
		out.Txns = append(out.Txns, s.refusal(now, client, r, wire.MarshallingError))
		return Reply{Code: wire.MarshallingError}
	}
	p := s.plan(client)
	changes := make([]change, 0, len(r.Ops))
	for i := range r.Ops {
		op, ok := multiOp(r.Ops[i])
		if !ok {
			out.Txns = append(out.Txns, s.refusal(now, client, r, wire.MarshallingError))
			return Reply{Code: wire.MarshallingError}
		}
		c, code := p.prepare(&op)
		if code != wire.OK {
			return Reply{Body: s.refuseMulti(out, now, client, r, i, code)}
		}
		changes = append(changes, c)
	}
	results := make(wire.MultiBody, 0, len(changes))
	for _, c := range changes {
		results = append(results, s.commit(out, now, client.Session, c))
	}
	return Reply{Body: results}
}

// multiOp returns an operation as ZooKeeper interprets it inside a multi, where the flags of a
// create determine its type. It returns false for operations that make ZooKeeper fail.
func multiOp(op wire.Request) (wire.Request, bool) {
	switch op.Op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		if (op.Flags == wire.FlagTTL || op.Flags == wire.FlagPersistentSequentialTTL) && op.Op != wire.OpCreateTTL {
			return op, false
		}
		op.Op = wire.OpCreate
	case wire.OpGetData, wire.OpGetChildren:
		return op, false
	default:
	}
	return op, true
}

// refuseMulti returns the results of a multi whose operation at index failed is refused with code.
func (s *State) refuseMulti(out *Output, now time.Time, client Client, r *wire.Request, failed int, code wire.Code) wire.MultiBody {
	results := make(wire.MultiBody, 0, len(r.Ops))
	for i := range r.Ops {
		result := wire.RuntimeInconsistency
		switch {
		case i < failed:
			result = wire.OK
		case i == failed:
			result = code
		}
		results = append(results, wire.Result{Op: wire.OpError, Code: result, Body: wire.IntBody(result)})
		logged := result
		if i < failed {
			logged = wire.RuntimeInconsistency // it was not applied
		}
		out.Txns = append(out.Txns, s.refusal(now, client, &r.Ops[i], logged))
	}
	return results
}

// multiRead reads several nodes; each read may fail independently.
func (s *State) multiRead(reply *Reply, client Client, r *wire.Request) {
	results := make(wire.MultiBody, 0, len(r.Ops))
	for i := range r.Ops {
		op := &r.Ops[i]
		var body wire.Body
		code := wire.MarshallingError
		switch op.Op {
		case wire.OpGetData:
			body, code = s.getData(client, op)
		case wire.OpGetChildren:
			body, code = s.getChildren(client, op)
		default:
			reply.Code, reply.Body = code, results
			return
		}
		if op.Refused != wire.OK {
			code = op.Refused
		}
		result := wire.Result{Op: op.Op, Body: body}
		if code != wire.OK {
			result = wire.Result{Op: wire.OpError, Code: code, Body: wire.IntBody(code)}
		}
		results = append(results, result)
	}
	reply.Body = results
}
