package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Property 17: no run is ended because the lease of its owner is lost, as long as that has heard in
// time that it is not.

// answer is an answer that has come to an instance: to a possible heartbeat, or to its greeting,
// which is sent at no time.
type answer struct {
	sent, came time.Time
	granted    time.Duration // the session timeout
	zxid       int64
}

// dial connects an instance, and notes the answers to it; the breach, if any, comes between that
// and the instance.
func (w *witness) dial(name string, b *breach) func(context.Context, *zkdev.Client) (net.Conn, error) {
	return func(ctx context.Context, client *zkdev.Client) (net.Conn, error) {
		conn, err := client.Dial(ctx, "", "")
		if err != nil {
			return nil, err
		}
		conn = &ear{
			Conn: conn, beat: []byte("/alive/" + name), sent: make(map[uint32]time.Time),
			hears: func(a answer) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if w.answers == nil {
					w.answers = make(map[*zkdev.Client][]answer)
				}
				w.answers[client] = append(w.answers[client], a)
			},
		}
		if b != nil {
			conn = b.between(conn)
		}
		return conn, nil
	}
}

// ear reads along. The client writes each frame at once.
type ear struct {
	net.Conn

	beat  []byte // what heartbeats have in them, and claims, but these have a tick
	hears func(answer)

	frame   []byte // the beginning of the one that is being read
	rest    int    // of it, to come
	greeted bool   // the first one, the connect response, has come
	granted time.Duration

	mu   sync.Mutex
	sent map[uint32]time.Time // by xid, those that have no answer yet
}

const lengthBytes, xidBytes = 4, 4

func (c *ear) Write(p []byte) (int, error) {
	const xid, op, header = 4, 8, 12
	if len(p) > header && zkdev.Op(binary.BigEndian.Uint32(p[op:])) == zkdev.OpMulti && bytes.Contains(p, c.beat) && !bytes.Contains(p, []byte("/tick")) {
		c.mu.Lock()
		c.sent[binary.BigEndian.Uint32(p[xid:])] = time.Now()
		c.mu.Unlock()
	}
	return c.Conn.Write(p)
}

func (c *ear) Read(p []byte) (int, error) {
	const head = 20 // of a frame: its length, xid, zxid and error, or, of the first one, the version and the timeout
	n, err := c.Conn.Read(p)
	for read := p[:n]; len(read) > 0; {
		if len(c.frame) < head {
			k := min(head-len(c.frame), len(read))
			c.frame, read = append(c.frame, read[:k]...), read[k:]
			if len(c.frame) < head {
				break
			}
			c.rest = lengthBytes + int(binary.BigEndian.Uint32(c.frame)) - head
			c.begun()
		}
		k := min(c.rest, len(read))
		c.rest, read = c.rest-k, read[k:]
		if c.rest == 0 {
			c.frame = c.frame[:0]
		}
	}
	return n, err
}

// begun takes in the head of a frame. A whole frame arrives at once.
func (c *ear) begun() {
	if !c.greeted {
		c.greeted, c.granted = true, time.Duration(binary.BigEndian.Uint32(c.frame[8:]))*time.Millisecond
		c.hears(answer{came: time.Now(), granted: c.granted})
		return
	}
	xid := binary.BigEndian.Uint32(c.frame[lengthBytes:])
	c.mu.Lock()
	sent, known := c.sent[xid]
	delete(c.sent, xid)
	c.mu.Unlock()
	const zxidAt, errorAt = lengthBytes + xidBytes, lengthBytes + xidBytes + 8
	if known && binary.BigEndian.Uint32(c.frame[errorAt:]) == 0 { // what is refused has the zxid of a write before
		c.hears(answer{sent, time.Now(), c.granted, int64(binary.BigEndian.Uint64(c.frame[zxidAt:]))})
	}
}

// heard is the last heartbeat of a reign that was acknowledged before a time. It does not count if
// a server has granted a shorter session since, or the process was stopped before it could send it.
func (l *ledger) heard(i *swtest.Instance, r *reign, before time.Time) (last answer, ok bool) {
	for _, a := range l.answers[i.Client] {
		switch {
		case a.came.After(before):
		case a.sent.IsZero():
			ok = ok && a.granted >= last.granted
		case a.came.Before(before) && slices.Contains(r.zxids, a.zxid):
			last, ok = a, true
		}
	}
	stopped := func(s stop) bool { return !last.sent.Before(s.from) && !last.sent.After(s.to) }
	return last, ok && !slices.ContainsFunc(l.stops[i.Client], stopped)
}

// stop is a time in which a process was stopped.
type stop struct{ from, to time.Time }

const (
	// asksFor is how long an instance whose clock has leapt waits for the answer that its leases hold.
	asksFor = 250 * time.Millisecond
	// between the times from which an instance counts its lease and at which it sends the heartbeat it
	// may have sent others, in vain.
	between = 200 * time.Millisecond
	// leastLeap is by how much a clock is set if that is a leap.
	leastLeap = 100 * time.Millisecond
)

// checkKept verifies property 17. A clock that leaps makes leases shorter, but ZooKeeper is asked
// before that ends runs.
func (l *ledger) checkKept(run *swtest.Run, r *reign) {
	at := run.RightEnded
	if !errors.Is(run.Cause, singleworker.ErrLeaseLost) || r.endBy != 0 && !r.end.After(at) {
		return
	}
	last, known := l.heard(run.Instance, r, at)
	until := last.sent.Add(last.granted*3/4 - between)
	ended := func(over time.Time) bool { return !over.Before(last.sent) && !over.After(at) } // of its sessions
	if !known || !at.Before(until) || l.excused(r.sid, at) || slices.ContainsFunc(l.over[r.sid], ended) {
		return
	}
	var leaps []time.Time
	of := l.offsets[r.sid]
	for k := 1; k < len(of); k++ {
		ahead := of[k].by - of[k-1].by
		if ahead <= 0 || of[k].since.Before(last.sent) || of[k].since.After(at) {
			continue
		}
		if until = until.Add(-ahead); ahead > leastLeap {
			leaps = append(leaps, of[k].since)
		}
	}
	switch {
	case at.Before(until):
		l.violatef(17, r.job, at, "run %s of %s is ended, and its lease lasts until %s: it heard at %s that it was well at %s", run.ID, r.sid,
			clock(until), clock(last.came), clock(last.sent))
	case len(leaps) == 1 && at.Sub(leaps[0]) < asksFor:
		l.violatef(17, r.job, at, "run %s of %s is ended %v after its clock has leapt, and ZooKeeper was not asked", run.ID, r.sid, at.Sub(leaps[0]))
	}
}
