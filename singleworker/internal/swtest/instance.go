package swtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/chance"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// State is the state of an instance.
type State int

// The states of an instance.
const (
	Running  State = iota
	Stopping       // told to stop, and not yet done
	Stopped        // Run has returned
	Killed
)

func (s State) String() string { return [...]string{"running", "stopping", "stopped", "killed"}[s] }

// Setup configures an instance.
type Setup struct {
	Handlers map[string]singleworker.Handler
	Before   map[string]singleworker.Handler // the handlers of Job.BeforeTick
	Jobs     []singleworker.Job              // declared
	// Configure changes the Manager's configuration; Hooks that it sets are not
	// called any more once the instance is killed.
	Configure func(*singleworker.Config)
	// Wall is the machine's wall clock, if it is off.
	Wall wall.Clock
	// Dial replaces the way to the server.
	Dial func(ctx context.Context, client *zkdev.Client) (net.Conn, error)
}

// Instance is one start of one instance. Safe for concurrent use.
type Instance struct {
	Name   string        // its InstanceID
	Client *zkdev.Client // its place on the network; no other start has the same
	Since  time.Time     // when it was started

	cluster *Cluster
	place   string
	setup   Setup
	manager *singleworker.Manager
	run     context.Context //nolint:containedctx // the lifetime of Run
	stop    context.CancelFunc
	life    context.Context //nolint:containedctx // ends with a kill
	kill    context.CancelFunc
	done    chan struct{} // closed when Run has returned

	rights map[string]*Right // by job, the latest; guarded by cluster.mu

	stall   Stall
	network sync.Mutex // orders what is done to Client; never held by the server's goroutine

	mu    sync.Mutex
	state State
	err   error     // of Run
	endAt time.Time // when it returned
	drain bool      // Drain was called
}

// Start starts an instance. A name may be used again when the one that had it is
// stopped or killed.
func (c *Cluster) Start(name string, setup Setup) *Instance {
	c.tb.Helper()
	c.mu.Lock()
	place := fmt.Sprintf("%s#%d", name, len(c.instances))
	i := &Instance{Name: name, Client: c.Server.Client(place), place: place, Since: time.Now(), cluster: c, setup: setup, done: make(chan struct{}), rights: make(map[string]*Right)}
	c.instances = append(c.instances, i)
	c.mu.Unlock()
	if c.cfg.Latency != nil {
		i.Client.SetLatency(c.cfg.Latency(place))
	}
	surroundings := chance.From(wall.Off(leases.Unhurried(leases.Observed(context.Background(), i.rightChanged), c.cfg.WatchEvery), setup.Wall), i.chance())
	i.run, i.stop = context.WithCancel(surroundings)
	i.life, i.kill = context.WithCancel(context.Background())
	m, err := i.newManager()
	if err != nil {
		c.tb.Fatalf("swtest: start %s: %v", name, err)
		return nil
	}
	i.manager = m
	c.tasks.Go("instance "+name, func(context.Context) error {
		defer close(i.done)
		i.ended(m.Run(i.run))
		return nil
	})
	return i
}

// newManager makes the instance's Manager.
func (i *Instance) newManager() (*singleworker.Manager, error) {
	c := i.cluster
	cfg := singleworker.Config{
		Servers: c.servers(), ServerType: c.cfg.ServerType, InstanceID: i.Name,
		SessionTimeout: c.cfg.SessionTimeout, SyncPeriod: c.cfg.SyncPeriod,
		StopGrace: c.cfg.StopGrace, Logger: c.cfg.Logger, Dial: i.dial,
	}
	if i.setup.Configure != nil {
		i.setup.Configure(&cfg)
	}
	cfg.Hooks = i.whileAlive(cfg.Hooks)
	m, err := singleworker.New(cfg)
	if err != nil {
		return nil, err
	}
	for name, h := range i.setup.Handlers {
		err = errors.Join(err, m.Handle(name, i.recorded(h, &c.runs)))
	}
	for name, h := range i.setup.Before {
		err = errors.Join(err, m.Handle(name, i.recorded(h, &c.befores)))
	}
	for _, job := range i.setup.Jobs {
		err = errors.Join(err, m.Schedule(job))
	}
	return m, err
}

func (i *Instance) ended(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.err, i.endAt = err, time.Now()
	if i.state != Killed {
		i.state = Stopped
	}
}

// State returns the instance's state.
func (i *Instance) State() State {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.state
}

// StoppedAfter reports whether Run has returned, and later than t.
func (i *Instance) StoppedAfter(t time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.endAt.After(t)
}

// Place is the instance's name on the network, as zkdev.Request.Client has it.
func (i *Instance) Place() string { return i.place }

// Done is closed when Run has returned; for a killed instance a while after the kill.
func (i *Instance) Done() <-chan struct{} { return i.done }

// Leave tells the instance to stop and does not wait for it.
func (i *Instance) Leave() {
	i.mu.Lock()
	if i.state == Running {
		i.state = Stopping
	}
	i.mu.Unlock()
	i.stop()
}

// Setup is the instance's settings, to start it again.
func (i *Instance) Setup() Setup { return i.setup }

// Manager is the Manager that the instance runs.
func (i *Instance) Manager() *singleworker.Manager { return i.manager }

// Drain is Manager.Drain.
func (i *Instance) Drain(ctx context.Context) error {
	i.mu.Lock()
	i.drain = true
	i.mu.Unlock()
	return i.manager.Drain(ctx)
}

// Withdrawn reports whether Drain was called.
func (i *Instance) Withdrawn() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.drain
}

// Stop stops the instance orderly and returns Run's error.
func (i *Instance) Stop() error {
	i.Leave()
	<-i.done
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.err
}

// Kill ends the instance as SIGKILL or a power cut would: it closes nothing, and
// its session lives until the server has not heard from it for the session timeout.
func (i *Instance) Kill() {
	i.mu.Lock()
	if i.state == Stopped || i.state == Killed {
		i.mu.Unlock()
		return
	}
	i.state = Killed
	i.stall.End()
	i.mu.Unlock()
	i.network.Lock()
	i.Client.Partition() // permanently
	i.network.Unlock()
	i.cluster.killed(i)
	i.kill()
	i.stop() // the rest of it winds down unseen
}

// Partition takes the instance off the network. Messages that it sends meanwhile arrive after Heal,
// if both ends have the connection then.
func (i *Instance) Partition() {
	i.network.Lock()
	defer i.network.Unlock()
	i.Client.Partition()
}

// Heal ends a partition. It does not revive a killed instance.
func (i *Instance) Heal() {
	i.network.Lock()
	defer i.network.Unlock()
	if i.State() != Killed {
		i.Client.Heal()
	}
}

// Stall makes the instance's connection hang, as if the process were paused, until Resume:
// see the package comment for its limits.
func (i *Instance) Stall() {
	i.mu.Lock()
	if i.state != Killed {
		i.stall.Begin()
	}
	i.mu.Unlock()
	i.Partition()
}

// Resume ends a stall or a partition: messages under way arrive now.
func (i *Instance) Resume() {
	i.Heal() // first: a process that resumes finds what has arrived meanwhile
	i.stall.End()
}

// cancel ends the instance with its cluster.
func (i *Instance) cancel() {
	i.Leave()
	<-i.done
	i.kill() // frees the context
}
