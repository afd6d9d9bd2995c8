package job

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrEverywhereFixed is why a change of Everywhere is refused: between the runs of one instance and
// the runs of every instance, no line could be drawn.
var ErrEverywhereFixed = errors.New("cannot be changed: cancel the job and submit it again")

// CheckEverywhereKept returns an *invalid.FieldError if edited differs from old, a job that exists,
// in Everywhere.
func CheckEverywhereKept(old, edited Job) error {
	if old.Everywhere == edited.Everywhere {
		return nil
	}
	return Invalid("Everywhere", strconv.FormatBool(edited.Everywhere), ErrEverywhereFixed)
}

// checkEverywhere refuses settings that do not go together with Everywhere.
func (j Job) checkEverywhere() error {
	if !j.Everywhere {
		return nil
	}
	if j.Shards > 0 {
		return Invalid("Everywhere", "true", errors.New("does not go together with Shards: every instance does the whole work"))
	}
	if len(j.Limits) > 0 {
		return Invalid("Everywhere", "true", errors.New("does not go together with Limits: only the instance itself could give back the places of a run which its death has interrupted"))
	}
	schedule, err := j.timetable()
	if err == nil && (schedule.Always() || schedule.Once()) {
		err = Invalid("Everywhere", "true", fmt.Errorf("does not go together with the schedule %s", schedule))
	}
	return err
}
