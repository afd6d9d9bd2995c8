package keeper

import (
	"bytes"
	"context"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// What is written while ZooKeeper's clock is ahead takes effect when that time has come. Until then nothing of it is due, so
// nothing runs, and no tick is overdue. The watchers of a job notice that, and write that it was written now.

// isDatedAhead reports whether the spec of a job may have a time that a wrong clock has given.
func (o *Overdue) isDatedAhead(job *catalog.Job) bool {
	latest := max(job.Written, job.Spec.Since)
	if pause := job.Spec.Paused; pause != nil {
		latest = max(latest, pause.Since)
	}
	return o.member.Clock.Ahead(latest)
}

// date corrects the times of a job's spec. Its node tells which of them it leaves out.
func (o *Overdue) date(job *catalog.Job, known *watch) {
	path, version, now := o.loop.Tree.Job(job.Name), job.Version, o.member.Clock.Now()
	latest, _ := o.member.Clock.Latest() // known: the job is dated ahead
	known.dated = true
	o.loop.Async("date job", func(ctx context.Context) func() {
		changed := false
		data, stat, err := o.loop.Conn.Get(ctx, path)
		if err == nil && stat.Version == version {
			var spec zkrec.Spec
			if spec, err = zkrec.ParseSpec(job.Name, data); err == nil {
				corrected := redated(spec, stat.Mtime, now, latest).Encode()
				if changed = !bytes.Equal(corrected, data); changed {
					_, err = signals.MultiOn(ctx, o.loop.Conn, path, stat.Czxid, signals.OfJob(o.loop.Tree, job.Name),
						zkconn.SetOp(path, corrected, version))
				}
			}
		}
		return func() {
			switch {
			case err != nil:
				known.dated = false // the next sync tries again
				o.catalog.Agenda.Wake(job)
				o.loop.Log.Debug("times of a job not corrected", "job", job.Name, "err", err)
			case changed:
				o.loop.Log.Warn("job was changed while ZooKeeper's clock was ahead: the change takes effect now",
					"job", job.Name, "written", stat.Mtime)
			}
		}
	})
}

// redated returns a spec with those of its times that are after the latest one that a right clock can have given as if it had been written
// now. What it leaves out is when it was written.
func redated(spec zkrec.Spec, written, now, latest time.Time) zkrec.Spec {
	ahead := func(ms int64) bool { return time.UnixMilli(ms).After(latest) }
	if !ahead(written.UnixMilli()) {
		spec = spec.WrittenAt(written)
	}
	if ahead(spec.Since) {
		spec.Since = 0
	}
	if spec.Paused != nil && ahead(spec.Paused.Since) {
		pause := *spec.Paused
		pause.Since = 0
		spec.Paused = &pause
	}
	return spec.WrittenAt(now)
}

// dateTick has the ticks of a slot begin now. Its record is as it was when its node was made.
func (l look) dateTick(record zkrec.Tick) {
	job, path := l.loop.Tree.Job(l.job.Name), l.loop.Tree.Tick(l.slot)
	record.Watermark = l.member.Clock.Now().UnixMilli()
	l.loop.Async("date slot", func(ctx context.Context) func() {
		_, err := l.loop.Conn.MultiOn(ctx, job, l.created, append(l.as, zkconn.SetOp(path, record.Encode(), 0))...)
		return func() {
			l.of.busy = false // the next sync looks again
			if err != nil {
				l.loop.Log.Debug("time of a slot not corrected", "job", l.slot, "err", err)
			}
		}
	})
}
