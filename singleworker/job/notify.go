package job

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// NotifyKind is a kind of news about a job: see Job.Notify.
type NotifyKind string

// The kinds of notifications.
const (
	NotifyFailed    NotifyKind = "failed"    // a run failed, timed out or was lost, and is not retried
	NotifyMissed    NotifyKind = "missed"    // ticks were not run because nobody claimed them in time
	NotifyLate      NotifyKind = "late"      // a tick is overdue by more than Job.AlarmAfter, or the job's record cannot be used
	NotifyHung      NotifyKind = "hung"      // a run in progress takes too long: see Job.HungAfter
	NotifyRecovered NotifyKind = "recovered" // one of the above is over, or its job was canceled
)

var notifyKinds = []NotifyKind{NotifyFailed, NotifyMissed, NotifyLate, NotifyHung, NotifyRecovered}

// NotifyKinds lists all kinds.
func NotifyKinds() []NotifyKind { return slices.Clone(notifyKinds) }

// Check reports why k is not a kind of notifications.
func (k NotifyKind) Check() error {
	if err := oneOf(k, notifyKinds...); err != nil || k != "" {
		return err
	}
	return fmt.Errorf("is empty, want one of %s", listed(notifyKinds))
}

func (j Job) checkNotify() error {
	if len(j.Notify) > MaxNotify {
		return Invalid("Notify", fmt.Sprintf("%d targets", len(j.Notify)), fmt.Errorf("are too many, at most %d are allowed", MaxNotify))
	}
	for _, target := range slices.Sorted(maps.Keys(j.Notify)) {
		if err := CheckNodeName(target); err != nil {
			return Invalid("Notify", excerpt([]byte(target)), fmt.Errorf("the target %w", err))
		}
		kinds := j.Notify[target]
		for i, kind := range kinds {
			err := kind.Check()
			if err == nil && slices.Contains(kinds[:i], kind) {
				err = errors.New("is there twice")
			}
			if err != nil {
				return Invalid("Notify", excerpt([]byte(target+"="+string(kind))), err)
			}
		}
	}
	return nil
}

func cloneNotify(to map[string][]NotifyKind) map[string][]NotifyKind {
	if to == nil {
		return nil
	}
	clone := make(map[string][]NotifyKind, len(to))
	for target, kinds := range to {
		clone[target] = slices.Clone(kinds)
	}
	return clone
}

// normalNotify has the kinds in their order, and no list that is nil.
func normalNotify(to map[string][]NotifyKind) map[string][]NotifyKind {
	if len(to) == 0 {
		return nil
	}
	normal := make(map[string][]NotifyKind, len(to))
	for target, kinds := range to {
		normal[target] = []NotifyKind{}
		for _, kind := range notifyKinds {
			if slices.Contains(kinds, kind) {
				normal[target] = append(normal[target], kind)
			}
		}
	}
	return normal
}
