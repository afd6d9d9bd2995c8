package keeper

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Overdue looks for ticks that nobody has accounted for in time.
type Overdue struct {
	loop     *session.Loop
	member   *member.Member
	catalog  *catalog.Catalog
	reporter Reporter

	jobs map[*catalog.Job]map[string]*watched // by slot
}

// watched is a slot whose ticks are watched.
type watched struct {
	lookAt  time.Time // when to look again, on the wall clock, as ticks are
	looking bool
	raised  int64 // the tick that was reported
	trying  int64 // the tick that this instance tries to report
	// unreadable: the log says that the record cannot be read.
	unreadable bool
}

// NewOverdue returns a dead man's switch.
func NewOverdue(loop *session.Loop, m *member.Member, c *catalog.Catalog, r Reporter) *Overdue {
	return &Overdue{loop: loop, member: m, catalog: c, reporter: r, jobs: make(map[*catalog.Job]map[string]*watched)}
}

// Changed forgets when to look at a job's slots: its spec is another one, or it is gone.
func (o *Overdue) Changed(job *catalog.Job) { delete(o.jobs, job) }

// Sync looks at each slot of which a tick may be overdue. Between two looks no tick can become
// overdue, so looks are rare.
func (o *Overdue) Sync() { o.catalog.Jobs(o.watch) }

func (o *Overdue) watch(job *catalog.Job) {
	if !job.Valid() {
		return // it can run nowhere, which the catalog says
	}
	slots := o.jobs[job]
	if slots == nil {
		slots = make(map[string]*watched)
		o.jobs[job] = slots
	}
	for _, slot := range job.Slots {
		w := slots[slot]
		if w == nil {
			w = &watched{}
			slots[slot] = w
		}
		if !w.looking && !time.Now().Before(w.lookAt) {
			o.look(job, slot, w)
		}
	}
}

func (o *Overdue) look(job *catalog.Job, slot string, w *watched) {
	w.looking = true
	judged := job.Ticks
	o.loop.Async("look for overdue ticks", func(ctx context.Context) func() {
		record, running, err := o.fetchRun(ctx, slot)
		return func() {
			w.looking = false
			if err != nil {
				o.notRead(ctx, slot, w, err)
				return
			}
			w.unreadable = false
			if o.jobs[job][slot] != w {
				return // the spec has changed
			}
			tick, lookAgain := ticks.Overdue(judged, record, running, time.Now())
			w.lookAt = lookAgain
			if lookAgain.IsZero() {
				w.lookAt = time.Now().Add(idleLook)
			}
			if !tick.IsZero() && tick.UnixMilli() != w.raised {
				o.raise(slot, w, tick)
			}
		}
	})
}

func (o *Overdue) notRead(ctx context.Context, slot string, w *watched, err error) {
	level := slog.LevelDebug
	lasting := errors.Is(err, zkconn.ErrDenied) || errors.As(err, new(*zkrec.SchemaError))
	if lasting && !w.unreadable {
		level, w.unreadable = slog.LevelError, true
	}
	o.loop.Log.Log(ctx, level, "overdue ticks are not noticed: tick not read", "job", slot,
		"path", o.loop.Tree.Tick(slot), "err", err)
}

// idleLook is how often a slot is looked at that has no tick left.
const idleLook = time.Hour

// fetchRun reads a slot's tick record and whether its run is under way at a live owner. An unreadable
// record accounts for no tick before it was written, here; for its next owner it accounts for those
// until it is read, see parseTick in package journal. One of a newer version may account for all.
func (o *Overdue) fetchRun(ctx context.Context, slot string) (record zkrec.Tick, running bool, err error) {
	conn, tree := o.loop.Conn, o.loop.Tree
	data, stat, err := conn.Get(ctx, tree.Tick(slot))
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
	_, stat, err = conn.Get(ctx, tree.Alive(slot))
	if err != nil || stat.Mzxid != record.Token {
		return record, false, err
	}
	_, running, err = conn.Exists(ctx, tree.Instance(record.SID))
	return record, running, err
}

// raise reports an overdue tick, unless another instance has.
func (o *Overdue) raise(slot string, w *watched, tick time.Time) {
	path := o.loop.Tree.Alarm(slot)
	alarm := zkrec.Alarm{Tick: tick.UnixMilli(), SID: o.member.ID(), At: time.Now()}
	tried := w.trying == alarm.Tick
	w.trying = alarm.Tick
	o.loop.Async("raise alarm", func(ctx context.Context) func() {
		first, err := o.writeAlarm(ctx, path, alarm, tried)
		return func() {
			if err != nil {
				o.loop.Log.Debug("alarm not raised", "job", slot, "err", err)
				w.lookAt = time.Time{} // the next sync tries again
				return
			}
			w.raised = alarm.Tick
			if first {
				o.reporter.Overdue(slot, tick)
			}
		}
	})
}

// writeAlarm reports whether alarm is this instance's to raise. tried: an earlier try was made whose
// answer was lost.
func (o *Overdue) writeAlarm(ctx context.Context, path string, alarm zkrec.Alarm, tried bool) (first bool, err error) {
	data, stat, err := o.loop.Conn.Get(ctx, path)
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
	_, err = o.loop.Conn.Multi(ctx, op)
	if errors.Is(err, zkconn.ErrBadVersion) || errors.Is(err, zkconn.ErrNodeExists) {
		return false, nil // another instance was faster
	}
	return err == nil, err
}
