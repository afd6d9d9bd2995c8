package coord

import (
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Commit is a change of a slot's tick record, with what is written together
// with it or not at all.
type Commit struct {
	Slot string
	// Token is that of the ownership which alone may make the change, and SpecVersion
	// that of the spec that it rests on. Token 0: it is the result of a run, which
	// may be written by whoever ran it as long as the record is From.
	Token       int64
	SpecVersion int32
	From, To    zkrec.Tick
	Entries     []zkrec.Entry // for the history
	Request     string        // an operator's request that is done with, to be removed
}

// tickNode is the loop's view of one slot's tick and history nodes. Its writes
// go one after the other, each on top of the versions that the previous one
// left; it lives as long as there are any.
type tickNode struct {
	slot  string
	busy  bool // a request is under way
	known bool // what follows is what the nodes hold
	stored
	queue []*tickWrite
	open  string // the run that we claimed and whose result is not written yet
}

// stored is the content of a slot's tick and history nodes.
type stored struct {
	version        int32
	record         zkrec.Tick
	historyVersion int32
	history        zkrec.History
}

// tickWrite is one thing to do with these nodes, in the order they came.
type tickWrite struct {
	kind   writeKind
	commit Commit
	amend  zkrec.Entry
	// unguarded: the commit is a result whose ownership was found to be over.
	unguarded bool
	// requestStays: the commit's request is gone, or cannot be removed.
	requestStays bool
	done         func(current zkrec.Tick, err error)
}

// begins reports whether w begins a run.
func (w *tickWrite) begins() bool {
	return w.kind == writeCommit && w.commit.To.Open() && w.commit.To.RunID != w.commit.From.RunID
}

type writeKind int

const (
	loadTick writeKind = iota
	writeCommit
	writeAmend
)

// commit is a group of operations that travels with others.
type commit struct {
	ops  []zkconn.Op
	done func(result)
}

// Commit makes the change and returns the record as it is then. It waits for
// ZooKeeper to come back if need be, a change by an owner for as long as its
// lease lasts. When it fails, nothing of it was written: ErrConflict, with the
// record as it is, when that is not From; ErrNoRequest when the manual run was
// withdrawn that To is about; ErrSpecChanged when the job's spec is not that of SpecVersion; ErrNotOwner, ErrCanceled, ErrEnded, or the cause
// of a lapsed lease. From a change that opens a run until one that closes it,
// or fails to, the slot counts as busy and is not handed over.
func (c *Coordinator) Commit(cm Commit) (zkrec.Tick, error) {
	cm.To = cm.To.Normal()
	return c.write(cm.Slot, &tickWrite{kind: writeCommit, commit: cm})
}

// Amend replaces what the history says of a run that was given up before its
// result came. ErrSuperseded: the history does not go back that far.
func (c *Coordinator) Amend(slot string, e zkrec.Entry) error {
	_, err := c.write(slot, &tickWrite{kind: writeAmend, amend: e})
	return err
}

func (c *Coordinator) write(slot string, w *tickWrite) (zkrec.Tick, error) {
	type answer struct {
		current zkrec.Tick
		err     error
	}
	answers := make(chan answer, 1)
	w.done = func(current zkrec.Tick, err error) { answers <- answer{current, err} }
	c.box.Post(func() { c.enqueue(slot, w) })
	select {
	case a := <-answers:
		return a.current, a.err
	case <-c.ended:
		return zkrec.Tick{}, ErrEnded
	}
}

// loadTick reads the record.
func (c *Coordinator) loadTick(slot string, done func(current zkrec.Tick, err error)) {
	c.enqueue(slot, &tickWrite{kind: loadTick, done: done})
}

func (c *Coordinator) enqueue(slot string, w *tickWrite) {
	t := c.ticks[slot]
	if t == nil {
		t = &tickNode{slot: slot}
		c.ticks[slot] = t
	}
	t.queue = append(t.queue, w)
	c.tellBusy(t)
	c.advance(t)
}

// tellBusy: a job is not handed over while its record is being changed or its
// run goes on.
func (c *Coordinator) tellBusy(t *tickNode) {
	c.step(lease.Busy{Slot: lease.Slot(t.slot), Busy: t.open != "" || len(t.queue) > 0})
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
		case w.kind == loadTick, w.kind == writeCommit && t.record == w.commit.To:
			c.finish(t, w, nil) // or the reply was lost, and the change was made
		case w.kind == writeCommit && t.record != w.commit.From:
			c.finish(t, w, ErrConflict)
		case c.closing.told && w.begins():
			c.finish(t, w, ErrDraining) // the next owner runs it, in a moment
		case c.isOutdated(t, w):
			c.finish(t, w, ErrSpecChanged)
		default:
			c.send(t, w)
			return
		}
	}
	if len(t.queue) == 0 && !t.busy && t.open == "" && c.owned[t.slot] == nil {
		delete(c.ticks, t.slot)
	}
}

// refuse says why w cannot be done any more.
func (c *Coordinator) refuse(t *tickNode, w *tickWrite) error {
	if w.kind != writeCommit || w.commit.Token == 0 {
		return nil
	}
	own := c.owned[t.slot]
	if own == nil || own.token != w.commit.Token {
		return ErrNotOwner
	}
	if !c.leads() {
		return ErrNotLeader
	}
	return own.lease.Err()
}

// isOutdated reports whether w rests on a spec that is known to be replaced.
func (c *Coordinator) isOutdated(t *tickNode, w *tickWrite) bool {
	j := c.jobOf(t.slot)
	return w.kind == writeCommit && w.commit.Token != 0 && j != nil && j.version != w.commit.SpecVersion
}

// finish reports w and takes it off the queue.
func (c *Coordinator) finish(t *tickNode, w *tickWrite, err error) {
	t.queue = t.queue[1:]
	switch opens := w.commit.Token != 0 && w.commit.To.Open(); {
	case w.kind == writeCommit && opens && err == nil:
		t.open = w.commit.To.RunID
	case w.kind == writeCommit && w.commit.Token == 0 && !errors.Is(err, ErrConflict), w.kind == writeAmend:
		t.open = "" // its run has a result, or can have none
	}
	w.done(t.record, err)
	c.tellBusy(t)
}

// fetchTick reads the nodes.
func (c *Coordinator) fetchTick(t *tickNode) {
	t.busy = true
	own := c.owned[t.slot]
	c.async("read tick", func(ctx context.Context) func() {
		s, err := c.readStored(ctx, t.slot)
		return func() {
			t.busy = false
			switch {
			case own != c.owned[t.slot]:
				// Read again: see lost.
			case zkconn.IsUnknown(err):
				return // the next session, or the next sync, goes on
			case errors.Is(err, zkconn.ErrNoNode):
				c.missingTick(t)
				return
			case err != nil:
				c.finish(t, t.queue[0], err)
			default:
				t.known, t.stored = true, s
			}
			c.advance(t)
		}
	})
}

// readStored reads the tick and the history node. A change moves both on, so
// it does not matter which of two states either is of: the versions decide.
func (c *Coordinator) readStored(ctx context.Context, slot string) (s stored, err error) {
	var tickErr, historyErr error
	c.together(ctx, 2, func(ctx context.Context, i int) {
		if i == 0 {
			tickErr = c.readTick(ctx, slot, c.conn.Get, &s)
		} else {
			historyErr = c.readHistory(ctx, slot, &s)
		}
	})
	if tickErr != nil {
		return s, tickErr
	}
	return s, historyErr
}

// get is a way to read a node.
type get func(ctx context.Context, path string) ([]byte, zkconn.Stat, error)

func (c *Coordinator) readTick(ctx context.Context, slot string, read get, s *stored) error {
	data, stat, err := read(ctx, c.tree.Tick(slot))
	if err == nil {
		s.version = stat.Version
		s.record, err = c.parseTick(slot, data, stat.Mtime)
	}
	return err
}

func (c *Coordinator) readHistory(ctx context.Context, slot string, s *stored) error {
	data, stat, err := c.conn.Get(ctx, c.tree.History(slot))
	if err == nil {
		s.historyVersion = stat.Version
		s.history, err = c.parseHistory(slot, data)
	}
	return err
}

// parseTick takes what is no record for one that says nothing, not even what
// was missed: running ticks a second time is worse than not running them. The
// node of a job that never ran was written when the job was: where that is later,
// a hand has deleted or emptied it, and the ticks before are nobody's.
func (c *Coordinator) parseTick(slot string, data []byte, written time.Time) (zkrec.Tick, error) {
	record, err := zkrec.ParseTick(data)
	if err == nil && record.Watermark == 0 {
		record.Watermark = written.UnixMilli()
	}
	if err == nil || errors.As(err, new(*zkrec.SchemaError)) {
		return record, err
	}
	c.log.Error("tick record is not readable: begun anew, without the ticks before now", "job", slot, "err", err)
	return zkrec.Tick{Watermark: time.Now().UnixMilli()}, nil
}

func (c *Coordinator) parseHistory(slot string, data []byte) (zkrec.History, error) {
	history, err := zkrec.ParseHistory(data)
	if err == nil || errors.As(err, new(*zkrec.SchemaError)) {
		return history, err
	}
	c.log.Error("history is not readable: begun anew", "job", slot, "err", err)
	return zkrec.History{}, nil
}

// missingTick: the job was made by the published sample or an older version
// and lacks a node, or it was deleted, which the protocol is about to find
// out.
func (c *Coordinator) missingTick(t *tickNode) {
	if c.owned[t.slot] == nil {
		c.finish(t, t.queue[0], ErrCanceled)
		c.advance(t)
		return
	}
	c.step(lease.Look{Slot: lease.Slot(t.slot)})
	c.repair(t.slot) // goes on with t
}
