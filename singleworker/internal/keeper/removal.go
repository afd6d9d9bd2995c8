package keeper

import (
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/deletion"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Removal removes jobs that have been done for as long as they say. Nobody owns them, so each
// instance has a rank for each of them, by a hash, and waits a session timeout longer than the one
// before it: mostly one does the work. Whether the time is over is decided by ZooKeeper's clock.
type Removal struct {
	loop    *session.Loop
	member  *member.Member
	catalog *catalog.Catalog

	jobs map[*catalog.Job]*removing
}

// removing is a job that is done.
type removing struct {
	busy      bool
	notBefore time.Duration // Mono: when to try
}

// NewRemoval returns one that has removed nothing.
func NewRemoval(loop *session.Loop, m *member.Member, c *catalog.Catalog) *Removal {
	return &Removal{loop: loop, member: m, catalog: c, jobs: make(map[*catalog.Job]*removing)}
}

// Changed forgets a job that was changed, or is gone.
func (r *Removal) Changed(job *catalog.Job) { delete(r.jobs, job) }

// Sync removes the jobs that are due to be removed.
func (r *Removal) Sync() { r.catalog.Agenda.Due(r.look) }

func (r *Removal) look(job *catalog.Job) {
	keep, done := keepDone(job)
	if !done || keep < 0 { // job.KeepForever
		return
	}
	over := time.UnixMilli(job.Spec.Done.At).Add(keep)
	if now := r.member.Clock.Now(); now.Before(over) { // a guess
		r.catalog.Agenda.ByWall(job, over, now)
		return
	}
	known := r.jobs[job]
	if known == nil {
		known = &removing{notBefore: r.loop.Now() + time.Duration(r.member.Cleanup.Rank(job.Name))*r.loop.Conn.SessionTimeout()}
		r.jobs[job] = known
	}
	r.catalog.Agenda.By(job, known.notBefore)
	if known.busy || r.loop.Now() < known.notBefore {
		return
	}
	known.busy = true
	one := removal{r.loop, job.Name, job.Slots[0], r.member.Self().Incarnation, job.Version}
	r.loop.Async("remove job", func(ctx context.Context) func() {
		left, err := one.run(ctx)
		return func() {
			known.busy = false
			known.notBefore = r.loop.Now() + max(left, r.loop.SyncPeriod())
			if err == nil && left == 0 {
				r.loop.Log.Info("job removed: it was done", "job", job.Name, "done", time.UnixMilli(job.Spec.Done.At), "kept", keep.String())
			} else {
				r.loop.Log.Debug("job that is done not removed", "job", job.Name, "left", left, "err", err)
			}
		}
	})
}

// keepDone is how long a job is kept that is done. One that is over by its bounds is not removed:
// code that declares it would create it again, and its runs would begin anew.
func keepDone(job *catalog.Job) (keep time.Duration, done bool) {
	if !job.Done() || len(job.Slots) == 0 || !job.Ticks.Schedule.Once() {
		return 0, false
	}
	return job.Spec.Job.WithDefaults().KeepDone, true
}

// removal is one try, beside the loop.
type removal struct {
	loop        *session.Loop
	job, slot   string
	incarnation string
	version     ticks.Version // says that the job is done
}

// run removes the job, or returns how long it is to be kept yet. A node that it creates below the
// first slot's tick node proves what time it is.
func (r removal) run(ctx context.Context) (left time.Duration, err error) {
	tree, conn := r.loop.Tree, r.loop.Conn
	proof := tree.Late(r.slot, r.incarnation)
	if _, err := conn.Multi(ctx, zkconn.CreateEphemeralOp(proof, nil)); err != nil && !errors.Is(err, zkconn.ErrNodeExists) {
		return 0, err
	}
	left, created, err := r.judge(ctx, proof)
	if err == nil && left == 0 {
		d := deletion.Deletion{Conn: conn, Tree: tree, Job: r.job, Czxid: created, Same: owner.VersionOps(tree, r.job, r.version)}
		if err = d.Run(ctx); err == nil {
			return 0, nil
		}
	}
	if _, dropped := conn.Multi(ctx, zkconn.DeleteOp(proof, zkconn.AnyVersion)); dropped != nil && !errors.Is(dropped, zkconn.ErrNoNode) {
		r.loop.Log.Debug("node not deleted; it ends with the session", "path", proof, "err", dropped)
	}
	return left, err
}

// judge reads how long the job is to be kept yet, and which transaction has created it. Who asks
// for a run of a job that is done opens it, so nothing is asked of one that still is.
func (r removal) judge(ctx context.Context, proof string) (left time.Duration, created int64, err error) {
	data, stat, err := r.loop.Conn.Get(ctx, r.loop.Tree.Job(r.job))
	if err != nil {
		return 0, 0, err
	}
	spec, err := zkrec.ParseSpec(r.job, data)
	if err != nil {
		return 0, 0, err
	}
	spec = spec.WrittenAt(stat.Mtime)
	if stat.Version != r.version.Spec || spec.Done == nil {
		return 0, 0, zkconn.ErrBadVersion
	}
	now, _, err := r.loop.Conn.Exists(ctx, proof)
	if err != nil {
		return 0, 0, err
	}
	over := time.UnixMilli(spec.Done.At).Add(spec.Job.WithDefaults().KeepDone)
	return max(0, over.Sub(now.Ctime)), stat.Czxid, nil
}
