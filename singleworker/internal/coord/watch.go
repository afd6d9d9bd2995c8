package coord

import (
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Every instance knows every schedule, so each is the others' dead man's
// switch: a tick that nobody has accounted for in time is noticed by whoever
// lives, and reported by the one that writes the job's alarm node first.

// watched is when a job was looked at, and is to be, for overdue ticks.
type watched struct {
	lookAt  time.Time // on the wall clock, as ticks are
	looking bool
	raised  int64 // the tick that somebody has reported
	trying  int64 // the tick that this instance tries to report
}

// watch looks whether a tick of j is overdue, if it is time to. Between two
// looks no tick can become overdue, so that they cost little.
func (c *Coordinator) watch(j *job) {
	if !j.known || j.watched.looking || time.Now().Before(j.watched.lookAt) {
		return
	}
	j.watched.looking = true
	version := j.version
	c.async("look for overdue ticks", func(ctx context.Context) func() {
		record, running, err := c.fetchRun(ctx, j.name)
		return func() {
			if c.jobs[j.name] != j || j.version != version {
				return
			}
			j.watched.looking = false
			if err != nil {
				c.log.Debug("tick not read", "job", j.name, "err", err)
				return
			}
			tick, lookAgain := c.cfg.Watch(j.name, j.spec, record, running)
			j.watched.lookAt = lookAgain
			if lookAgain.IsZero() {
				j.watched.lookAt = time.Now().Add(idleLook)
			}
			if !tick.IsZero() && tick.UnixMilli() != j.watched.raised {
				c.raise(j, tick)
			}
		}
	})
}

// idleLook is how often a job is looked at that has no tick left.
const idleLook = time.Hour

// fetchRun reads a job's tick record and whether its run goes on at a live
// owner.
func (c *Coordinator) fetchRun(ctx context.Context, job string) (record zkrec.Tick, running bool, err error) {
	data, _, err := c.conn.Get(ctx, c.tree.Tick(job))
	if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
		return record, false, err
	}
	if record, err = zkrec.ParseTick(data); err != nil || !record.Open() {
		return record, false, err
	}
	_, stat, err := c.conn.Get(ctx, c.tree.Alive(job))
	if err != nil || stat.Mzxid != record.Token {
		return record, false, err
	}
	_, running, err = c.conn.Exists(ctx, c.tree.Instance(record.SID))
	return record, running, err
}

// raise reports an overdue tick, unless another instance has.
func (c *Coordinator) raise(j *job, tick time.Time) {
	path := c.tree.Alarm(j.name)
	alarm := zkrec.Alarm{Tick: tick.UnixMilli(), SID: c.cfg.SID, At: time.Now()}
	tried := j.watched.trying == alarm.Tick
	j.watched.trying = alarm.Tick
	c.async("raise alarm", func(ctx context.Context) func() {
		first, err := c.writeAlarm(ctx, path, alarm, tried)
		return func() {
			if err != nil {
				c.log.Debug("alarm not raised", "job", j.name, "err", err)
				j.watched.lookAt = time.Time{} // the next sync tries again
				return
			}
			j.watched.raised = alarm.Tick
			if first {
				c.cfg.Runner.Overdue(j.name, tick)
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
