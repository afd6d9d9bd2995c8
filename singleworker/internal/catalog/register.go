package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// judge says why this instance cannot run a job whose spec is valid, or nil.
func (c *Catalog) judge(spec zkrec.Spec) error {
	if handler := spec.Job.HandlerName(); !c.handlers.Has(handler) {
		return fmt.Errorf("handler %q: %w", handler, ErrElsewhere)
	}
	return nil
}

// setEligible notes whether the job can run here, and says so when that changed.
func (c *Catalog) setEligible(j *Job, err error) {
	j.Eligible = err == nil
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	unreadable := new(zkrec.UnreadableError)
	isUnreadable := errors.As(err, &unreadable)
	j.spoilt = isUnreadable && !errors.As(err, new(*zkrec.SchemaError)) && !errors.Is(err, zkconn.ErrDenied)
	if problem != "" && problem != j.problem {
		switch {
		case errors.Is(err, ErrElsewhere):
			c.loop.Log.Debug("job cannot run here", "job", j.Name, "reason", problem)
		case isUnreadable:
			c.logInvalid(j.Name, unreadable)
		default:
			c.loop.Log.Error("job invalid: it cannot run here", "job", j.Name,
				"path", c.loop.Tree.Job(j.Name), "err", err)
		}
		c.loop.Tell(Unrunnable{Job: j, Err: err})
	}
	j.problem = problem
}

// Report notes what came of reading nodes of a slot: err, or that the nodes at some paths can be read.
// What cannot be read makes the job invalid; that is logged once.
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
	c.logInvalid(slot, unreadable)
}

func (c *Catalog) logInvalid(slot string, err *zkrec.UnreadableError) {
	c.loop.Log.Error("job invalid: nobody runs it until its record is repaired (swctl repair)", "job", slot,
		"path", err.Path, "err", err.Err)
}

// RegisterAll registers this instance for every job that it can run, beside the loop: the others must
// know what a member can run before they see it.
func (c *Catalog) RegisterAll(ctx context.Context) error {
	names, _, err := c.loop.Conn.Children(ctx, c.loop.Tree.Root())
	if errors.Is(err, zkconn.ErrTooLong) {
		return nil // List says so, and tries again
	}
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !zkrec.IsJob(name) })
	views := make([]view, len(names))
	c.loop.Together(ctx, len(names), func(ctx context.Context, i int) {
		views[i] = c.fetchJob(ctx, names[i], parsed{})
	})
	self := c.member.ID()
	var groups [][]zkconn.Op
	var added []string
	for i, v := range views {
		if zkconn.IsUnknown(v.err) {
			return v.err
		}
		runs := v.err == nil && v.specErr == nil && v.ticksErr == nil && c.judge(v.spec) == nil
		if runs && !slices.Contains(v.registered, self) {
			path := c.loop.Tree.Registration(names[i], self)
			groups = append(groups, []zkconn.Op{zkconn.CreateOp(path, nil)})
			added = append(added, names[i])
		}
	}
	c.loop.Post(func() {
		for _, name := range added {
			c.registered[name] = struct{}{}
		}
	})
	c.loop.Apply(ctx, groups) // the job's first refresh looks into what is refused
	return nil
}

// setRegistered notes who can run the job, and corrects this instance's own registration.
func (c *Catalog) setRegistered(j *Job, registered []string) {
	c.member.Cleanup.RegistrationsChanged(j.able, registered)
	j.able = registered
	if j.isAble = slices.Contains(registered, c.member.ID()); j.isAble {
		c.registered[j.Name] = struct{}{}
	}
	j.nextLook = c.loop.NextLook()
	if j.isAble != j.Eligible {
		j.nextLook = 0
		c.register(j)
	}
}

// register adds or removes this instance's registration, whichever is due.
func (c *Catalog) register(j *Job) {
	if c.member.Leaving() && !j.isAble {
		return
	}
	path := c.loop.Tree.Registration(j.Name, c.member.ID())
	op := zkconn.DeleteOp(path, zkconn.AnyVersion)
	if j.Eligible {
		op = zkconn.CreateOp(path, nil)
		c.registered[j.Name] = struct{}{}
	}
	c.loop.Async("register", func(ctx context.Context) func() {
		_, err := c.loop.Conn.Multi(ctx, op)
		return func() {
			switch {
			case err == nil, errors.Is(err, zkconn.ErrNodeExists):
				c.Refresh(j)
			case errors.Is(err, zkconn.ErrNoNode):
				c.Repair(j.Name) // the job lacks the parent node
			default: // the next sync tries again
				c.loop.Log.Debug("registration not changed", "job", j.Name, "err", err)
			}
		}
	})
}

// Registered lists the jobs at which this instance is registered, or may be.
func (c *Catalog) Registered() []string {
	names := make([]string, 0, len(c.registered))
	for name := range c.registered {
		names = append(names, name)
	}
	return names
}

// Unregistered notes that the registration at a job is gone.
func (c *Catalog) Unregistered(job string) { delete(c.registered, job) }
