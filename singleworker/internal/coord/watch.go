package coord

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Every instance knows every schedule, so each is the others' dead man's
// switch: a tick that nobody has accounted for in time is noticed by whoever
// lives, and reported by the one that writes the slot's alarm node first.

// watched is when a slot was looked at, and is to be, for overdue ticks.
type watched struct {
	lookAt  time.Time // on the wall clock, as ticks are
	looking bool
	raised  int64 // the tick that somebody has reported
	trying  int64 // the tick that this instance tries to report
	// unreadable: that the record cannot be read was said.
	unreadable bool
}

// watch looks whether a tick of one of j's slots is overdue, if it is time to.
// Between two looks no tick can become overdue, so that they cost little.
func (c *Coordinator) watch(j *job) {
	if !j.known {
		return
	}
	for _, slot := range j.slots {
		w := j.watched[slot]
		if w == nil {
			w = &watched{}
			j.watched[slot] = w
		}
		if !w.looking && !time.Now().Before(w.lookAt) {
			c.watchSlot(j, slot, w)
		}
	}
}

func (c *Coordinator) watchSlot(j *job, slot string, w *watched) {
	w.looking = true
	spec := j.spec
	c.async("look for overdue ticks", func(ctx context.Context) func() {
		record, running, err := c.fetchRun(ctx, slot)
		return func() {
			w.looking = false
			if err != nil {
				level := slog.LevelDebug
				lasting := errors.Is(err, zkconn.ErrDenied) || errors.As(err, new(*zkrec.SchemaError))
				if lasting && !w.unreadable {
					level, w.unreadable = slog.LevelError, true
				}
				c.log.Log(ctx, level, "overdue ticks are not noticed: tick not read", "job", slot, "err", err)
				return
			}
			w.unreadable = false
			if c.jobs[j.name] != j || j.watched[slot] != w {
				return
			}
			tick, lookAgain := c.cfg.Watch(spec, record, running)
			w.lookAt = lookAgain
			if lookAgain.IsZero() {
				w.lookAt = time.Now().Add(idleLook)
			}
			if !tick.IsZero() && tick.UnixMilli() != w.raised {
				c.raise(slot, w, tick)
			}
		}
	})
}

// idleLook is how often a slot is looked at that has no tick left.
const idleLook = time.Hour

// fetchRun reads a slot's tick record and whether its run goes on at a live
// owner. Whatever a hand has written there accounts for no tick up to then; for
// the next owner of what is no record at all it is those up to its reading, see
// parseTick. What a newer version has written may account for all.
func (c *Coordinator) fetchRun(ctx context.Context, slot string) (record zkrec.Tick, running bool, err error) {
	data, stat, err := c.conn.Get(ctx, c.tree.Tick(slot))
	if errors.Is(err, zkconn.ErrNoNode) {
		return record, false, nil
	}
	if err != nil {
		return record, false, err
	}
	record, err = zkrec.ParseTick(data)
	if errors.As(err, new(*zkrec.SchemaError)) {
		return record, false, err
	}
	if record.Watermark == 0 {
		record.Watermark = stat.Mtime.UnixMilli()
	}
	if !record.Open() {
		return record, false, nil
	}
	_, stat, err = c.conn.Get(ctx, c.tree.Alive(slot))
	if err != nil || stat.Mzxid != record.Token {
		return record, false, err
	}
	_, running, err = c.conn.Exists(ctx, c.tree.Instance(record.SID))
	return record, running, err
}

// raise reports an overdue tick, unless another instance has.
func (c *Coordinator) raise(slot string, w *watched, tick time.Time) {
	path := c.tree.Alarm(slot)
	alarm := zkrec.Alarm{Tick: tick.UnixMilli(), SID: c.cfg.SID, At: time.Now()}
	tried := w.trying == alarm.Tick
	w.trying = alarm.Tick
	c.async("raise alarm", func(ctx context.Context) func() {
		first, err := c.writeAlarm(ctx, path, alarm, tried)
		return func() {
			if err != nil {
				c.log.Debug("alarm not raised", "job", slot, "err", err)
				w.lookAt = time.Time{} // the next sync tries again
				return
			}
			w.raised = alarm.Tick
			if first {
				c.cfg.Runner.Overdue(slot, tick)
			}
		}
	})
}

// writeAlarm reports whether alarm is ours to raise. tried: an earlier try was
// made whose answer was lost.
func (c *Coordinator) writeAlarm(
	ctx context.Context, path string, alarm zkrec.Alarm, tried bool,
) (first bool, err error) {
	data, stat, err := c.conn.Get(ctx, path)
	op := zkconn.CreateOp(path, alarm.Encode())
	switch {
	case errors.Is(err, zkconn.ErrNoNode):
	case err != nil:
		return false, err
	default:
		old, parseErr := zkrec.ParseAlarm(data)
		if parseErr == nil && old.Tick >= alarm.Tick {
			return tried && old.Tick == alarm.Tick && old.SID == alarm.SID, nil
		}
		op = zkconn.SetOp(path, alarm.Encode(), stat.Version)
	}
	_, err = c.conn.Multi(ctx, op)
	if errors.Is(err, zkconn.ErrBadVersion) || errors.Is(err, zkconn.ErrNodeExists) {
		return false, nil // somebody was faster
	}
	return err == nil, err
}
