package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// partsOf lists the slots of a job that runs on every instance: one for each that has run it, or
// could, until some time after it is gone. A job that none has come to yet is its only slot.
func partsOf(name string, sids []string) ([]string, error) {
	whole, sid, one := zkrec.SplitInstance(name)
	switch {
	case one && !slices.Contains(sids, sid):
		return nil, fmt.Errorf("%w: %s runs on every instance, and has nothing on record of %s", ErrNoShard, whole, sid)
	case one, len(sids) == 0:
		return []string{name}, nil
	}
	slots := make([]string, len(sids))
	for i, sid := range slices.Sorted(slices.Values(sids)) {
		slots[i] = zkrec.InstanceSlot(whole, sid)
	}
	return slots, nil
}

// partsName is what the slots of a job are called, of which this is one.
func partsName(slot string) string {
	if _, _, part := zkrec.SplitInstance(slot); part {
		return "instances"
	}
	return "shards"
}

// isAbsent reports whether the status is that of an instance that does not live, or does not take
// the job.
func (s *JobStatus) isAbsent() bool { return s.InstanceID != "" && s.Reason.Code == reason.Absent }

// present lists those of the parts whose instances live and take the job.
func present(parts []JobStatus) []JobStatus {
	return slices.DeleteFunc(slices.Clone(parts), func(s JobStatus) bool { return s.isAbsent() })
}

// absent says why an instance does not take its part of the job, or is zero.
func absent(sid string, registered []string, live map[string]Instance, j job.Job) reason.Reason {
	i, lives := live[sid]
	known := reason.Instance{ID: sid, State: i.State}
	if lives {
		known.Why = i.obstacle(j)
	}
	if lives && known.Why == "" && !i.closed() && slices.Contains(registered, sid) {
		return reason.Reason{}
	}
	return reason.Reason{Code: reason.Absent, Instances: []reason.Instance{known}}
}

// partsAt lists the slots of an instance of those jobs that run on every one, and that it owns.
func (m members) partsAt(ctx context.Context, names []string, sid string) (slots []string, err error) {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = zkrec.InstanceSlot(name, sid)
	}
	_, err = m.ownersOf(ctx, all, func(slot, owner string) {
		if owner == sid {
			slots = append(slots, slot)
		}
	})
	return slots, err
}
