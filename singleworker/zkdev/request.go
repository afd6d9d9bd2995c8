package zkdev

import (
	"crypto/sha1" //nolint:gosec // required by ZooKeeper's digest scheme
	"encoding/base64"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// request handles a message on a connection that has a session.
func (k *core) request(c *conn, message []byte) {
	header, record, err := wire.DecodeHeader(message)
	if err != nil {
		k.complain(c, err)
		return
	}
	k.traffic.Requests[Op(header.Op)]++
	if header.Op == wire.OpAuth {
		k.auth(c, header, record)
		return
	}
	if !k.state.Touch(k.now(), c.session, c.timeout) {
		return // ZooKeeper drops requests of a session that has just ended
	}
	r := wire.DecodeRequest(header, record)
	for i := range r.Ops {
		k.traffic.Parts[Op(r.Ops[i].Op)]++
	}
	k.perform(c, k.controls.decide(c, &r), header.Xid, func(lose bool) { k.apply(c, &r, lose) })
}

// perform carries out a control's Action. apply applies the request and sends its reply, or loses
// the reply.
func (k *core) perform(c *conn, action Action, xid int32, apply func(lose bool)) {
	switch action.kind {
	case actRefuse:
		k.send(c, wire.ReplyFrame(xid, k.state.Zxid(), wire.Code(action.code), nil))
	case actDelay:
		k.pause(c, action.delay, func() { apply(false) })
	case actDelayReply:
		c.muted++
		apply(false)
		k.after(action.delay, func() {
			c.muted--
			k.release(c)
		})
	case actCutBefore:
		k.hangUp(c, false)
	case actCutAfter:
		apply(true)
	default:
		apply(false)
	}
}

// apply applies a request and answers it.
func (k *core) apply(c *conn, r *wire.Request, lose bool) {
	now := k.now()
	if lose {
		defer k.hangUp(c, false)
		c.detached = true // so that its events are lost, too
		defer func() { c.detached = false }()
	}
	if r.Op == wire.OpCloseSession {
		out := k.state.CloseSession(now, c.session, false)
		k.finish(c, r.Xid, out)
		return
	}
	if k.readOnly && (r.Op == wire.OpSync || !tree.IsRead(r.Op)) {
		k.finish(c, r.Xid, tree.Output{Reply: &tree.Reply{Zxid: k.state.Zxid(), Code: wire.NotReadOnly}})
		return
	}
	client := tree.Client{Session: c.session, Conn: c.id, IDs: c.ids}
	if f := k.behind[c.client]; f != nil && tree.IsRead(r.Op) {
		if r.Op == wire.OpSync {
			k.catchUp(f, k.state.Zxid())
		}
		k.finish(c, r.Xid, f.state.Apply(now, client, r))
		return
	}
	k.finish(c, r.Xid, k.state.Apply(now, client, r))
}

// finish sends watch events first, then the reply.
func (k *core) finish(c *conn, xid int32, out tree.Output) {
	k.deliver(out)
	if c.detached {
		return
	}
	if f := k.behind[c.client]; f != nil && len(out.Txns) > 0 {
		k.catchUp(f, k.state.Zxid()) // a server answers a write when it has applied it
	}
	if out.Reply != nil {
		k.send(c, wire.ReplyFrame(xid, out.Reply.Zxid, out.Reply.Code, out.Reply.Body))
	}
	if out.Close {
		k.hangUp(c, true)
	}
}

// auth adds an identity to a connection. It is not a transaction: its reply has zxid 0.
func (k *core) auth(c *conn, header wire.Header, record []byte) {
	auth, err := wire.DecodeAuth(record)
	if err != nil {
		k.complain(c, err)
		return
	}
	action := k.controls.decide(c, &wire.Request{Header: header})
	k.perform(c, action, header.Xid, func(lose bool) {
		if lose {
			k.hangUp(c, false)
			return
		}
		code := wire.OK
		switch auth.Scheme {
		case "digest":
			id := wire.ID{Scheme: auth.Scheme, ID: digest(auth.Token)}
			switch {
			case slices.Contains(c.ids, id):
			case len(c.ids) > maxIDs:
				code = wire.AuthFailed
			default:
				c.ids = tree.SortIDs(append(slices.Clone(c.ids), id))
			}
		case "ip": // every connection has it
		default:
			code = wire.AuthFailed
		}
		k.send(c, wire.ReplyFrame(header.Xid, 0, code, nil))
		if code != wire.OK {
			k.hangUp(c, true)
		}
	})
}

// digest returns the identity of the credentials "user:password".
func digest(token []byte) string {
	text := strings.ToValidUTF8(string(token), "\uFFFD")
	user, _, _ := strings.Cut(text, ":")
	sum := sha1.Sum([]byte(text)) //nolint:gosec // required by ZooKeeper's digest scheme
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}
