package files

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/fields"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Action has a group be as files say.
type Action string

// The actions of a plan.
const (
	Create    Action = "create"    // it does not exist
	Change    Action = "change"    // it differs
	Unchanged Action = "unchanged" // it does not differ
	Prune     Action = "prune"     // it is of the set, and in its files no more: cancel it, or delete it
	Conflict  Action = "conflict"  // nothing is done: see Step.Why
)

// Step is the part of a plan for one job, for one calendar, or for one limit.
type Step struct {
	Action Action `json:"action"`
	// Kind is Calendar for a calendar, Limit for a limit, and absent for a job.
	Kind string `json:"kind,omitempty"`
	Name string `json:"name"`
	// Place is where the files have the job: file:line:column. It is absent when that is nowhere.
	Place       string              `json:"place,omitempty"`
	Differences []fields.Difference `json:"differences,omitempty"`
	// Why explains a conflict.
	Why string `json:"why,omitempty"`
	// EditedBy is who changed the job since its set was applied, if that is on record.
	EditedBy *admin.LogEntry `json:"edited_by,omitempty"`
	// Outcome and Error tell how the step ended, once it was tried.
	Outcome admin.Outcome `json:"outcome,omitempty"`
	Error   string        `json:"error,omitempty"`

	Is      job.Calendar        `json:"-"` // as in the files, of a calendar
	Max     int                 `json:"-"` // likewise, of a limit
	Set     string              `json:"-"` // of the calendar, or the limit, from now on
	Job     job.Job             `json:"-"` // as in the files
	Options admin.SubmitOptions `json:"-"` // that do it, of Create and Change
	Was     admin.JobStatus     `json:"-"`
}

// IsLimit reports whether the step is for a limit.
func (s *Step) IsLimit() bool { return s.Kind == kindLimit }

// Options limit a plan.
type Options struct {
	Set       string    // the name of the files, or "": jobs stay in the set that they are in
	Prune     bool      // jobs of the set that the files do not have
	Force     bool      // also jobs that code declares, or that belong to another set
	IfVersion bool      // only jobs of the version that the files tell
	Now       time.Time // of the group
}

// Group is the contents of a group.
type Group struct {
	Jobs      []admin.JobStatus
	Calendars []admin.Calendar
	Limits    []admin.Limit
}

// Plan says how to have a group as the contents of files say. The steps are in the order of the
// contents, and then by name. Calendars and limits come before the jobs that may name them, and
// those to be pruned after them.
func Plan(found Contents, g Group, opts Options) []Step {
	calendars, oldCalendars := opts.planCalendars(found.Calendars, g.Calendars)
	limits, oldLimits := opts.planLimits(found.Limits, g.Limits)
	return slices.Concat(calendars, limits, opts.planJobs(found.Jobs, g.Jobs), oldCalendars, oldLimits)
}

// known is a calendar, or a limit, that a group has.
type known[T any] struct {
	is       T
	set, err string
}

// planNamed completes the steps that set records of a kind, and says which to delete afterwards.
func planNamed[T any](opts Options, kind string, set []Step, left map[string]known[T], differ func(s *Step, was T)) (_, prune []Step) {
	for i := range set {
		s := &set[i]
		was, exists := left[s.Name]
		delete(left, s.Name)
		s.Action, s.Kind, s.Set = Change, kind, cmp.Or(opts.Set, was.set)
		if differ(s, was.is); s.Set != was.set {
			s.differs("set", was.set, s.Set)
		}
		switch {
		case !exists:
			s.Action, s.Differences = Create, nil
		case len(s.Differences) == 0 && was.err == "":
			s.Action = Unchanged
		case was.set != "" && was.set != s.Set && !opts.Force:
			s.conflictf("it belongs to the set %s", was.set)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if opts.Prune && left[name].set == opts.Set {
			prune = append(prune, Step{Action: Prune, Kind: kind, Name: name})
		}
	}
	return set, prune
}

func (opts Options) planJobs(entries []Entry, jobs []admin.JobStatus) (steps []Step) {
	left := map[string]admin.JobStatus{}
	for _, was := range jobs {
		if was.State != admin.StateCanceled {
			left[was.Name] = was
		}
	}
	for _, e := range entries {
		was, exists := left[e.Job.Name]
		delete(left, e.Job.Name)
		steps = append(steps, opts.step(e, was, exists))
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if was := left[name]; opts.Prune && was.Set == opts.Set && !isDeclared(was) {
			steps = append(steps, Step{Action: Prune, Name: name, Was: was})
		}
	}
	return steps
}

func (opts Options) step(e Entry, was admin.JobStatus, exists bool) Step {
	s := Step{Action: Change, Name: e.Job.Name, Place: e.String(), Job: e.Job, Was: was}
	s.Options.Set = cmp.Or(opts.Set, was.Set)
	if was.Paused == nil {
		if s.Options.Pause = e.PauseOptions(opts.Now); s.Options.Pause != nil {
			s.differs("paused", "no", "yes")
		}
	} else if s.Options.Resume = e.Resume; e.Resume {
		s.differs("paused", "yes", "no")
	}
	if !exists {
		s.Action, s.Differences = Create, nil
		if opts.IfVersion {
			s.conflictf("it does not exist, and the file was made from v%d", *e.Version)
		}
		return s
	}
	seen := was.Seen()
	s.Options.Replace, s.Options.Seen = true, &seen
	s.Differences = append(s.Differences, fields.Differences(was.Job.WithDefaults(), e.Job.WithDefaults())...)
	if s.Options.Set != was.Set {
		s.differs("set", was.Set, s.Options.Set)
	}
	switch {
	case was.Job.Schedule == "":
		s.conflictf("its record cannot be read: %s", was.Reason)
	case opts.IfVersion && *e.Version != was.Version:
		s.conflictf("it is v%d, and the file was made from v%d", was.Version, *e.Version)
	case len(s.Differences) == 0 && same(was.Job, e.Job) && !was.Edited:
		s.Action = Unchanged
	case opts.Force:
	case isDeclared(was):
		s.conflictf("code declares it: %s", cmp.Or(was.DeclaredBy, "an application"))
	case was.Set != "" && was.Set != s.Options.Set:
		s.conflictf("it belongs to the set %s", was.Set)
	}
	return s
}

func (s *Step) differs(field, from, to string) {
	s.Differences = append(s.Differences, fields.Difference{Field: field, From: from, To: to})
}

func (s *Step) conflictf(format string, args ...any) {
	s.Action, s.Why = Conflict, fmt.Sprintf(format, args...)
}

// isDeclared reports whether code declares a job, or once did.
func isDeclared(s admin.JobStatus) bool { return s.Declared || s.DeclaredBy != "" }

// same reports whether jobs mean the same, also in what Differences has no line for.
func same(a, b job.Job) bool {
	was, _ := plain.Encode(a.Normal()) // jobs that were checked always encode
	is, _ := plain.Encode(b.Normal())
	return bytes.Equal(was, is)
}

// Pruned counts the jobs that a plan cancels, and all jobs of the set. Calendars and limits do not
// count: one that is missed by a job is not deleted.
func Pruned(steps []Step, jobs []admin.JobStatus, set string) (pruned, of int) {
	for _, s := range steps {
		if s.Action == Prune && s.Kind == "" {
			pruned++
		}
	}
	for _, j := range jobs {
		if j.Set == set {
			of++
		}
	}
	return pruned, of
}
