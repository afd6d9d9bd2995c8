package coord

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Errors that callers branch on.
var (
	// ErrCanceled: the job was deleted from ZooKeeper.
	ErrCanceled = errors.New("job cancelled")
	// ErrHandedOver: this instance gave the job to another one.
	ErrHandedOver = errors.New("job handed over")
	// ErrElsewhere is a Judge's word for a job that other instances run.
	ErrElsewhere = errors.New("no such handler in this instance")
	// ErrNotOwner refuses a claim: the job is not, or no longer, ours.
	ErrNotOwner = errors.New("not the owner")
	// ErrNotLeader refuses a claim in latch mode: this instance does not lead now.
	ErrNotLeader = errors.New("not the leader")
	// ErrConflict refuses a commit: the record is not what it rests on.
	ErrConflict = errors.New("tick record has changed")
	// ErrNoRequest refuses a commit: the manual run was withdrawn.
	ErrNoRequest = errors.New("request withdrawn")
	// ErrSuperseded: the job's history does not go back as far as the run.
	ErrSuperseded = errors.New("later runs have taken its place in the history")
	// ErrSpecChanged refuses a commit: the job's spec is not the one that it rests on.
	ErrSpecChanged = errors.New("the job has changed")
	// ErrRetired: the job is divided anew, and has no such shard, or is none itself.
	ErrRetired = errors.New("shard retired")
	// ErrDraining refuses to begin a run: the job is about to be handed over.
	ErrDraining = errors.New("this instance drains")
	// ErrEnded: Run has returned before ZooKeeper answered.
	ErrEnded = errors.New("no longer part of the group")
	// ErrDuplicate: a live instance of the group has the same id.
	ErrDuplicate = errors.New("another live instance has this id")
	// ErrDenied: ZooKeeper's ACLs keep this instance out.
	ErrDenied = zkconn.ErrDenied
	// ErrMode: an instance that was in the group before runs in another mode.
	ErrMode = errors.New("an instance of the group runs in another mode")
	// ErrNotHandedBack: the connection was lost while leaving, for so long that
	// the session is over: the others take over what was owned.
	ErrNotHandedBack = errors.New("ZooKeeper was away; what was owned is taken over by others")
)

// Judge says whether this instance can run a job: nil, or why it cannot. It
// must be safe for concurrent use.
type Judge func(job string, spec zkrec.Spec) error

// Ownership is a slot that this instance owns: a job or a shard.
type Ownership struct {
	Slot        string
	Spec        zkrec.Spec // with Since set
	SpecVersion int32      // of the spec: commits rest on it
	Lease       *leases.Lease
	Since       time.Time  // when it was adopted, on this instance's clock
	Record      zkrec.Tick // as it was when the slot was adopted
	Requests    []Request  // in the order in which they were made
}

// Runner is told what this instance owns. Its methods are called from the
// loop, in the order of the events, and must not block.
type Runner interface {
	// Own: the slot is ours, or its job's spec has changed while it is.
	Own(o Ownership)
	// Requested: what operators ask for has changed since Own.
	Requested(slot string, requests []Request)
	// Disown: the slot is not ours any more. Its runs' contexts have ended.
	Disown(slot string, cause error)
	// Overdue: a tick of a slot, whoever owns it, is not accounted for although
	// it should be. It is reported by one instance of the group, once.
	Overdue(slot string, tick time.Time)
	// Completed: all shards of a job are done with a tick, which they ran under
	// the spec given. It is reported by one instance of the group, once.
	Completed(job string, spec zkrec.Spec, c ticks.Completion)
}

// Watch says which tick of a slot is not accounted for although it should be,
// if any, and when to look again, if ever. running: a run goes on at a live
// owner. It must be safe for concurrent use.
type Watch func(spec zkrec.Spec, record zkrec.Tick, running bool) (tick, lookAgain time.Time)

// Soon reports that the next tick of a job is so near, or the last one so recent
// that it may not have been claimed yet, that its slots are not to be moved now.
// It must be safe for concurrent use.
type Soon func(spec zkrec.Spec) bool

// Settled reports whether a slot of a layout that ends has nothing left to do.
// It must be safe for concurrent use.
type Settled func(spec zkrec.Spec, record zkrec.Tick) bool

// Declaration is a job that this instance's code declares.
type Declaration struct {
	Job  string
	Spec zkrec.Spec
}

// Config is all that a Coordinator needs; every field but Withdrawn
// and Declarations must be set.
type Config struct {
	Conn         zkconn.Config
	ServerType   string
	SID          string
	Instance     zkrec.Instance // this instance's record, without what changes
	SyncPeriod   time.Duration
	Latch        bool // latch mode
	Withdrawn    bool // Drain was called before Run
	Declarations []Declaration
	Judge        Judge
	Watch        Watch
	Soon         Soon
	Settled      Settled
	Runner       Runner
	Leases       *leases.Table
	Clock        *leases.Clock
	Logger       *slog.Logger
}

// Coordinator keeps one instance in its group.
type Coordinator struct {
	cfg  Config
	tree zkrec.Tree
	log  *slog.Logger

	box   *task.Mailbox // for the loop
	ended chan struct{} // closed when the loop has ended

	// Set once by Run.
	conn  *zkconn.Conn
	tasks *task.Group

	// Owned by the loop.
	machine  *lease.Machine
	jobs     map[string]*job
	owned    map[string]*ownership
	ticks    map[string]*tickNode
	peers    map[string]lease.Peer // the instances, as last read
	traces   traces
	present  map[string]struct{} // jobs at which this instance is registered, or may be
	commits  []*commit           // to be sent together when the mailbox is empty
	session  session
	nextSync time.Duration // Mono
	listing  onePerTime    // reads of the list of jobs
	nextList time.Duration // Mono: when the sync does it although no watch says so
	latch    latch
	closing  closing
	failure  error // why the loop must end
}

// ownership is a slot whose lease the protocol has granted.
type ownership struct {
	token   int64
	version int32 // of the alive node: what claims check
	lease   *leases.Lease
	since   time.Time

	loading    bool // record is being read
	loaded     bool // record is known
	unreadable bool // that it cannot be read was said
	record     zkrec.Tick
	requests   requests
	told       bool // the runner was
}

// New returns a coordinator; Run starts it.
func New(cfg Config) *Coordinator {
	c := &Coordinator{
		cfg:   cfg,
		tree:  zkrec.NewTree(cfg.ServerType),
		log:   cfg.Logger,
		box:   task.NewMailbox(),
		ended: make(chan struct{}),
		jobs:  make(map[string]*job),
		owned: make(map[string]*ownership),
		ticks: make(map[string]*tickNode), present: make(map[string]struct{}),
		closing: closing{withdrawn: cfg.Withdrawn, standby: cfg.Latch},
	}
	c.machine = lease.New(lease.Config{
		Self:       lease.Member{SID: cfg.SID, Incarnation: cfg.Instance.Incarnation},
		SyncPeriod: cfg.SyncPeriod, MaxSlots: cfg.Instance.MaxSlots, Weight: cfg.Instance.Weight, Soon: c.soon,
	})
	return c
}

// soon is asked by the protocol.
func (c *Coordinator) soon(slot lease.Slot) bool {
	j := c.jobOf(string(slot))
	return j != nil && j.eligible && c.cfg.Soon(j.spec)
}

// Run joins the group and keeps the instance in it. It returns nil once Leave
// was called and every slot is handed back, the cause of ctx when that ends
// sooner (what was owned is then taken over when the session ends, at once if
// the server could be told), or the reason why this instance cannot be part
// of the group: ErrDuplicate, ErrDenied, or a panic of the coordinator's own.
func (c *Coordinator) Run(ctx context.Context) error {
	conn, err := zkconn.Open(c.cfg.Conn, c.onEvent)
	if err != nil {
		close(c.ended)
		return err
	}
	c.conn = conn
	c.tasks = task.NewPool(ctx)
	c.tasks.Go("coordinator", func(ctx context.Context) error {
		defer close(c.ended)
		defer c.tasks.Cancel(nil) // requests under way have nobody to report to
		return c.loop(ctx)
	})
	err = c.tasks.Wait()
	conn.Close()
	return err
}

// loop runs what is posted, and the timers, until the instance has left.
func (c *Coordinator) loop(ctx context.Context) error {
	timer := time.NewTimer(c.syncPeriod())
	defer timer.Stop()
	c.session.lostAt = c.cfg.Clock.Now().Mono
	c.heed() // it may have been closed before
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.box.Ready():
			c.box.Run()
		case <-timer.C:
		}
		c.onTime()
		c.sendCommits()
		c.tellState()
		if left := c.hasLeft(); left || c.failure != nil {
			return c.failure
		}
		timer.Reset(c.untilNext())
	}
}

// onTime does what is due: heartbeats and the periodic sync.
func (c *Coordinator) onTime() {
	now := c.cfg.Clock.Now().Mono
	c.complain(now)
	if now >= c.nextSync {
		c.nextSync = now + task.Jitter(c.syncPeriod())
		c.sync()
	}
	if c.session.joined && now >= c.machine.NextBeat() {
		c.step(lease.Tick{})
	}
}

// syncPeriod is no longer than the session, which the server may have granted
// shorter than it was asked for: nobody who hangs is noticed later than who is dead.
func (c *Coordinator) syncPeriod() time.Duration {
	return min(c.cfg.SyncPeriod, c.conn.SessionTimeout())
}

func (c *Coordinator) untilNext() time.Duration {
	next := c.nextSync
	switch {
	case c.session.joined:
		next = min(next, c.machine.NextBeat())
	case c.closing.leaving && c.session.everJoined && !c.session.leaving:
		next = min(next, c.session.lostAt+c.conn.SessionTimeout()) // hasLeft waits for that
	}
	return max(0, next-c.cfg.Clock.Now().Mono)
}

// sync looks again, whatever the watches said or missed: at the slots that the protocol wants to
// see, and now and then at each job and at their list. Without a session it only ends claims whose
// lease has lapsed.
func (c *Coordinator) sync() {
	for _, t := range c.ticks {
		c.advance(t)
	}
	if !c.session.joined {
		return
	}
	now := c.cfg.Clock.Now().Mono
	if now >= c.nextList {
		c.listJobs()
	}
	for _, j := range c.jobs {
		if now >= j.nextLook {
			c.refresh(j)
		}
		c.watch(j)
		c.keep(j)
	}
	for name, own := range c.owned {
		c.load(name, own)
		if now >= own.requests.nextLook {
			c.readRequests(name)
		}
	}
	c.checkLatch()
	c.publish()
	c.tidy()
	c.step(lease.LookAll{})
}

// step tells the protocol a fact and does what it asks for.
func (c *Coordinator) step(ev lease.Event) {
	for _, action := range c.machine.Step(c.cfg.Clock.Now(), ev) {
		c.do(action)
	}
}

// async runs request beside the loop and posts the closure that it returns.
func (c *Coordinator) async(name string, request func(ctx context.Context) (then func())) {
	c.tasks.Go(name, func(ctx context.Context) error {
		c.box.Post(request(ctx))
		return nil
	})
}

// onePerTime keeps a request from being sent twice at once: what is asked for
// meanwhile is done once more afterwards.
type onePerTime struct{ running, again bool }

// begin reports whether to send now.
func (o *onePerTime) begin() bool {
	if o.running {
		o.again = true
		return false
	}
	o.running = true
	return true
}

// end reports whether to send once more.
func (o *onePerTime) end() bool {
	again := o.again
	o.running, o.again = false, false
	return again
}
