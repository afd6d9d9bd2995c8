package keeper

import (
	"context"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/deletion"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// keepParts is how long the records of an instance, at a job that runs on every instance, are kept
// after its last sign: for people to read, and for the instance if it comes back.
const keepParts = job.DefaultKeepDone

// Parts removes the slots that instances have left of jobs that run on every instance. IDs are
// random by default, so nobody else ever would. One live instance looks, for each job.
type Parts struct {
	loop    *session.Loop
	member  *member.Member
	catalog *catalog.Catalog

	jobs map[*catalog.Job]*partsOf
}

// partsOf is a job that runs on every instance.
type partsOf struct {
	busy     bool
	nextLook time.Duration // Mono
}

// NewParts returns one that has removed nothing.
func NewParts(loop *session.Loop, m *member.Member, c *catalog.Catalog) *Parts {
	return &Parts{loop: loop, member: m, catalog: c, jobs: make(map[*catalog.Job]*partsOf)}
}

// Changed forgets a job that was changed, or is gone.
func (p *Parts) Changed(job *catalog.Job) { delete(p.jobs, job) }

// Sync removes the records that are due to be removed.
func (p *Parts) Sync() { p.catalog.Agenda.Due(p.look) }

func (p *Parts) look(job *catalog.Job) {
	if !job.Valid() || !job.Spec.Job.Everywhere || p.member.Cleanup.Rank(job.Name) != 0 {
		return
	}
	of := p.jobs[job]
	if of == nil {
		of = &partsOf{nextLook: p.loop.NextLook()}
		p.jobs[job] = of
	}
	p.catalog.Agenda.By(job, of.nextLook)
	if of.busy || p.loop.Now() < of.nextLook {
		return
	}
	of.busy = true
	before := p.member.Clock.Now().Add(-keepParts)
	p.loop.Async("remove parts", func(ctx context.Context) func() {
		removed, err := removeParts(ctx, p.loop, job.Name, before)
		return func() {
			of.busy, of.nextLook = false, p.loop.NextLook()
			if len(removed) > 0 {
				p.loop.Log.Info("cleaned up after instances that are gone", "job", job.Name, "instance_ids", removed)
			}
			if err != nil {
				p.loop.Log.Debug("cleanup after instances that are gone is incomplete", "job", job.Name, "err", err)
			}
		}
	})
}

// removeParts removes the slots of instances that do not live, and of which no node was written
// after a time. It is refused if an instance has joined meanwhile, which may be one that is back,
// or if a node was written.
func removeParts(ctx context.Context, l *session.Loop, job string, before time.Time) (removed []string, err error) {
	sids, _, err := l.Conn.Children(ctx, l.Tree.Everywhere(job))
	if err != nil {
		return nil, err
	}
	live, parent, err := l.Conn.Children(ctx, l.Tree.Instances())
	if err != nil {
		return nil, err
	}
	for _, sid := range sids {
		if slices.Contains(live, sid) {
			continue
		}
		paths, err := deletion.Below(ctx, l.Conn, l.Tree.Slot(zkrec.InstanceSlot(job, sid)))
		if err != nil {
			return removed, err
		}
		ops := []zkconn.Op{zkconn.CheckOp(l.Tree.Instances(), parent.Version)}
		recent := false
		for _, path := range paths {
			stat, found, err := l.Conn.Exists(ctx, path)
			if err != nil {
				return removed, err
			}
			recent = recent || !found || stat.Mtime.After(before)
			ops = append(ops, zkconn.DeleteOp(path, stat.Version))
		}
		if recent {
			continue
		}
		if _, err := l.Conn.Multi(ctx, ops...); err != nil {
			return removed, err
		}
		removed = append(removed, sid)
	}
	return removed, nil
}
