package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/swjobs/singleworker/singleworker/internal/deletion"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// ErrInstancesLive means that instances of the group are running, so what belongs to them is not
// deleted.
var ErrInstancesLive = errors.New("instances of the group are running")

// ClearOptions are options of Clear.
type ClearOptions struct {
	// Jobs is how many jobs the caller means to delete. Another number is refused with ErrConflict.
	Jobs int
	// DespiteInstances deletes the jobs although instances live, whose runs are then told to stop.
	// The nodes of instances stay, and an instance that declares jobs creates them when it
	// starts next.
	DespiteInstances bool
	// DryRun deletes nothing and refuses nothing, and returns what is there.
	DryRun bool
	// OnJob is called after each job, one call at a time, with how many are deleted, of how many.
	// Default: none.
	OnJob func(deleted, of int)
}

// Cleared is what Clear did, or would do in a dry run.
type Cleared struct {
	Jobs      int      `json:"jobs"`      // deleted
	Instances []string `json:"instances"` // that live, sorted; what belongs to instances stays if there are any
	// Left are nodes below the group's root that are not known to be the group's, sorted; they stay,
	// and so does the root. Jobs that were created meanwhile are among them.
	Left []string `json:"left"`
}

// Clear deletes everything of a server type: its jobs with all their records, as Cancel does, and
// then the group's remains: lists of handlers, orders, the queue of the election, the notes of
// package notify, the log of actions, the remains of canceled jobs, and the root. If it is
// interrupted, another Clear completes it; the number of jobs is smaller then. No instance should
// start meanwhile. Errors: ErrInstancesLive, ErrConflict, ErrDenied, ErrUnavailable; the Cleared
// says what was deleted until then.
func (c *Client) Clear(ctx context.Context, opts ClearOptions) (done Cleared, err error) {
	jobs, err := c.Names(ctx)
	if err != nil {
		return done, err
	}
	live, err := retried(ctx, c.conn, "list instances", func() (map[string]Instance, error) { return c.live(ctx) })
	if err != nil {
		return done, err
	}
	cl := clearing{c.members, c.writer}
	done.Instances, done.Left = append([]string{}, slices.Sorted(maps.Keys(live))...), []string{}
	switch {
	case opts.DryRun:
		done.Jobs = len(jobs)
		done.Left, err = cl.foreign(ctx, jobs)
		return done, err
	case len(live) > 0 && !opts.DespiteInstances:
		return done, fmt.Errorf("clear: %w: %s", ErrInstancesLive, strings.Join(done.Instances, ", "))
	case len(jobs) != opts.Jobs:
		return done, fmt.Errorf("clear: %w: there are %d jobs, not %d", ErrConflict, len(jobs), opts.Jobs)
	}
	if done.Jobs, err = cl.cancelAll(ctx, jobs, opts.OnJob); err != nil {
		return done, err
	}
	if len(live) == 0 {
		if err := cl.clearGroup(ctx); err != nil {
			return done, err
		}
	}
	done.Left, err = cl.foreign(ctx, nil)
	return done, err
}

// clearing deletes the jobs and the nodes of a group.
type clearing struct {
	members
	writer
}

// cancelAll deletes jobs, several at a time, and counts those that are gone.
func (cl clearing) cancelAll(ctx context.Context, jobs []string, told func(deleted, of int)) (gone int, err error) {
	var mu sync.Mutex
	err = task.Each(ctx, readers, jobs, func(ctx context.Context, _ int, name string) error {
		if ctx.Err() != nil {
			return nil // the first error counts
		}
		d := cl.deletion(name, 0, cl.deed(ctx, zkrec.DeedClear, Who{}, name))
		if err := cl.conn.Retry(ctx, func() error { return deleted(d.Run(ctx)) }); err != nil {
			return fmt.Errorf("clear: cancel %s: %w", name, uncertain(err, true))
		}
		mu.Lock()
		defer mu.Unlock()
		gone++
		cl.heard(1)
		if told != nil {
			told(gone, len(jobs))
		}
		return nil
	})
	if err == nil {
		err = context.Cause(ctx)
	}
	return gone, err
}

// clearGroup deletes the nodes that are no job's. The parent of the instances goes first: nobody
// joins without it.
func (cl clearing) clearGroup(ctx context.Context) error {
	for _, path := range nodesOfGroup(cl.tree) {
		if err := cl.conn.Retry(ctx, func() error { return cl.deleteBelow(ctx, path) }); err != nil {
			return fmt.Errorf("clear %s: %w", path, err)
		}
	}
	err := cl.conn.Retry(ctx, func() error {
		_, err := cl.conn.Multi(ctx, zkconn.DeleteOp(cl.tree.Root(), zkconn.AnyVersion))
		return err
	})
	if err != nil && !errors.Is(err, zkconn.ErrNotEmpty) && !errors.Is(err, zkconn.ErrNoNode) {
		return fmt.Errorf("clear %s: %w", cl.tree.Root(), err)
	}
	return nil
}

// deleteBelow deletes a node and everything under it, unless an instance has joined: who joins
// changes the version of the parent of the instances.
func (cl clearing) deleteBelow(ctx context.Context, top string) error {
	for range maxConflicts {
		stat, found, err := cl.conn.Exists(ctx, top)
		if err != nil || !found {
			return err
		}
		live, err := cl.live(ctx)
		if err != nil {
			return err
		}
		for sid := range live {
			return fmt.Errorf("%w: %s has just joined", ErrInstancesLive, sid)
		}
		if err := cl.deletePaths(ctx, top, stat.Version); !moved(err) && !errors.Is(err, zkconn.ErrNotEmpty) {
			return err
		}
	}
	return ErrConflict
}

// deletePaths deletes a node and everything under it as long as the node has that version.
func (cl clearing) deletePaths(ctx context.Context, top string, version int32) error {
	paths, err := deletion.Below(ctx, cl.conn, top)
	if err != nil {
		return err
	}
	ops := make([]zkconn.Op, len(paths))
	for i, path := range paths {
		ops[i] = zkconn.DeleteOp(path, zkconn.AnyVersion)
	}
	for len(ops) > 0 && err == nil {
		n := deletion.Fitting(cl.conn, ops)
		_, err = cl.conn.Multi(ctx, append([]zkconn.Op{zkconn.CheckOp(top, version)}, ops[:n]...)...)
		ops = ops[n:]
	}
	return err
}

// nodesOfGroup are the nodes below the root that are not jobs.
func nodesOfGroup(tree zkrec.Tree) []string {
	return []string{tree.Instances(), tree.Lives(), tree.Changes(), tree.Asked(), tree.Orders(), tree.Exclusions(), tree.Leader(), tree.Handlers(), tree.Notices(), tree.Deeds(), tree.AllDeparted(), tree.Access(), tree.Canceled(), tree.Calendars(), tree.Limits(), tree.Freeze()}
}

// foreign lists the nodes below the root that are neither the group's nor those of the given jobs,
// which are sorted.
func (cl clearing) foreign(ctx context.Context, jobs []string) ([]string, error) {
	return retried(ctx, cl.conn, "list nodes", func() ([]string, error) {
		names, err := cl.children(ctx, cl.tree.Root())
		left := []string{}
		for _, name := range names {
			_, isJob := slices.BinarySearch(jobs, name)
			if !isJob && !slices.Contains(nodesOfGroup(cl.tree), cl.tree.Job(name)) {
				left = append(left, name)
			}
		}
		slices.Sort(left)
		return left, err
	})
}
