package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// judge says why this instance cannot run a job whose spec is valid, or nil.
func (c *Catalog) judge(spec *zkrec.Spec) error {
	if handler := missing(c.handlers, spec); handler != "" {
		return fmt.Errorf("handler %q: %w", handler, ErrElsewhere)
	}
	if err := c.member.Place.MayRun(&spec.Job); err != nil {
		return fmt.Errorf("%w: %w", ErrNotHere, err)
	}
	return nil
}

// HandlerAdded looks again at the jobs that could not run here for want of a handler.
func (c *Catalog) HandlerAdded(name string) {
	for _, j := range c.sorted.of(c.jobs) {
		if j.Valid() && !j.handled && (j.Spec.Job.HandlerName() == name || j.Spec.ActiveLayout().BeforeTick == name) {
			j.stripped = true
			c.Refresh(j)
		}
	}
}

// setEligible notes whether the job can run here, and says so when that changed.
func (c *Catalog) setEligible(j *Job, err error) {
	j.Eligible, j.handled = err == nil, err == nil || errors.Is(err, ErrNotHere)
	problem := ""
	if errors.Is(err, ErrElsewhere) {
		problem = ErrElsewhere.Error() // one text for thousands of jobs
	} else if err != nil {
		problem = err.Error()
	}
	unreadable := new(zkrec.UnreadableError)
	isUnreadable := errors.As(err, &unreadable)
	j.spoilt = isUnreadable && !errors.Is(err, zkconn.ErrDenied) && (j.Schema > zkrec.SpecSchema || !errors.As(err, new(*zkrec.SchemaError)))
	if problem != "" && problem != j.problem {
		switch {
		case errors.Is(err, ErrElsewhere), errors.Is(err, ErrNotHere):
			c.loop.Log.Debug("job cannot run here", "job", j.Name, "reason", err)
		case isUnreadable:
			logInvalid(c.loop.Log, j.Name, unreadable)
		default:
			c.loop.Log.Error("job invalid: it cannot run here", "job", j.Name,
				"path", c.loop.Tree.Job(j.Name), "err", err)
		}
		c.loop.Tell(Unrunnable{Job: j, Err: err})
	}
	j.problem = problem
}

// Report notes the outcome of reading nodes of a slot: err, or that the nodes at some paths can be
// read. A node that cannot be read makes the job invalid, which is logged once.
func (c *Catalog) Report(slot string, err error, paths ...string) {
	j := c.JobOf(slot)
	if j == nil {
		return
	}
	if err == nil {
		for _, path := range paths {
			delete(j.unreadable, path)
		}
		return
	}
	unreadable := new(zkrec.UnreadableError)
	if !errors.As(err, &unreadable) || j.unreadable[unreadable.Path] == err.Error() {
		return
	}
	if j.unreadable == nil {
		j.unreadable = make(map[string]string)
	}
	j.unreadable[unreadable.Path] = err.Error()
	logInvalid(c.loop.Log, slot, unreadable)
}

func logInvalid(log *slog.Logger, slot string, err *zkrec.UnreadableError) {
	log.Error("job invalid: nobody runs it until its record is repaired (swctl repair)", "job", slot,
		"path", err.Path, "err", err.Err)
}

// primed is the result of RegisterAll.
type primed struct {
	attempt int                 // the connection in which it was read
	freeze  zkconn.ReadResult   // read before the rest, as are the signals
	signals []zkconn.ReadResult // by their numbers
	names   []string
	views   []view // by index of names
}

// viewedAtOnce is how many jobs are read at the same time. The results for one job take a kilobyte
// until they are parsed.
const viewedAtOnce = 1000

// RegisterAll registers this instance for every job that it can run, beside the loop, in the
// connection with that number: the others must know the jobs that a member can run before they see
// it. The jobs that it reads on the way are this room's first ones.
func (c *Catalog) RegisterAll(ctx context.Context, attempt int) error {
	first := c.loop.Conn.ReadMany(ctx, append(signalReads(c.loop.Tree), freezeRead(c.loop.Tree)))
	signals, freeze := first[:zkrec.Signals], first[zkrec.Signals]
	names, _, err := c.loop.Conn.Children(ctx, c.loop.Tree.Root())
	if errors.Is(err, zkconn.ErrTooLong) {
		return nil // List says so, and tries again
	}
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !zkrec.IsJob(name) })
	slices.Sort(names)
	views := make([]view, 0, len(names))
	for some := range slices.Chunk(names, viewedAtOnce) {
		read, err := viewAll(ctx, c.loop, some, c.member.ID())
		if err != nil {
			return err
		}
		views = append(views, read...)
	}
	var groups [][]zkconn.Op
	var added []int
	for i, v := range views {
		if v.err == nil && v.specErr == nil && v.ticksErr == nil && missing(c.handlers, v.spec) == "" && !v.own {
			path := c.loop.Tree.Registration(names[i], c.member.ID())
			groups = append(groups, []zkconn.Op{zkconn.CreateOp(path, nil)})
			added = append(added, i)
		}
	}
	c.loop.Post(func() {
		for _, i := range added {
			c.registered[names[i]] = struct{}{}
		}
	})
	for k, r := range c.loop.Apply(ctx, groups) { // the job's first refresh looks into what is refused
		views[added[k]].own = r.Err == nil || errors.Is(r.Err, zkconn.ErrNodeExists)
	}
	c.loop.Post(func() { c.primed = primed{attempt, freeze, signals, names, views} })
	return nil
}

// setRegistered notes who can run the job, and corrects this instance's own registration.
func (c *Catalog) setRegistered(j *Job, v view) {
	j.registered, j.isRegistered = v.registered, v.own
	j.able = ableOf(c.member.Able(), j)
	if j.isRegistered {
		c.registered[j.Name] = struct{}{}
	}
	j.nextLook = c.loop.NextLook()
	switch {
	case v.lacksRegister && j.Valid(): // also for those who do not register: an operator's pause and an alarm need the node
		c.Repair(j.Name)
	case j.isRegistered != j.handled:
		j.nextLook = 0
		c.register(j)
	}
}

// Done reports whether the job is done: its slots are nobody's, and count in no share.
func (j *Job) Done() bool { return j.Valid() && j.Spec.Done != nil }

// ableOf lists the members that can run the job, and may.
func ableOf(who *member.Able, j *Job) []string {
	if j.Done() {
		return nil
	}
	return who.Among(handledBy(who, j), &j.Spec.Job)
}

// handledBy lists the members that have the handlers of a job.
func handledBy(who *member.Able, j *Job) (able []string) {
	if j.Valid() {
		able = publishing(who, j.Spec)
	}
	if who == nil || len(who.Others) == 0 || len(j.registered) == 0 {
		return able
	}
	able = slices.Clone(able)
	for _, sid := range who.Others {
		if slices.Contains(j.registered, sid) {
			able = append(able, sid)
		}
	}
	slices.Sort(able)
	return able
}

// AbleChanged follows which members can and may run which jobs. The registrations are read, and
// watched, only while a live member does not publish its handlers.
func (c *Catalog) AbleChanged() {
	was := c.byRegister
	c.byRegister = len(c.member.Able().Others) > 0
	for _, j := range c.sorted.of(c.jobs) {
		if !c.byRegister {
			j.registered = nil
		} else if !was {
			j.nextLook = 0
			c.Refresh(j)
		}
		var over error // why the job may not run here any more
		if j.handled {
			err := c.judge(j.Spec)
			switch {
			case err != nil && j.Eligible:
				over = err
				j.dropPayload()
				c.setEligible(j, err)
			case err == nil && !j.Eligible: // it is read again first: this instance did not keep all of it
				j.stripped = true
				c.Refresh(j)
			}
		}
		able := ableOf(c.member.Able(), j)
		if over != nil || !slices.Equal(able, j.able) {
			j.able = able
			c.tellSlots(j)
		}
	}
}

// register adds or removes this instance's registration, whichever is due. One request at a time:
// of two that travel in one transaction the second is refused, and no reading of the node tells
// why. A reading that began before the answer tells nothing of it.
func (c *Catalog) register(j *Job) {
	if j.registering || !c.loop.Joined() || c.member.Leaving() && !j.isRegistered {
		return
	}
	j.registering, j.answered = true, false
	path := c.loop.Tree.Registration(j.Name, c.member.ID())
	op := zkconn.DeleteOp(path, zkconn.AnyVersion)
	if j.handled {
		op = zkconn.CreateOp(path, nil)
		c.registered[j.Name] = struct{}{}
	}
	c.loop.Write(session.Others, []zkconn.Op{op}, func(r session.Result) {
		j.answered = true
		switch {
		case r.Err == nil, errors.Is(r.Err, zkconn.ErrNodeExists):
			c.Refresh(j)
		case errors.Is(r.Err, zkconn.ErrNoNode):
			c.Repair(j.Name) // the job lacks the parent node
		default: // the next sync tries again
			c.loop.Log.Debug("registration not changed", "job", j.Name, "err", r.Err)
		}
	})
}

// Registered lists the jobs at which this instance is registered, or may be.
func (c *Catalog) Registered() []string {
	return slices.Sorted(maps.Keys(c.registered))
}

// Unregistered notes that the registration at a job is gone.
func (c *Catalog) Unregistered(job string) { delete(c.registered, job) }
