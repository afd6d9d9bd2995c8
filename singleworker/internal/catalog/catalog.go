package catalog

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/agenda"
	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/listing"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Why a job whose spec is valid cannot run here.
var (
	// ErrElsewhere: this instance lacks the handler.
	ErrElsewhere = errors.New("no such handler in this instance")
	// ErrNotHere: the job says so, or an operator.
	ErrNotHere = errors.New("this instance may not run the job")
)

// Handlers says which handlers this instance has. It must be safe for concurrent use.
type Handlers interface{ Has(name string) bool }

// The notices of this room.
type (
	// SlotSet tells that a slot exists, and who can run it.
	SlotSet struct{ lease.SlotSet }
	// SlotGone tells that a slot no longer exists.
	SlotGone struct{ Slot lease.Slot }
	// Changed tells that a job's spec or nodes were read again. Spec says that its spec is another one
	// now.
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
	sorted     inOrder       // nil: jobs has changed
	primed     primed
	stale      map[string]struct{} // unknown jobs that have changed
	byRegister bool                // all registrations are read and watched: see AbleChanged
	audit      audit
	state      state

	Survey  *Survey
	Signals *Signals
	Named   *Named
	Parents *Parents
	Freeze  *Freeze
	// Agenda says which jobs a sync looks at: Sync takes them, and each room says when it wants to
	// look at one again.
	Agenda *agenda.Agenda[*Job]
}

// New returns an empty catalog.
func New(loop *session.Loop, m *member.Member, handlers Handlers) *Catalog {
	jobs := make(map[string]*Job)
	c := &Catalog{
		loop: loop, member: m, handlers: handlers, Survey: &Survey{jobs: jobs}, Agenda: agenda.New(loop.Log, byName),
		jobs: jobs, registered: make(map[string]struct{}), stale: make(map[string]struct{}),
		audit: audit{loop: loop, cleanup: m.Cleanup},
	}
	c.Signals, c.Named, c.Freeze = newSignals(c), newNamed(c), &Freeze{catalog: c}
	c.Parents = newParents(c)
	return c
}

// Job is this instance's knowledge of one job. Spec and Ticks are not changed but replaced: the
// rooms, the runner and the runs share them.
type Job struct {
	Name     string
	Spec     *zkrec.Spec // with Since set; never nil
	Eligible bool        // this instance can run it, and may
	Ticks    *ticks.Job  // Spec parsed; nil unless it is valid
	Written  int64       // when the spec was last written, or its pause, on ZooKeeper's clock, in Unix milliseconds
	Slots    []string    // of the active layout, whose nodes exist
	Schema   int         // of the spec, also of one that cannot be read because it is of a newer version

	agenda.Entry
	stamp // of what was read; zero: nothing was

	waits        *view             // what was read, until its calendars and parents are
	looked       bool              // it was read, or it is known why that cannot be
	stripped     bool              // Spec lacks what only runs need, and must be parsed again: the job can run here now
	handled      bool              // this instance has the handler, and is to be registered
	isRegistered bool              // this instance is; see registered
	registering  bool              // that is being changed: until a reading begins after the answer
	answered     bool              // the request for that
	spoilt       bool              // the spec, or the record of complete ticks, is no record, or the spec is of a newer version
	problem      string            // why it cannot run here, as last logged
	unreadable   map[string]string // why nodes cannot be read, by path, as last logged
	invalidSince time.Duration     // Mono: since when no instance can run it; 0: it can
	able         []string          // the instances that can run it; shared between jobs
	registered   []string          // the list of registrations, while some live member publishes no handlers
	division     *division         // nil unless it has slots other than its own, or had
	nextLook     time.Duration     // Mono: when to read it again although nothing tells
	signal       int               // zkrec.SignalOf its name
	refreshing   session.OnePerTime
	repairing    session.OnePerTime
}

// noSpec is the spec of a job that was not read, or cannot be.
var noSpec = new(zkrec.Spec)

// Valid reports whether the job has a spec that can run somewhere: Ticks is set.
func (j *Job) Valid() bool { return j.Ticks != nil }

// Able lists the instances that can run the job, and may.
func (j *Job) Able() []string { return j.able }

// Known reports whether the job was read.
func (j *Job) Known() bool { return j.stamp != stamp{} }

// Complete is the record of complete ticks, as it was when the shards were listed.
func (j *Job) Complete() zkrec.Complete { return j.divided().complete }

// Has reports whether slot is one that the job has now.
func (j *Job) Has(slot string) bool { return slices.Contains(j.Slots, slot) }

// JobOf is the job that a slot belongs to, or nil.
func (c *Catalog) JobOf(slot string) *Job { return c.jobs[zkrec.JobOfSlot(slot)] }

// Current reports whether j still is the job of its name.
func (c *Catalog) Current(j *Job) bool { return c.jobs[j.Name] == j }

// Jobs calls f for every job, in the order of their names.
func (c *Catalog) Jobs(f func(j *Job)) {
	for _, j := range c.sorted.of(c.jobs) {
		f(j)
	}
}

// Soon reports whether a tick of the slot is so near, or so recent, that the slot should not move
// now.
func (c *Catalog) Soon(slot lease.Slot) bool {
	j := c.JobOf(string(slot))
	return j != nil && j.Eligible && ticks.Soon(j.Ticks.Of(string(slot), nil), c.loop.Clock.Wall())
}

// Traces lists the nodes at each job that members that are gone may have left.
func (c *Catalog) Traces() []member.Traced {
	traced := make([]member.Traced, 0, len(c.jobs))
	for _, j := range c.sorted.of(c.jobs) {
		traced = append(traced, member.Traced{Job: j.Name, Slots: j.Slots})
	}
	return traced
}

// Joined takes in the result of RegisterAll in this connection, and has everything else read again:
// changes while not joined were not followed.
func (c *Catalog) Joined() {
	c.nextList = 0
	c.Agenda.WakeAll()
	c.Named.joined()
	read, stale := c.primed, c.stale
	c.primed, c.stale = primed{}, make(map[string]struct{})
	if read.attempt != c.loop.Attempt() {
		c.Freeze.Hear()
		c.Signals.joined(nil) // which has all jobs read again, after the signals
		return
	}
	c.Freeze.take(read.freeze)
	for _, j := range c.jobs {
		j.nextLook = 0
	}
	c.Signals.joined(read.signals)
	added := make([]*Job, len(read.names))
	for i, name := range read.names {
		if c.jobs[name] == nil {
			added[i] = add(c, name) // all of them first: one may be another's parent
		}
	}
	for i, j := range added {
		if j == nil {
			continue
		}
		c.refreshed(j, read.views[i])
		if _, changed := stale[j.Name]; changed {
			j.nextLook = 0
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

// Survey is the first reading of all jobs.
type Survey struct {
	jobs     map[string]*Job
	listed   bool
	complete bool
}

// Complete reports whether every job was read since the start, but for those that cannot be.
func (s *Survey) Complete() bool {
	if s.complete || !s.listed {
		return s.complete
	}
	for _, j := range s.jobs {
		if !j.looked {
			return false
		}
	}
	s.complete = true
	return true
}

func (c *Catalog) listed(names []string) {
	c.Survey.listed = true
	length := listing.Length(names)
	crowded := length > listing.Warn
	if crowded && !c.crowded {
		c.loop.Log.Warn("the list of jobs is half as long as it may become: move some to another server type or chroot",
			"path", c.loop.Tree.Root(), "jobs", len(names), "bytes", length, "at_most", listing.Max)
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
			c.Refresh(add(c, name))
		}
	}
	for _, j := range c.sorted.of(c.jobs) {
		if !present[j.Name] {
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

// RefreshJob reads the records of the named job again.
func (c *Catalog) RefreshJob(name string) {
	if j := c.jobs[name]; j != nil {
		c.Refresh(j)
	} else if !c.loop.Joined() {
		c.stale[name] = struct{}{} // it may be among what was read before
	}
}

// Refresh reads a job's records again and applies them.
func (c *Catalog) Refresh(j *Job) {
	if !c.loop.Joined() || !c.Current(j) || !j.refreshing.Begin() {
		return
	}
	j.registering = j.registering && !j.answered
	c.Named.lookForMissing(j)
	c.loop.Read(readsOf(c.loop.Tree, j.Name, c.member.ID(), c.byRegister), func(results []zkconn.ReadResult) {
		v := viewOf(c.loop.Tree, j.Name, results, j.parsed())
		if !v.sharded() {
			c.viewed(j, v)
			return
		}
		c.loop.Async("read shards", func(ctx context.Context) func() {
			v.fetchShards(ctx, c.loop, j.Name, c.member.ID())
			return func() { c.viewed(j, v) }
		})
	})
}

func (c *Catalog) viewed(j *Job, v view) {
	again := j.refreshing.End()
	if !c.Current(j) {
		return
	}
	c.refreshed(j, v)
	if again {
		c.Refresh(j)
	}
}

func (c *Catalog) refreshed(j *Job, v view) {
	j.nextLook = 0 // unless everything is as it should be
	c.Agenda.Wake(j)
	if c.Freeze.hold(j, &v) || c.Named.hold(j, &v) {
		return
	}
	if v.ticks != j.Ticks { // otherwise it has the freeze
		c.Freeze.into(j.Name, &v)
	}
	first := !j.looked
	if j.looked = j.looked || !zkconn.IsUnknown(v.err); first && j.looked {
		defer c.Parents.changed(j)
	}
	switch {
	case errors.Is(v.err, zkconn.ErrNoNode), v.spec != nil && v.spec.Canceled:
		c.forget(j)
		return
	case errors.Is(v.err, zkconn.ErrDenied):
		c.setSpec(j, noSpec, nil, session.ReadError(c.loop.Tree.Job(j.Name), v.err))
		for _, slot := range j.Slots {
			c.loop.Tell(SlotSet{lease.SlotSet{Slot: lease.Slot(slot)}})
		}
		return
	case v.err != nil:
		c.loop.Log.Debug("job not read", "job", j.Name, "err", v.err)
		return
	}
	changed := j.stamp != v.stamp || j.stripped && v.spec != j.Spec
	if changed {
		j.stripped = false
	}
	j.stamp, j.Written = v.stamp, v.written()
	err := errors.Join(v.specErr, v.ticksErr)
	if changed = changed || (err == nil) != j.Valid(); changed {
		c.setSpec(j, v.spec, v.ticks, err)
	}
	if j.division != nil || v.sharded() {
		j.divide().shards = v.shards
	}
	c.setRegistered(j, v)
	c.setSlots(j, v.specErr == nil)
	c.loop.Tell(Changed{Job: j, Spec: changed})
	if changed {
		c.Parents.changed(j)
	}
}

// setSpec takes in a spec; err is why no instance of this version can run it.
func (c *Catalog) setSpec(j *Job, spec *zkrec.Spec, parsed *ticks.Job, err error) {
	if j.Spec, j.Ticks = spec, parsed; err != nil {
		j.Ticks = nil
	}
	j.Schema = schemaOf(spec, err, c.loop.Tree.Job(j.Name))
	if j.Valid() {
		j.invalidSince = 0
		err = c.judge(spec)
	} else if j.invalidSince == 0 {
		j.invalidSince = c.loop.Now()
	}
	if err != nil {
		j.dropPayload()
	}
	c.setEligible(j, err)
}

// Unreadable reports since when, on Mono, the job has been invalid because a record that it needs
// cannot be read, if it is. Records of a newer schema do not count, except for the spec, see
// Schema: instances of that version run the job, if there are any.
func (j *Job) Unreadable() (since time.Duration, is bool) {
	return j.invalidSince, !j.Valid() && j.spoilt && j.invalidSince != 0
}
