package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/deeds"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
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

// CalendarOptions are options of SetCalendar and DeleteCalendar. The zero value makes the change.
type CalendarOptions struct {
	// DryRun checks and reports the change, and writes nothing.
	DryRun bool
	// Set records to which files the calendar belongs: see SubmitOptions.Set. Default: as it is.
	// DeleteCalendar ignores it.
	Set string
}

// CalendarChange says how a change of a calendar ended, and which jobs name it.
type CalendarChange struct {
	Outcome Outcome  `json:"outcome"`
	Name    string   `json:"name"`
	Jobs    []string `json:"jobs,omitempty"`
}

// ErrCalendarInUse means that jobs name a calendar that is to be deleted.
var ErrCalendarInUse = errors.New("jobs name the calendar")

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
		users, err := c.calendarUsers(ctx)
		if err != nil {
			return nil, err
		}
		err = c.eachOf(ctx, c.tree.Calendars(), names, func(node child) {
			read := node.calendar()
			if read.Deleted {
				return
			}
			of := Calendar{Name: node.name, Set: read.Set}
			for _, user := range users[node.name] {
				of.Jobs = append(of.Jobs, user.Job.Name)
			}
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

// calendarUsers are the jobs that name calendars, by the name of the calendar, each in the order of
// their names. A job whose record cannot be read names none.
func (rd reader) calendarUsers(ctx context.Context) (users map[string][]zkrec.Spec, err error) {
	users = make(map[string][]zkrec.Spec)
	names, err := rd.children(ctx, rd.tree.Root())
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !zkrec.IsJob(name) })
	slices.Sort(names)
	err = rd.eachOf(ctx, rd.tree.Root(), names, func(node child) {
		spec, err := zkrec.ParseSpec(node.name, node.data)
		if err != nil || spec.Canceled {
			return
		}
		for _, name := range spec.Job.CalendarNames() {
			users[name] = append(users[name], spec)
		}
	})
	return users, err
}

// SetCalendar makes a calendar, or changes it for the ticks after the time at which ZooKeeper has
// accepted the change: ticks until then go by the content before. A record that is no calendar is
// replaced. The Outcome is OutcomeCreated, OutcomeReplaced or OutcomeUnchanged. A content that
// leaves a job without a tick to come is refused, with the job named. Errors: *invalid.FieldError,
// ErrUnreadable for a record of a newer version, ErrConflict, ErrDenied, ErrUnavailable.
func (c *Client) SetCalendar(ctx context.Context, name string, is job.Calendar, opts CalendarOptions) (CalendarChange, error) {
	if err := is.Validate(); err != nil {
		return CalendarChange{}, err
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
	all, err := ed.calendars(ctx, users...)
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
// ErrCalendarInUse with the jobs, ErrUnreadable, ErrConflict, ErrDenied, ErrUnavailable.
func (c *Client) DeleteCalendar(ctx context.Context, name string, opts CalendarOptions) (CalendarChange, error) {
	return c.changeCalendar(ctx, name, zkrec.DeedDeleteCalendar, opts, func(read zkrec.ReadCalendar, users []zkrec.Spec) (zkrec.Calendar, Outcome, error) {
		switch {
		case read.Err != nil:
			return zkrec.Calendar{}, "", fmt.Errorf("%w: %w", ErrUnreadable, read.Err)
		case read.Contents == nil || read.Deleted:
			return zkrec.Calendar{}, "", ErrNoCalendar
		case len(users) > 0:
			return zkrec.Calendar{}, "", fmt.Errorf("%w: %s", ErrCalendarInUse, strings.Join(jobNames(users), ", "))
		}
		read.Deleted = true
		return read.Calendar, OutcomeDeleted, nil
	})
}

func jobNames(users []zkrec.Spec) (names []string) {
	for _, spec := range users {
		names = append(names, spec.Job.Name)
	}
	return names
}

// changeCalendar reads a calendar and the jobs that name it, and writes the one that change
// returns, unless meanwhile another job has come to name a calendar.
func (ed editor) changeCalendar(
	ctx context.Context, name, kind string, opts CalendarOptions,
	change func(read zkrec.ReadCalendar, users []zkrec.Spec) (zkrec.Calendar, Outcome, error),
) (done CalendarChange, err error) {
	if err := job.CheckCalendarName(name); err != nil {
		return done, &invalid.FieldError{Of: "calendar", Field: "Name", Value: name, Err: err}
	}
	sent := false
	err = ed.persist(ctx, func() error {
		_, named, err := ed.optional(ctx, ed.tree.Calendars()) // before the jobs are read
		if err != nil {
			return err
		}
		users, err := ed.calendarUsers(ctx)
		if err != nil {
			return err
		}
		all, err := ed.calendars(ctx, zkrec.Spec{Job: job.Job{Calendars: []string{name}}})
		if err != nil {
			return err
		}
		read, found := all[name]
		switch {
		case errors.Is(read.Err, ErrDenied):
			return read.Err
		case errors.As(read.Err, new(*zkrec.SchemaError)):
			return fmt.Errorf("%w: %w", ErrUnreadable, read.Err)
		}
		is, outcome, err := change(read, users[name])
		switch {
		case sent && (outcome == OutcomeUnchanged || errors.Is(err, ErrNoCalendar)):
			return nil // an earlier try was applied after all
		case err != nil:
			return err
		}
		done = CalendarChange{Outcome: outcome, Name: name, Jobs: jobNames(users[name])}
		if outcome == OutcomeUnchanged || opts.DryRun {
			return nil
		}
		sent = true
		return ed.writeCalendar(ctx, node{path: ed.tree.Calendar(name), stat: zkconn.Stat{Version: read.Version}, here: found}, is, named.Version, kind, done)
	})
	if err != nil {
		return CalendarChange{}, fmt.Errorf("calendar %s: %w", name, uncertain(err, sent))
	}
	return done, nil
}

// writeCalendar writes a calendar unless jobs have come to name calendars since a version of the
// parent node.
func (ed editor) writeCalendar(ctx context.Context, at node, is zkrec.Calendar, named int32, kind string, done CalendarChange) error {
	if err := ed.conn.EnsureRoot(ctx, ed.tree.Calendars()); err != nil {
		return err
	}
	deed := ed.deed(ctx, kind, Who{})
	deed.Where = done.Name
	var of []signals.Signal
	if !at.here { // nobody watches it
		of = signals.OfJobs(ed.tree, done.Jobs)
	}
	ops := []zkconn.Op{at.write(is.Encode()), zkconn.CheckOp(ed.tree.Calendars(), named)}
	_, err := deeds.Write(ctx, ed.conn, ed.tree, deed, ops, func(ops []zkconn.Op) ([]zkconn.Stat, error) {
		return signals.Multi(ctx, ed.conn, of, ops...)
	})
	return err
}
