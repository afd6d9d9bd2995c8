package coord

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// tickNode is the loop's view of one job's tick node. Its writes go one after
// the other, each on top of the version that the previous one left; it lives
// as long as there are any.
type tickNode struct {
	job     string
	busy    bool // a request is under way
	known   bool // version and last are what the node holds
	version int32
	last    zkrec.Tick
	queue   []*tickWrite
	runs    int // claims asked for whose result is not written yet
}

// tickWrite is one thing to do with a tick node, in the order they came.
type tickWrite struct {
	kind  writeKind
	rec   zkrec.Tick // of a claim or a result
	token int64      // of the ownership that a claim belongs to
	done  func(last zkrec.Tick, err error)
}

type writeKind int

const (
	loadTick writeKind = iota
	writeClaim
	writeResult
)

// commit is a group of operations that travels with others.
type commit struct {
	ops  []zkconn.Op
	done func(result)
}

// Claim reserves a tick before it runs: rec, whose RunID is unique, is written
// if the job is still ours under rec.Token and no tick as late was claimed.
// It returns nil when the claim stands: ErrClaimed, ErrNotOwner, or the cause
// of a lapsed lease otherwise. Until Finish is called for a claim that stands,
// the job counts as busy and is not handed over.
func (c *Coordinator) Claim(job string, rec zkrec.Tick) error {
	return c.write(job, &tickWrite{kind: writeClaim, rec: rec, token: rec.Token})
}

// Finish writes the result of a claimed run and ends the job's being busy. It
// waits for ZooKeeper to come back if need be, until Run returns. ErrSuperseded
// says that somebody has claimed a later tick, so that there is no place for
// the result.
func (c *Coordinator) Finish(job string, rec zkrec.Tick) error {
	return c.write(job, &tickWrite{kind: writeResult, rec: rec})
}

func (c *Coordinator) write(job string, w *tickWrite) error {
	w.rec.Schema = zkrec.Schema // as it will be read back
	answer := make(chan error, 1)
	w.done = func(_ zkrec.Tick, err error) { answer <- err }
	c.box.Post(func() { c.enqueue(job, w) })
	select {
	case err := <-answer:
		return err
	case <-c.ended:
		return ErrEnded
	}
}

// loadTick reads what was last claimed.
func (c *Coordinator) loadTick(job string, done func(last zkrec.Tick, err error)) {
	c.enqueue(job, &tickWrite{kind: loadTick, done: done})
}

func (c *Coordinator) enqueue(job string, w *tickWrite) {
	t := c.ticks[job]
	if t == nil {
		t = &tickNode{job: job}
		c.ticks[job] = t
	}
	if w.kind == writeClaim {
		t.runs++
		c.step(lease.Busy{Slot: lease.Slot(job), Busy: true})
	}
	t.queue = append(t.queue, w)
	c.advance(t)
}

// advance does the next thing in the queue of t, if it can be done now.
func (c *Coordinator) advance(t *tickNode) {
	for len(t.queue) > 0 && !t.busy {
		w := t.queue[0]
		if err := c.refuse(t, w); err != nil {
			c.finish(t, w, err)
			continue
		}
		switch {
		case !c.session.joined:
			return // the next session goes on with it
		case !t.known:
			c.fetchTick(t)
			return
		case w.kind == loadTick, t.last == w.rec:
			c.finish(t, w, nil)
		case w.kind == writeClaim && t.last.RunID == w.rec.RunID:
			c.finish(t, w, nil) // the reply was lost, the claim is ours
		default:
			c.commit(t, w)
			return
		}
	}
	if len(t.queue) == 0 && !t.busy && t.runs == 0 && c.owned[t.job] == nil {
		delete(c.ticks, t.job)
	}
}

// refuse says why w cannot be done any more.
func (c *Coordinator) refuse(t *tickNode, w *tickWrite) error {
	switch w.kind {
	case writeClaim:
		own := c.owned[t.job]
		if own == nil || own.token != w.token {
			return ErrNotOwner
		}
		if t.known && t.last.RunID != w.rec.RunID && t.last.Tick >= w.rec.Tick {
			return ErrClaimed
		}
		return own.grant.Err()
	case writeResult:
		if t.known && t.last.RunID != w.rec.RunID {
			return ErrSuperseded
		}
	case loadTick:
	}
	return nil
}

// finish reports w and takes it off the queue.
func (c *Coordinator) finish(t *tickNode, w *tickWrite, err error) {
	t.queue = t.queue[1:]
	w.done(t.last, err)
	if w.kind == writeResult || w.kind == writeClaim && err != nil {
		t.runs--
		c.step(lease.Busy{Slot: lease.Slot(t.job), Busy: t.runs > 0})
	}
}

// fetchTick reads the node.
func (c *Coordinator) fetchTick(t *tickNode) {
	t.busy = true
	c.async("read tick", func(ctx context.Context) func() {
		data, stat, err := c.conn.Get(ctx, c.tree.Tick(t.job))
		return func() { c.fetchedTick(t, data, stat, err) }
	})
}

func (c *Coordinator) fetchedTick(t *tickNode, data []byte, stat zkconn.Stat, err error) {
	t.busy = false
	switch {
	case zkconn.IsUnknown(err):
		return // the next session, or the next sync, goes on
	case errors.Is(err, zkconn.ErrNoNode):
		c.missingTick(t)
		return
	}
	var last zkrec.Tick
	if err == nil {
		last, err = zkrec.ParseTick(data)
	}
	if err != nil && !errors.As(err, new(*zkrec.SchemaError)) && !errors.Is(err, ErrDenied) {
		c.log.Warn("tick record is not readable and will be overwritten", "job", t.job, "err", err)
		err = nil
	}
	if err != nil {
		c.finish(t, t.queue[0], err)
	} else {
		t.known, t.version, t.last = true, stat.Version, last
	}
	c.advance(t)
}

// missingTick: the job was made by the published sample and lacks the node, or
// it was deleted, which the protocol is about to find out.
func (c *Coordinator) missingTick(t *tickNode) {
	if c.owned[t.job] == nil {
		c.finish(t, t.queue[0], ErrCanceled)
		c.advance(t)
		return
	}
	c.step(lease.Look{Slot: lease.Slot(t.job)})
	c.repair(t.job) // goes on with t
}

// The first operations of a claim, by their index.
const (
	checkOwner = iota
	checkBeat
)

// commit sends w with the others that are due together.
func (c *Coordinator) commit(t *tickNode, w *tickWrite) {
	t.busy = true
	var ops []zkconn.Op
	if w.kind == writeClaim {
		// The version says that the record still is ours, our heartbeat that it
		// is the same job: one deleted and submitted again counts from 0.
		ops = append(ops,
			zkconn.CheckOp(c.tree.Alive(t.job), c.owned[t.job].version),
			zkconn.CheckOp(c.tree.Heartbeat(t.job, c.cfg.SID), zkconn.AnyVersion))
	}
	ops = append(ops, zkconn.SetOp(c.tree.Tick(t.job), w.rec.Encode(), t.version))
	c.commits = append(c.commits, &commit{ops: ops, done: func(r result) { c.committed(t, w, r) }})
}

func (c *Coordinator) committed(t *tickNode, w *tickWrite, r result) {
	t.busy = false
	switch {
	case r.err == nil:
		t.version, t.last = r.stats[len(r.stats)-1].Version, w.rec
		c.finish(t, w, nil)
	case w.kind == writeClaim && (r.refused == checkOwner || r.refused == checkBeat):
		// Somebody else owns the job, or it is gone.
		c.step(lease.Look{Slot: lease.Slot(t.job)})
		c.finish(t, w, ErrNotOwner)
	case zkconn.IsUnknown(r.err), errors.Is(r.err, zkconn.ErrBadVersion), errors.Is(r.err, zkconn.ErrNoNode):
		// The node is not as we knew it, or we do not know whether we changed
		// it: read it again.
		t.known = false
	default:
		c.finish(t, w, r.err)
	}
	c.advance(t)
}

// sendCommits sends what has come together in one turn of the loop.
func (c *Coordinator) sendCommits() {
	if len(c.commits) == 0 {
		return
	}
	commits := c.commits
	c.commits = nil
	groups := make([][]zkconn.Op, len(commits))
	for i, cm := range commits {
		groups[i] = cm.ops
	}
	c.applyBatches(groups, func(i int, r result) { commits[i].done(r) })
}
