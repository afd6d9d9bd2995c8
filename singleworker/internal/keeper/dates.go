package keeper

import (
	"bytes"
	"cmp"
	"context"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// A spec or a switch that is written while ZooKeeper's clock is ahead takes effect when that time
// has come. Until then nothing of it is due, so nothing runs, and no tick is overdue. The watchers
// of a job notice that, and write that it was written now.

// isDatedAhead reports whether the spec of a job, or its switch, may have a time that a wrong clock
// has given.
func (o *Overdue) isDatedAhead(job *catalog.Job) bool {
	latest := max(job.Written, job.Spec.Since)
	if pause := job.Spec.Switch.Paused; pause != nil {
		latest = max(latest, pause.Since)
	}
	return o.member.Clock.Ahead(latest)
}

// date corrects the times of a job's spec and switch. Their nodes tell which of them they leave
// out.
func (o *Overdue) date(job *catalog.Job, known *watch) {
	now, version := o.member.Clock.Now(), job.Version
	latest, _ := o.member.Clock.Latest() // known: the job is dated ahead
	known.dated = true
	o.loop.Async("date job", func(ctx context.Context) func() {
		changed, err := o.redate(ctx, job.Name, version, now, latest)
		return func() {
			switch {
			case err != nil:
				known.dated = false // the next sync tries again
				o.catalog.Agenda.Wake(job)
				o.loop.Log.Debug("times of a job not corrected", "job", job.Name, "err", err)
			case changed:
				o.loop.Log.Warn("job was changed while ZooKeeper's clock was ahead: the change takes effect now",
					"job", job.Name, "written", time.UnixMilli(job.Written))
			}
		}
	})
}

// redate writes the corrections for date, unless the job has changed.
func (o *Overdue) redate(ctx context.Context, name string, version ticks.Version, now, latest time.Time) (changed bool, err error) {
	path, register := o.loop.Tree.Job(name), o.loop.Tree.Register(name)
	read := o.loop.Conn.ReadMany(ctx, []zkconn.Read{{Path: path}, {Path: register}})
	if err := cmp.Or(read[0].Err, read[1].Err); err != nil {
		return false, err
	}
	spec, err := zkrec.ParseSpec(name, read[0].Data)
	if err != nil {
		return false, err
	}
	turned, err := zkrec.ParseSwitch(read[1].Data)
	if err != nil {
		return false, err
	}
	var ops []zkconn.Op
	// A corrected record may be dated ahead as well, and leaves no time out.
	if corrected, ahead := redated(spec, read[0].Stat.Mtime, now, latest); ahead && !bytes.Equal(corrected.Encode(), spec.Encode()) {
		ops = append(ops, zkconn.SetOp(path, corrected.Encode(), version.Spec))
	}
	if corrected, ahead := repaused(turned, read[1].Stat.Mtime, now, latest); ahead && !bytes.Equal(corrected.Encode(), turned.Encode()) {
		ops = append(ops, zkconn.SetOp(register, corrected.Encode(), version.Switch))
	}
	if len(ops) == 0 {
		return false, nil
	}
	_, err = signals.MultiOn(ctx, o.loop.Conn, path, read[0].Stat.Czxid, signals.OfJob(o.loop.Tree, name), ops...)
	return true, err
}

// redated returns a spec whose times after latest, the last that a right clock can have given, are
// as if it had been written now, and whether there are any. A time that it leaves out is the time
// at which it was written.
func redated(spec zkrec.Spec, written, now, latest time.Time) (corrected zkrec.Spec, ahead bool) {
	if ahead = written.After(latest); !ahead {
		spec = spec.WrittenAt(written)
	}
	if time.UnixMilli(spec.Since).After(latest) {
		spec.Since, ahead = 0, true
	}
	return spec.WrittenAt(now), ahead
}

// repaused is the same for a switch.
func repaused(of zkrec.Switch, written, now, latest time.Time) (corrected zkrec.Switch, ahead bool) {
	if of.Paused == nil {
		return of, false
	}
	if ahead = written.After(latest); !ahead {
		of = of.WrittenAt(written)
	}
	if pause := *of.Paused; time.UnixMilli(pause.Since).After(latest) {
		pause.Since, of.Paused, ahead = 0, &pause, true
	}
	return of.WrittenAt(now), ahead
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
