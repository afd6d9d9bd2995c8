package keeper

import (
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/deletion"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Removal removes jobs that have been done for as long as they say. Nobody owns them, so each instance has a rank for each of
// them, by a hash, and waits a session timeout longer than the one before it: mostly one does the work. Whether the time is
// over is decided by ZooKeeper's clock.
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

// Sync removes what is to be removed.
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

// keepDone is how long a job is kept that is done.
func keepDone(job *catalog.Job) (keep time.Duration, done bool) {
	if !job.Done() || len(job.Slots) == 0 {
		return 0, false
	}
	return job.Spec.Job.WithDefaults().KeepDone, true
}

// removal is one try, beside the loop.
type removal struct {
	loop        *session.Loop
	job, slot   string
	incarnation string
	version     int32 // of the spec that says that the job is done
}

// errRequested is why a job stays that is done: somebody wants a run, and an older version has asked for it.
var errRequested = errors.New("a run is requested")

// run removes the job, or returns how long it is to be kept yet. A node that it creates below the first slot's tick node proves
// what time it is.
func (r removal) run(ctx context.Context) (left time.Duration, err error) {
	tree, conn := r.loop.Tree, r.loop.Conn
	proof := tree.Late(r.slot, r.incarnation)
	if _, err := conn.Multi(ctx, zkconn.CreateEphemeralOp(proof, nil)); err != nil && !errors.Is(err, zkconn.ErrNodeExists) {
		return 0, err
	}
	d := deletion.Deletion{Conn: conn, Tree: tree, Job: r.job, Version: r.version}
	left, opened, err := r.judge(ctx, &d, proof)
	if err == nil && left == 0 {
		if opened == nil {
			if err = d.Run(ctx); err == nil {
				return 0, nil
			}
		} else if _, err = signals.MultiOn(ctx, conn, tree.Job(r.job), d.Czxid, signals.OfJob(tree, r.job),
			zkconn.SetOp(tree.Job(r.job), opened.Encode(), r.version)); err == nil {
			err = errRequested
		}
	}
	if _, dropped := conn.Multi(ctx, zkconn.DeleteOp(proof, zkconn.AnyVersion)); dropped != nil && !errors.Is(dropped, zkconn.ErrNoNode) {
		r.loop.Log.Debug("node not deleted; it ends with the session", "path", proof, "err", dropped)
	}
	return left, err
}

// judge reads what the removal depends on, and which job that is. opened is the spec with which a job is opened again that is not to be removed.
func (r removal) judge(ctx context.Context, d *deletion.Deletion, proof string) (left time.Duration, opened *zkrec.Spec, err error) {
	tree, conn := r.loop.Tree, r.loop.Conn
	data, stat, err := conn.Get(ctx, tree.Job(r.job))
	if err != nil {
		return 0, nil, err
	}
	spec, err := zkrec.ParseSpec(r.job, data)
	if err != nil {
		return 0, nil, err
	}
	spec, d.Czxid = spec.WrittenAt(stat.Mtime), stat.Czxid
	if stat.Version != r.version || spec.Done == nil {
		return 0, nil, zkconn.ErrBadVersion
	}
	now, _, err := conn.Exists(ctx, proof)
	if err != nil {
		return 0, nil, err
	}
	over := time.UnixMilli(spec.Done.At).Add(spec.Job.WithDefaults().KeepDone)
	if left = over.Sub(now.Ctime); left > 0 {
		return left, nil, nil
	}
	for _, slot := range spec.ActiveLayout().Slots(r.job) {
		_, inbox, err := conn.Get(ctx, tree.Requests(slot))
		if err != nil {
			return 0, nil, err
		}
		if inbox.NumChildren > 0 {
			spec.Done = nil
			return 0, &spec, nil
		}
	}
	return 0, nil, nil
}
