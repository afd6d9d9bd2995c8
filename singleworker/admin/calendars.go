package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Calendar is a calendar of a group: see job.Job.Calendars.
type Calendar struct {
	Name string       `json:"name"`
	Is   job.Calendar `json:"calendar"`
	// Since is when it became that. Ticks until then go by the contents before.
	Since time.Time `json:"since,omitzero"`
	// Set names the files that have the calendar, if some have.
	Set string `json:"set,omitempty"`
	// Jobs are those that name it, by name.
	Jobs []string `json:"jobs,omitempty"`
	// Former are the contents before, the latest first: at most seven are kept.
	Former []FormerCalendar `json:"former,omitempty"`
	// Error is why the record cannot be read. Jobs that name the calendar do not run.
	Error string `json:"error,omitempty"`
}

// FormerCalendar is what a calendar was before.
type FormerCalendar struct {
	Is    job.Calendar `json:"calendar"`
	Since time.Time    `json:"since,omitzero"`
}

// ErrNoCalendar means that the group has no calendar of that name.
var ErrNoCalendar = errors.New("no such calendar")

// Calendars lists the group's calendars, by name, with the jobs that name them. It reads the specs
// of all jobs if there are calendars. Errors: ErrDenied, ErrUnavailable.
func (c *Client) Calendars(ctx context.Context) ([]Calendar, error) {
	return retried(ctx, c.conn, "list calendars", func() (list []Calendar, err error) {
		names, err := c.children(ctx, c.tree.Calendars())
		if err != nil || len(names) == 0 {
			return nil, err
		}
		users, err := c.users(ctx, job.Job.CalendarNames)
		if err != nil {
			return nil, err
		}
		err = c.eachOf(ctx, c.tree.Calendars(), names, func(node child) {
			read := node.calendar()
			if read.Deleted {
				return
			}
			of := Calendar{Name: node.name, Set: read.Set, Jobs: jobNames(users[node.name])}
			if read.Err != nil {
				of.Error = read.Err.Error()
			}
			for i, content := range slices.Backward(read.Contents) {
				if since := zkrec.Time(content.Since); i == len(read.Contents)-1 {
					of.Is, of.Since = content.Is, since
				} else {
					of.Former = append(of.Former, FormerCalendar{content.Is, since})
				}
			}
			list = append(list, of)
		})
		return list, err
	})
}

// SetCalendar makes a calendar, or changes it for the ticks after the time at which ZooKeeper has
// accepted the change: ticks until then go by the content before. A record that is no calendar is
// replaced. The Outcome is OutcomeCreated, OutcomeReplaced or OutcomeUnchanged. A content that
// leaves a job without a tick to come is refused, with the job named. Errors: *invalid.FieldError,
// ErrUnreadable for a record of a newer version, ErrConflict, ErrDenied, ErrUnavailable.
func (c *Client) SetCalendar(ctx context.Context, name string, is job.Calendar, opts NamedOptions) (NamedChange, error) {
	if err := is.Validate(); err != nil {
		return NamedChange{}, err
	}
	return c.changeCalendar(ctx, name, zkrec.DeedCalendar, opts, func(read zkrec.ReadCalendar, users []zkrec.Spec) (zkrec.Calendar, Outcome, error) {
		present := read.Contents != nil && !read.Deleted
		same, next := present && read.Present().Equal(is), read.Calendar
		if !same {
			next = next.With(is)
		}
		next.Set = opts.Set
		if present {
			next.Set = cmp.Or(opts.Set, read.Set)
		}
		switch {
		case !present:
			return next, OutcomeCreated, nil
		case same && next.Set == read.Set:
			return next, OutcomeUnchanged, nil
		}
		return next, OutcomeReplaced, c.checkCalendar(ctx, name, read, is, users)
	})
}

// checkCalendar refuses a content that leaves a job that names the calendar without a tick to come,
// if it has one now.
func (ed editor) checkCalendar(ctx context.Context, name string, read zkrec.ReadCalendar, is job.Calendar, users []zkrec.Spec) error {
	now, err := ed.groupTime(ctx)
	if err != nil {
		return err
	}
	all, _, err := ed.named(ctx, users...)
	if err != nil {
		return err
	}
	with := zkrec.ReadCalendar{}
	if with.Times, err = read.Times.Add(now, is); err != nil {
		return err
	}
	for _, spec := range users {
		all[name] = read
		before := checkFires(all.Into(spec).Job, now)
		all[name] = with
		if after := checkFires(all.Into(spec).Job, now); before == nil && after != nil {
			return &invalid.FieldError{Of: "calendar", Field: "Name", Value: name, Err: fmt.Errorf("leaves job %q no tick: %w", spec.Job.Name, after)}
		}
	}
	return nil
}

// DeleteCalendar deletes a calendar that no job names. Its record stays, for ticks of a time when
// jobs named it. The Outcome is OutcomeDeleted. Errors: *invalid.FieldError, ErrNoCalendar,
// ErrInUse with the jobs, ErrUnreadable, ErrConflict, ErrDenied, ErrUnavailable.
func (c *Client) DeleteCalendar(ctx context.Context, name string, opts NamedOptions) (NamedChange, error) {
	return c.changeCalendar(ctx, name, zkrec.DeedDeleteCalendar, opts, func(read zkrec.ReadCalendar, users []zkrec.Spec) (zkrec.Calendar, Outcome, error) {
		if err := deletable(read.Err, read.Contents != nil && !read.Deleted, users, ErrNoCalendar); err != nil {
			return zkrec.Calendar{}, "", err
		}
		read.Deleted = true
		return read.Calendar, OutcomeDeleted, nil
	})
}

// changeCalendar reads a calendar and the jobs that name it, and writes the one that change
// returns.
func (ed editor) changeCalendar(
	ctx context.Context, name, kind string, opts NamedOptions,
	change func(read zkrec.ReadCalendar, users []zkrec.Spec) (zkrec.Calendar, Outcome, error),
) (NamedChange, error) {
	of := named{"calendar", ed.tree.Calendars(), job.CheckCalendarName, job.Job.CalendarNames, ErrNoCalendar}
	return ed.changeNamed(ctx, of, name, kind, opts.DryRun, func(at child, users []zkrec.Spec) ([]byte, Outcome, error) {
		read := zkrec.ReadCalendar{}
		if at.name != "" {
			read = at.calendar()
		}
		if err := newer(read.Err); err != nil {
			return nil, "", err
		}
		is, outcome, err := change(read, users)
		return is.Encode(), outcome, err
	})
}
