package catalog

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Freeze follows the group's freeze. A decision by a former version of it is refused: transactions
// check the version, also of jobs that are excepted.
type Freeze struct {
	catalog *Catalog
	read    zkrec.ReadFreeze
	known   bool  // it was read
	mzxid   int64 // of the record that was read
	reading session.OnePerTime
}

func freezeRead(tree zkrec.Tree) zkconn.Read { return zkconn.Read{Path: tree.Freeze(), Watch: true} }

// Hear reads the freeze again, which has changed.
func (f *Freeze) Hear() {
	loop := f.catalog.loop
	if !loop.Joined() || !f.reading.Begin() {
		return
	}
	loop.Read([]zkconn.Read{freezeRead(loop.Tree)}, func(results []zkconn.ReadResult) {
		again := f.reading.End()
		f.take(results[0])
		if again {
			f.Hear()
		}
	})
}

func (f *Freeze) take(r zkconn.ReadResult) {
	switch missing := errors.Is(r.Err, zkconn.ErrNoNode); {
	case missing || zkconn.IsUnknown(r.Err):
		f.readAgain(missing)
		return
	case f.known && f.mzxid == r.Stat.Mzxid && (f.read.Err == nil) == (r.Err == nil):
		return
	}
	f.read = zkrec.NewFreeze(r.Data, r.Stat.Version, r.Stat.Mtime, r.Err)
	f.known, f.mzxid = true, r.Stat.Mzxid
	loop := f.catalog.loop
	if f.read.Err != nil {
		loop.Log.Error("group counts as frozen: the record of its freeze cannot be read (swctl unfreeze replaces it)", "path", loop.Tree.Freeze(), "err", f.read.Err)
	}
	for _, j := range f.catalog.sorted.of(f.catalog.jobs) {
		if j.waits != nil {
			f.catalog.refreshed(j, *j.waits)
			continue
		}
		v := view{ticks: j.Ticks, stamp: j.stamp}
		f.into(j.Name, &v)
		j.stamp = v.stamp
		if j.Ticks = v.ticks; j.Valid() {
			f.catalog.Agenda.Wake(j)
			loop.Tell(Changed{Job: j, Spec: true})
		}
	}
}

// readAgain reads the freeze later, and makes its node if somebody has deleted it.
func (f *Freeze) readAgain(missing bool) {
	loop := f.catalog.loop
	loop.Async("read freeze again", func(ctx context.Context) func() {
		if !missing || loop.Conn.EnsureRoot(ctx, loop.Tree.Freeze()) != nil {
			loop.WaitToAskAgain(ctx)
		}
		return f.Hear
	})
}

// hold keeps the view of a job until the freeze was read.
func (f *Freeze) hold(j *Job, v *view) (waits bool) {
	if !f.known {
		j.waits, j.nextLook = v, f.catalog.loop.NextLook()
		return true
	}
	v.stamp.Version.Freeze = f.read.Version
	return false
}

// into completes a view of a job, whose calendars are known.
func (f *Freeze) into(name string, v *view) {
	if v.stamp.Version.Freeze = f.read.Version; v.ticks == nil {
		return
	}
	frozen := *v.ticks
	frozen.Version.Freeze, frozen.Frozen = f.read.Version, f.read.Of(name)
	v.ticks = &frozen
}
