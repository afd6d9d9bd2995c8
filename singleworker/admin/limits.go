package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/swjobs/singleworker/singleworker/internal/deeds"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// ErrNoLimit means that the group has no limit of that name.
var ErrNoLimit = errors.New("no such limit")

// Limits lists the group's limits, by name, with the jobs that name them, the runs that hold places
// and the instances that wait. It reads the specs of all jobs if there are limits. Errors:
// ErrDenied, ErrUnavailable.
func (c *Client) Limits(ctx context.Context) ([]Limit, error) {
	return retried(ctx, c.conn, "list limits", func() ([]Limit, error) {
		names, err := c.children(ctx, c.tree.Limits())
		if err != nil || len(names) == 0 {
			return nil, err
		}
		users, err := c.users(ctx, job.Job.LimitNames)
		if err != nil {
			return nil, err
		}
		list, err := c.limits(ctx, names)
		for i := range list {
			list[i].Jobs = jobNames(users[list[i].Name])
		}
		return list, err
	})
}

// LimitsOf is Limits for those that some jobs name, with these jobs alone. It reads no specs, and
// nothing if they name none.
func (c *Client) LimitsOf(ctx context.Context, jobs []JobStatus) ([]Limit, error) {
	users := make(map[string][]string)
	for i := range jobs {
		for name := range jobs[i].Job.Limits {
			users[name] = append(users[name], jobs[i].Name)
		}
	}
	if len(users) == 0 {
		return nil, nil
	}
	return retried(ctx, c.conn, "list limits", func() ([]Limit, error) {
		list, err := c.limits(ctx, slices.Collect(maps.Keys(users)))
		for i := range list {
			list[i].Jobs = users[list[i].Name]
		}
		return list, err
	})
}

// SetLimit makes a limit, or changes how many places it has: 1 to 1000. Runs that hold places
// beyond a lower number keep them until they end, and count: another begins when fewer are held
// than there are. A record that is no limit is replaced. The Outcome is OutcomeCreated,
// OutcomeReplaced or OutcomeUnchanged. A number that is less than a job needs is refused, with the
// job named. Errors: *invalid.FieldError, ErrUnreadable for a record of a newer version,
// ErrConflict, ErrDenied, ErrUnavailable.
func (c *Client) SetLimit(ctx context.Context, name string, places int, opts NamedOptions) (NamedChange, error) {
	refuse := func(err error) error {
		return &invalid.FieldError{Of: "limit", Field: "Max", Value: strconv.Itoa(places), Err: err}
	}
	if err := job.CheckMax(places); err != nil {
		return NamedChange{}, refuse(err)
	}
	return c.changeLimit(ctx, name, zkrec.DeedLimit, opts, func(read zkrec.ReadLimit, users []zkrec.Spec) (zkrec.Limit, Outcome, error) {
		for _, spec := range users {
			if need := spec.Job.Limits[name]; need > places {
				return zkrec.Limit{}, "", refuse(fmt.Errorf("is less than the %d places that job %q needs", need, spec.Job.Name))
			}
		}
		next, outcome := read.Limit, OutcomeCreated
		next.Max, next.Set, next.Deleted = places, opts.Set, false
		if isThere(read) {
			next.Set, outcome = cmp.Or(opts.Set, read.Set), OutcomeReplaced
			if next.Max == read.Max && next.Set == read.Set {
				outcome = OutcomeUnchanged
			}
		}
		return next, outcome, nil
	})
}

// isThere reports whether a limit can be used.
func isThere(read zkrec.ReadLimit) bool { return read.Max > 0 && read.Err == nil && !read.Deleted }

// DeleteLimit deletes a limit that no job names. Its record stays, so that runs in progress can
// give their places back. The Outcome is OutcomeDeleted. Errors: *invalid.FieldError, ErrNoLimit,
// ErrInUse with the jobs, ErrUnreadable, ErrConflict, ErrDenied, ErrUnavailable.
func (c *Client) DeleteLimit(ctx context.Context, name string, opts NamedOptions) (NamedChange, error) {
	return c.changeLimit(ctx, name, zkrec.DeedDeleteLimit, opts, func(read zkrec.ReadLimit, users []zkrec.Spec) (zkrec.Limit, Outcome, error) {
		if err := deletable(read.Err, isThere(read), users, ErrNoLimit); err != nil {
			return zkrec.Limit{}, "", err
		}
		read.Deleted = true
		return read.Limit, OutcomeDeleted, nil
	})
}

// changeLimit reads a limit and the jobs that name it, and writes the one that change returns.
func (ed editor) changeLimit(
	ctx context.Context, name, kind string, opts NamedOptions,
	change func(read zkrec.ReadLimit, users []zkrec.Spec) (zkrec.Limit, Outcome, error),
) (NamedChange, error) {
	of := named{"limit", ed.tree.Limits(), job.CheckNodeName, job.Job.LimitNames, ErrNoLimit}
	return ed.changeNamed(ctx, of, name, kind, opts.DryRun, func(at child, users []zkrec.Spec) ([]byte, Outcome, error) {
		var read zkrec.ReadLimit
		if at.name != "" {
			read = at.limit()
		}
		if err := newer(read.Err); err != nil {
			return nil, "", err
		}
		is, outcome, err := change(read, users)
		return is.Encode(), outcome, err
	}, ed.tree.HeldPlaces(name), ed.tree.Waiting(name))
}

// FreePlaces gives back the places of a limit that are leaked: those that no open run has, as when
// somebody has deleted the nodes of a job with ZooKeeper's own shell. It returns them. A place of a
// run in progress stays, however long that runs. Errors: *invalid.FieldError for the name,
// ErrNoLimit, ErrConflict, ErrDenied, ErrUnavailable.
func (c *Client) FreePlaces(ctx context.Context, name string, opts NamedOptions) (freed []HeldPlace, err error) {
	if err := job.CheckNodeName(name); err != nil {
		return nil, &invalid.FieldError{Of: "limit", Field: "Name", Value: name, Err: err}
	}
	sent := make(map[int64]bool)
	err = c.persist(ctx, func() error {
		list, err := c.limits(ctx, []string{name})
		if err != nil {
			return err
		}
		if len(list) == 0 && len(sent) == 0 {
			return ErrNoLimit
		}
		for _, of := range list {
			for _, place := range of.Held {
				if !place.Leaked {
					continue
				}
				if !sent[place.czxid] { // it is gone when the next reading does not have it
					freed = append(freed, place)
				}
				if sent[place.czxid] = true; opts.DryRun {
					continue
				}
				if err := c.freePlace(ctx, name, place); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("limit %s: %w", name, uncertain(err, len(sent) > 0 && !opts.DryRun))
	}
	return freed, nil
}

// freePlace deletes the node of a place, if it is the one that was read, and the slot's tick record
// is still the one that does not have it.
func (w writer) freePlace(ctx context.Context, limit string, place HeldPlace) error {
	path := w.rd.tree.HeldPlace(zkrec.Place{Limit: limit, Number: place.Place})
	ops := []zkconn.Op{zkconn.DeleteOp(path, zkconn.AnyVersion)}
	if place.tick >= 0 {
		ops = append(ops, zkconn.CheckOp(w.rd.tree.Tick(place.Slot), place.tick))
	}
	deed := w.deed(ctx, zkrec.DeedFree, Who{}, place.Slot)
	deed.Where = limit
	_, err := deeds.Write(ctx, w.rd.conn, w.rd.tree, deed, ops, func(ops []zkconn.Op) ([]zkconn.Stat, error) {
		return w.rd.conn.MultiOn(ctx, path, place.czxid, ops...)
	})
	if !errors.Is(err, zkconn.ErrNotEmpty) {
		return err
	}
	// An earlier try was cut off, or another operator is at it: only the proofs of these are there.
	proofs, err := w.rd.children(ctx, path)
	for _, name := range proofs {
		if _, gone := w.rd.conn.Multi(ctx, zkconn.DeleteOp(path+"/"+name, zkconn.AnyVersion)); err == nil && !moved(gone) {
			err = gone
		}
	}
	return cmp.Or(err, zkconn.ErrBadVersion)
}
