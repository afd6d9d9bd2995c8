package job

import (
	"errors"
	"fmt"
)

// checkBeforeTick refuses a function before each tick of a job that has no ticks, or no shards that
// could wait for it.
func (j Job) checkBeforeTick() error {
	if j.BeforeTick == "" {
		return nil
	}
	if err := CheckNodeName(j.BeforeTick); err != nil {
		return Invalid("BeforeTick", j.BeforeTick, err)
	}
	if j.Shards == 0 {
		return Invalid("BeforeTick", j.BeforeTick, errors.New("needs Shards: the handler of a job without shards can begin with it"))
	}
	schedule, err := j.timetable()
	if err == nil && (schedule.Always() || schedule.Manual()) {
		err = Invalid("BeforeTick", j.BeforeTick, fmt.Errorf("needs ticks, and the schedule %s has none", schedule))
	}
	return err
}
