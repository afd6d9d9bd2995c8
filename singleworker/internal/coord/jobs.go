package coord

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// job is what the loop knows of one job's records.
type job struct {
	name       string
	known      bool // version and what follows were read
	created    int64
	version    int32
	spec       zkrec.Spec
	problem    string // why it cannot run here, as last logged
	eligible   bool
	able       []string // the instances that are registered
	registered bool     // we are one of them
	slots      []string // those that the protocol knows of
	shards     shards
	keeper     *keeper // nil unless we look after all of its shards
	completing completing
	// lackedSince is, on Mono, since when some shards lack their nodes; 0: none does.
	lackedSince time.Duration
	creating    bool // nodes of shards are being made
	retiring    bool // those of former ones are being deleted
	// createAgain and retireAgain are, on Mono, before when that is not tried again.
	createAgain, retireAgain time.Duration
	refreshing               onePerTime
	repairing                onePerTime
	watched                  map[string]*watched // by slot
	nextLook                 time.Duration       // Mono: when the sync reads it again although no watch says so
}

// syncsPerLook is how many sync periods may pass until a job, or the list of jobs, is read again
// of which nothing is heard. The watches tell of every change, as long as the session lasts.
const syncsPerLook = 60

func (c *Coordinator) nextLook() time.Duration {
	return c.cfg.Clock.Now().Mono + task.Jitter(syncsPerLook*c.syncPeriod())
}

// listJobs finds out which jobs there are.
func (c *Coordinator) listJobs() {
	if !c.session.joined || !c.listing.begin() {
		return
	}
	c.async("list jobs", func(ctx context.Context) func() {
		names, _, err := c.conn.ChildrenW(ctx, c.tree.Root())
		return func() {
			if err != nil {
				c.log.Debug("jobs not listed", "err", err)
				c.nextList = 0
			} else {
				c.listed(names)
				c.nextList = c.nextLook()
			}
			if c.listing.end() {
				c.listJobs()
			}
		}
	})
}

func (c *Coordinator) listed(names []string) {
	present := make(map[string]bool, len(names))
	for _, name := range names {
		present[name] = true
		if zkrec.IsJob(name) && c.jobs[name] == nil {
			j := &job{name: name}
			c.jobs[name] = j
			c.refresh(j)
		}
	}
	for name, j := range c.jobs {
		if !present[name] {
			c.forget(j)
		}
	}
}

func (c *Coordinator) forget(j *job) {
	delete(c.jobs, j.name)
	j.keeper = nil
	c.traces.registeredAt(j.able, nil)
	delete(c.present, j.name)
	for _, slot := range j.slots {
		c.step(lease.SlotGone{Slot: lease.Slot(slot)})
	}
}

// jobOf is the job that a slot belongs to, or nil.
func (c *Coordinator) jobOf(slot string) *job { return c.jobs[zkrec.JobOfSlot(slot)] }

// view is one reading of a job's spec and registrations, and of the list of its
// shards.
type view struct {
	spec       zkrec.Spec
	specErr    error // why it is not readable
	data       []byte
	stat       zkconn.Stat
	registered []string
	shards     shards
	err        error
}

// refresh reads a job's records again and follows what they say.
func (c *Coordinator) refresh(j *job) {
	if !c.session.joined || !j.refreshing.begin() {
		return
	}
	c.async("read job", func(ctx context.Context) func() {
		v := c.fetchJob(ctx, j.name)
		return func() {
			again := j.refreshing.end()
			if c.jobs[j.name] != j {
				return // forgotten meanwhile
			}
			c.refreshed(j, v)
			if again {
				c.refresh(j)
			}
		}
	})
}

func (c *Coordinator) fetchJob(ctx context.Context, name string) (v view) {
	if v.data, v.stat, v.err = c.conn.GetW(ctx, c.tree.Job(name)); v.err != nil {
		return v
	}
	if v.spec, v.specErr = zkrec.ParseSpec(v.data); v.specErr == nil {
		v.specErr = v.spec.ActiveLayout().Check() // only a hand writes another: there is no list of its slots
	}
	v.spec.Since = v.spec.SinceOr(v.stat.Mtime)
	if v.spec.Shards > 0 || v.spec.Layout != nil {
		if v.shards, v.err = c.fetchShards(ctx, name); v.err != nil {
			return v
		}
	}
	v.registered, _, v.err = c.conn.ChildrenW(ctx, c.tree.Register(name))
	if errors.Is(v.err, zkconn.ErrNoNode) {
		v.err = nil // repaired when we register
	}
	slices.Sort(v.registered)
	return v
}

func (c *Coordinator) refreshed(j *job, v view) {
	j.nextLook = 0 // unless all is as it should be
	switch {
	case errors.Is(v.err, zkconn.ErrNoNode), v.spec.Canceled:
		c.forget(j)
		return
	case errors.Is(v.err, zkconn.ErrDenied):
		c.judge(j, zkrec.Spec{}, v.err)
		for _, slot := range j.slots {
			c.step(lease.SlotSet{Slot: lease.Slot(slot)})
		}
		return
	case v.err != nil:
		c.log.Debug("job not read", "job", j.name, "err", v.err)
		return
	}
	changed := !j.known || j.version != v.stat.Version || j.created != v.stat.Czxid
	j.known, j.version, j.created = true, v.stat.Version, v.stat.Czxid
	if changed {
		err := v.specErr
		if err == nil {
			err = c.cfg.Judge(j.name, v.spec)
		}
		c.judge(j, v.spec, err)
		j.watched = make(map[string]*watched)
	}
	j.shards = v.shards
	c.traces.registeredAt(j.able, v.registered)
	j.able = v.registered
	if j.registered = slices.Contains(v.registered, c.cfg.SID); j.registered {
		c.present[j.name] = struct{}{}
	}
	j.nextLook = c.nextLook()
	if j.registered != j.eligible {
		j.nextLook = 0
		c.register(j)
	}
	c.setSlots(j, v.specErr == nil)
	if changed {
		for _, slot := range j.slots {
			c.tellRunner(slot)
		}
	}
	c.keep(j)
}

// registerAll registers this instance for every job that it can run.
func (c *Coordinator) registerAll(ctx context.Context) error {
	names, _, err := c.conn.Children(ctx, c.tree.Root())
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !zkrec.IsJob(name) })
	views := make([]view, len(names))
	c.together(ctx, len(names), func(ctx context.Context, i int) { views[i] = c.fetchJob(ctx, names[i]) })
	var groups [][]zkconn.Op
	var added []string
	for i, v := range views {
		if zkconn.IsUnknown(v.err) {
			return v.err
		}
		if v.specErr == nil && c.cfg.Judge(names[i], v.spec) == nil && !slices.Contains(v.registered, c.cfg.SID) {
			path := c.tree.Registration(names[i], c.cfg.SID)
			groups = append(groups, []zkconn.Op{zkconn.CreateOp(path, nil)})
			added = append(added, names[i])
		}
	}
	c.box.Post(func() {
		for _, name := range added {
			c.present[name] = struct{}{}
		}
	})
	for _, chunk := range chunks(groups) {
		c.applyBatch(ctx, chunk) // what is refused, the job's first refresh looks into
	}
	return nil
}

// judge notes whether the job can run here, and says so when that changed.
func (c *Coordinator) judge(j *job, spec zkrec.Spec, err error) {
	j.spec, j.eligible = spec, err == nil
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != j.problem {
		level := slog.LevelWarn
		if errors.Is(err, ErrElsewhere) {
			level = slog.LevelDebug
		}
		c.log.Log(context.Background(), level, "job cannot run here", "job", j.name, "reason", problem)
		for _, slot := range j.slots {
			c.cfg.Runner.Disown(slot, err)
		}
	}
	j.problem = problem
}

// register adds or removes our registration, whichever is due, with the nodes
// that a job made by the published sample, or by hand, lacks.
func (c *Coordinator) register(j *job) {
	if c.closing.leaving && !j.registered {
		return
	}
	path := c.tree.Registration(j.name, c.cfg.SID)
	if !j.eligible {
		c.change(j, zkconn.DeleteOp(path, zkconn.AnyVersion))
		return
	}
	c.present[j.name] = struct{}{}
	c.change(j, zkconn.CreateOp(path, nil))
}

func (c *Coordinator) change(j *job, op zkconn.Op) {
	c.async("register", func(ctx context.Context) func() {
		_, err := c.conn.Multi(ctx, op)
		return func() {
			switch {
			case err == nil, errors.Is(err, zkconn.ErrNodeExists):
				c.refresh(j)
			case errors.Is(err, zkconn.ErrNoNode):
				c.repair(j.name)
			default: // the next sync tries again
				c.log.Debug("registration not changed", "job", j.name, "err", err)
			}
		}
	})
}
