package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
)

// ParentTimes are the times of a parent: of its schedule, and of those before, each in its turn. A
// parent that has none for its children has Err, which says why.
type ParentTimes struct {
	*cronexpr.Schedule

	Err error
}

// WithParents returns j with the times of its parents, by name. Without them, ParseSchedule cannot
// tell the times of a job that runs after others.
func (j Job) WithParents(parents map[string]ParentTimes) Job {
	j.known = &known{calendars: j.known.get().calendars, parents: parents}
	return j
}

var errNoParent = errors.New("is a job of which nothing is known here")

// common has the times of @after that all parents have.
func (j Job) common(after *cronexpr.Schedule) (*cronexpr.Schedule, error) {
	parents := make([]*cronexpr.Schedule, len(j.After))
	for i, name := range j.After {
		times, found := j.known.get().parents[name]
		switch {
		case times.Err != nil:
			return nil, Invalid("After", name, times.Err)
		case !found:
			return nil, Invalid("After", name, errNoParent)
		}
		parents[i] = times.Schedule
	}
	return after.Common(parents...).Within(j.NotBefore, j.NotAfter), nil
}

// checkAfter refuses parents without @after, and the reverse, and jobs that cannot wait for others.
func (j Job) checkAfter() error {
	schedule, err := j.timetable()
	if err != nil {
		return err
	}
	names := strings.Join(j.After, ", ")
	switch {
	case !schedule.After() && len(j.After) > 0:
		return Invalid("After", names, fmt.Errorf("needs the schedule @after, and not %s", schedule))
	case !schedule.After() && j.Deadline != 0:
		return Invalid("Deadline", j.Deadline.String(), fmt.Errorf("needs the schedule @after, and not %s", schedule))
	case !schedule.After():
		return nil
	case len(j.After) == 0:
		return Invalid("Schedule", j.Schedule, errors.New("needs After, the names of the jobs after which it runs"))
	case len(j.After) > MaxAfter:
		return Invalid("After", fmt.Sprintf("%d jobs", len(j.After)), fmt.Errorf("are too many, at most %d are allowed", MaxAfter))
	case j.Everywhere:
		return Invalid("After", names, errors.New("does not go together with Everywhere"))
	case j.BeforeTick != "":
		return Invalid("After", names, errors.New("does not go together with BeforeTick: a tick can wait for one of them"))
	}
	for i, name := range j.After {
		err := CheckName(name)
		switch {
		case err != nil:
		case name == j.Name:
			err = errors.New("is the job itself")
		case slices.Contains(j.After[:i], name):
			err = errors.New("is there twice")
		}
		if err != nil {
			return Invalid("After", name, err)
		}
	}
	if err := notNegative(j.Deadline); err != nil {
		return Invalid("Deadline", j.Deadline.String(), err)
	}
	return nil
}

// CheckParent reports why a job cannot be another one's parent.
func (j Job) CheckParent() error {
	schedule, err := j.timetable()
	switch {
	case err != nil:
		return fmt.Errorf("is invalid: %w", err)
	case schedule.Manual() || schedule.Always() || schedule.Once():
		return fmt.Errorf("has the schedule %s, and no ticks that recur", schedule)
	case j.Shards > 0:
		return errors.New("has shards, whose results stand in as many records: let it run after a job without shards")
	case j.Everywhere:
		return errors.New("runs on every instance, and has no result that they share")
	case j.MaxRuns > 0:
		return errors.New("has MaxRuns, and when it has run so often, its children would wait for nothing")
	}
	return nil
}
