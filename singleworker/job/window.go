package job

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// checkWindow refuses bounds that leave no tick, and bounds of jobs that have none to bound.
func (j Job) checkWindow() error {
	for _, bound := range []struct {
		field string
		at    time.Time
	}{{"NotBefore", j.NotBefore}, {"NotAfter", j.NotAfter}} {
		text := bound.at.Format(time.RFC3339Nano)
		if bound.at.IsZero() {
			continue
		}
		if year := bound.at.UTC().Year(); year < 1970 || year > 2099 {
			return Invalid(bound.field, text, errors.New("is outside of 1970 to 2099, in which schedules have ticks"))
		}
		if err := j.needsSchedule(); err != nil {
			return Invalid(bound.field, text, err)
		}
	}
	if err := cmp.Or(j.checkJitter(), j.checkCalendars()); err != nil {
		return err
	}
	if j.MaxRuns == 0 && j.NotBefore.IsZero() && j.NotAfter.IsZero() {
		return nil
	}
	runs := strconv.Itoa(j.MaxRuns)
	switch {
	case j.MaxRuns < 0 || j.MaxRuns > MaxMaxRuns:
		return Invalid("MaxRuns", runs, fmt.Errorf("is out of range, want 0 to %d", MaxMaxRuns))
	case j.MaxRuns > 0 && (j.Shards > 0 || j.Everywhere):
		return Invalid("MaxRuns", runs, errors.New("does not go together with Shards or Everywhere: each of their slots would count by itself"))
	case j.MaxRuns > 0 && j.needsSchedule() != nil:
		return Invalid("MaxRuns", runs, j.needsSchedule())
	}
	if schedule, err := j.timetable(); err != nil || schedule.Ended(time.Time{}) {
		if err == nil {
			err = fmt.Errorf("leaves no tick of %s", schedule)
		}
		if j.NotAfter.IsZero() {
			return Invalid("NotBefore", j.NotBefore.Format(time.RFC3339Nano), err)
		}
		return Invalid("NotAfter", j.NotAfter.Format(time.RFC3339Nano), err)
	}
	return nil
}

func (j Job) checkJitter() error {
	switch {
	case j.Jitter == 0:
		return nil
	case j.Jitter < time.Millisecond || j.Jitter > MaxJitter:
		return Invalid("Jitter", j.Jitter.String(), fmt.Errorf("is out of range, want 1ms to %v", MaxJitter))
	case j.needsSchedule() != nil:
		return Invalid("Jitter", j.Jitter.String(), j.needsSchedule())
	}
	return nil
}

// needsSchedule is why a job without recurring ticks cannot have a field about them.
func (j Job) needsSchedule() error {
	schedule, err := j.timetable()
	if err == nil && (schedule.Always() || schedule.Manual() || schedule.Once()) {
		return fmt.Errorf("needs a schedule that recurs, and %s does not", schedule)
	}
	return err
}
