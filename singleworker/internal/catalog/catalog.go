package catalog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/listing"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// ErrElsewhere is why a job whose handler this instance lacks cannot run here.
var ErrElsewhere = errors.New("no such handler in this instance")

// Handlers says which handlers this instance has. It must be safe for concurrent use.
type Handlers interface{ Has(name string) bool }

// The notices of this room.
type (
	// SlotSet tells that a slot exists, and who can run it.
	SlotSet struct{ lease.SlotSet }
	// SlotGone tells that a slot no longer exists.
	SlotGone struct{ Slot lease.Slot }
	// Changed tells that a job, or what is known of its nodes, was read again. Spec says that its
	// spec is another one now.
	Changed struct {
		Job  *Job
		Spec bool
	}
	// Unrunnable tells that this instance cannot run a job that it may have run before.
	Unrunnable struct {
		Job *Job
		Err error
	}
	// Repaired tells that nodes that a slot may have lacked were created.
	Repaired struct{ Slot string }
)

// Catalog knows the group's jobs.
type Catalog struct {
	loop     *session.Loop
	member   *member.Member
	handlers Handlers

	jobs       map[string]*Job
	registered map[string]struct{} // jobs at which this instance is registered, or may be
	crowded    bool                // the list of jobs was long when it was read last
	misnamed   int                 // how many nodes stand where jobs do without a job's name, as last logged
	listing    session.OnePerTime
	nextList   time.Duration // Mono: when to list the jobs although no watch tells
}

// New returns an empty catalog.
func New(loop *session.Loop, m *member.Member, handlers Handlers) *Catalog {
	return &Catalog{
		loop: loop, member: m, handlers: handlers,
		jobs: make(map[string]*Job), registered: make(map[string]struct{}),
	}
}

// Job is what is known of one job.
type Job struct {
	Name     string
	Spec     zkrec.Spec // with Since set
	Version  int32      // of the spec
	Ticks    ticks.Job  // Spec parsed; only of a valid spec
	Written  time.Time  // when the spec was last written, on ZooKeeper's clock
	Slots    []string   // of the active layout, whose nodes exist
	Stale    []string   // shards whose nodes exist although the active layout has no such slot
	Eligible bool       // this instance can run it

	valid        bool // Ticks was parsed from Version
	known        bool // Version and what follows were read
	created      int64
	problem      string            // why it cannot run here, as last logged
	unreadable   map[string]string // why nodes cannot be read, by path, as last logged
	spoilt       bool              // the spec, or the record of complete ticks, is no record
	invalidSince time.Duration     // Mono: since when no instance can run it; 0: it can
	able         []string
	isAble       bool // this instance is one of them
	shards       shards
	nextLook     time.Duration // Mono: when to read it again although no watch tells
	refreshing   session.OnePerTime
	repairing    session.OnePerTime
	creation     creation
}

// Valid reports whether the job has a spec that can run somewhere: Ticks is set.
func (j *Job) Valid() bool { return j.valid }

// Known reports whether the job was read.
func (j *Job) Known() bool { return j.known }

// Complete is the record of complete ticks, as it was when the shards were listed.
func (j *Job) Complete() zkrec.Complete { return j.shards.complete }

// Has reports whether slot is one that the job has now.
func (j *Job) Has(slot string) bool { return slices.Contains(j.Slots, slot) }

// JobOf is the job that a slot belongs to, or nil.
func (c *Catalog) JobOf(slot string) *Job { return c.jobs[zkrec.JobOfSlot(slot)] }

// Current reports whether j still is the job of its name.
func (c *Catalog) Current(j *Job) bool { return c.jobs[j.Name] == j }

// Jobs calls f for every job.
func (c *Catalog) Jobs(f func(j *Job)) {
	for _, j := range c.jobs {
		f(j)
	}
}

// Soon reports whether a tick of the slot is so near, or so recent, that the slot should not move now.
func (c *Catalog) Soon(slot lease.Slot) bool {
	j := c.JobOf(string(slot))
	return j != nil && j.Eligible && ticks.Soon(j.Ticks, c.loop.Clock.Wall())
}

// Traces lists what members that are gone may have left at each job.
func (c *Catalog) Traces() []member.Traced {
	traced := make([]member.Traced, 0, len(c.jobs))
	for _, j := range c.jobs {
		traced = append(traced, member.Traced{Job: j.Name, Registered: j.able, Slots: j.Slots})
	}
	slices.SortFunc(traced, func(a, b member.Traced) int { return strings.Compare(a.Job, b.Job) })
	return traced
}

// Joined has everything read again: what happened while not joined was not followed.
func (c *Catalog) Joined() {
	c.nextList = 0
	for _, j := range c.jobs {
		j.nextLook = 0
	}
}

// Sync reads what is due to be read although no watch tells.
func (c *Catalog) Sync() {
	now := c.loop.Now()
	if now >= c.nextList {
		c.List()
	}
	for _, j := range c.jobs {
		if now >= j.nextLook {
			c.Refresh(j)
		}
	}
}

// List finds out which jobs there are.
func (c *Catalog) List() {
	if !c.loop.Joined() || !c.listing.Begin() {
		return
	}
	c.loop.Async("list jobs", func(ctx context.Context) func() {
		names, _, err := c.loop.Conn.ChildrenW(ctx, c.loop.Tree.Root())
		if err != nil && !zkconn.IsUnknown(err) {
			c.loop.WaitToAskAgain(ctx) // the jobs that are known stay as they are
		}
		return func() {
			if err != nil {
				c.member.LogUnreadable(c.loop.Tree.Root(), err)
				c.nextList = 0
			} else {
				c.listed(names)
				c.nextList = c.loop.NextLook()
			}
			if c.listing.End() {
				c.List()
			}
		}
	})
}

func (c *Catalog) listed(names []string) {
	crowded := listing.Length(names) > listing.Warn
	if crowded && !c.crowded {
		c.loop.Log.Warn("the list of jobs is half as long as it may become: move some to another server type or chroot",
			"path", c.loop.Tree.Root(), "jobs", len(names), "bytes", listing.Length(names), "at_most", listing.Max)
	}
	c.crowded = crowded
	present := make(map[string]bool, len(names))
	var misnamed []string
	for _, name := range names {
		present[name] = true
		is, err := zkrec.JobName(name)
		if err != nil {
			misnamed = append(misnamed, name)
		}
		if is && err == nil && c.jobs[name] == nil {
			j := &Job{Name: name}
			c.jobs[name] = j
			c.Refresh(j)
		}
	}
	for name, j := range c.jobs {
		if !present[name] {
			c.forget(j)
		}
	}
	if len(misnamed) > 0 && len(misnamed) != c.misnamed { // in one line, for there may be thousands
		first := slices.Min(misnamed)
		_, err := zkrec.JobName(first)
		c.loop.Log.Error("nodes ignored: they cannot be jobs because of their names", "path", c.loop.Tree.Root(),
			"count", len(misnamed), "first", first, "err", err)
	}
	c.misnamed = len(misnamed)
}

func (c *Catalog) forget(j *Job) {
	delete(c.jobs, j.Name)
	c.member.Cleanup.RegistrationsChanged(j.able, nil)
	delete(c.registered, j.Name)
	for _, slot := range j.Slots {
		c.loop.Tell(SlotGone{lease.Slot(slot)})
	}
	c.loop.Tell(Changed{Job: j})
}

// view is one reading of a job's spec and registrations, and of the list of its shards.
type view struct {
	spec       zkrec.Spec
	specErr    error // why it, or the record of complete ticks, cannot be read
	ticks      ticks.Job
	ticksErr   error // why it can never run
	stat       zkconn.Stat
	registered []string
	shards     shards
	err        error
}

// RefreshJob reads the records of the named job again.
func (c *Catalog) RefreshJob(name string) {
	if j := c.jobs[name]; j != nil {
		c.Refresh(j)
	}
}

// Refresh reads a job's records again and follows what they say.
func (c *Catalog) Refresh(j *Job) {
	if !c.loop.Joined() || !c.Current(j) || !j.refreshing.Begin() {
		return
	}
	known := j.parsed()
	c.loop.Async("read job", func(ctx context.Context) func() {
		v := c.fetchJob(ctx, j.Name, known)
		return func() {
			again := j.refreshing.End()
			if !c.Current(j) {
				return
			}
			c.refreshed(j, v)
			if again {
				c.Refresh(j)
			}
		}
	})
}

// parsed is a version of a spec that need not be parsed again.
type parsed struct {
	valid   bool
	created int64
	job     ticks.Job
}

func (j *Job) parsed() parsed { return parsed{j.valid, j.created, j.Ticks} }

func (c *Catalog) fetchJob(ctx context.Context, name string, known parsed) (v view) {
	path := c.loop.Tree.Job(name)
	var data []byte
	if data, v.stat, v.err = c.loop.Conn.GetW(ctx, path); v.err != nil {
		return v
	}
	if v.spec, v.specErr = zkrec.ParseSpec(name, data); v.specErr == nil {
		v.specErr = v.spec.ActiveLayout().Check() // no version writes such a layout: its slots cannot be listed
	}
	v.specErr = session.ReadError(path, v.specErr)
	v.spec = v.spec.WrittenAt(v.stat.Mtime)
	switch {
	case v.specErr != nil:
	case known.valid && known.created == v.stat.Czxid && known.job.SpecVersion == v.stat.Version:
		v.ticks = known.job
	default:
		v.ticks, v.ticksErr = ticks.JobOf(v.spec, v.stat.Version)
	}
	if v.spec.Job.Shards > 0 || v.spec.Layout != nil {
		if v.shards, v.err = fetchShards(ctx, c.loop, name); errors.As(v.err, new(*zkrec.UnreadableError)) {
			v.specErr, v.err = v.err, nil
		}
		if v.err != nil {
			return v
		}
	}
	v.registered, _, v.err = c.loop.Conn.ChildrenW(ctx, c.loop.Tree.Register(name))
	if errors.Is(v.err, zkconn.ErrNoNode) {
		v.err = nil // created when we register
	}
	slices.Sort(v.registered)
	return v
}

func (c *Catalog) refreshed(j *Job, v view) {
	j.nextLook = 0 // unless everything is as it should be
	switch {
	case errors.Is(v.err, zkconn.ErrNoNode), v.spec.Canceled:
		c.forget(j)
		return
	case errors.Is(v.err, zkconn.ErrDenied):
		c.setSpec(j, zkrec.Spec{}, ticks.Job{}, session.ReadError(c.loop.Tree.Job(j.Name), v.err))
		for _, slot := range j.Slots {
			c.loop.Tell(SlotSet{lease.SlotSet{Slot: lease.Slot(slot)}})
		}
		return
	case v.err != nil:
		c.loop.Log.Debug("job not read", "job", j.Name, "err", v.err)
		return
	}
	changed := !j.known || j.Version != v.stat.Version || j.created != v.stat.Czxid
	j.known, j.Version, j.created, j.Written = true, v.stat.Version, v.stat.Czxid, v.stat.Mtime
	err := errors.Join(v.specErr, v.ticksErr)
	if changed = changed || (err == nil) != j.valid; changed {
		c.setSpec(j, v.spec, v.ticks, err)
	}
	j.shards = v.shards
	c.setRegistered(j, v.registered)
	c.setSlots(j, v.specErr == nil)
	c.loop.Tell(Changed{Job: j, Spec: changed})
}

// setSpec takes in a spec; err is why no instance of this version can run it.
func (c *Catalog) setSpec(j *Job, spec zkrec.Spec, parsed ticks.Job, err error) {
	j.Spec, j.Ticks, j.valid = spec, parsed, err == nil
	if j.valid {
		j.invalidSince = 0
		err = c.judge(spec)
	} else if j.invalidSince == 0 {
		j.invalidSince = c.loop.Now()
	}
	c.setEligible(j, err)
}

// Unreadable reports whether the job has been invalid for longer than d because a record that it needs
// cannot be read. A record of a newer schema does not count: instances of that version run the job.
func (j *Job) Unreadable(now, d time.Duration) bool {
	return !j.valid && j.spoilt && j.invalidSince != 0 && now-j.invalidSince > d
}

// HasShards reports whether nodes of shards exist, of this layout or another.
func (j *Job) HasShards() bool { return len(j.shards.list) > 0 }
