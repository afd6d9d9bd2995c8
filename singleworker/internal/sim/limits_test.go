package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// The duties of a group in which instances have MaxSlots or MaxRunning.

// hasRoom reports whether an instance may own one more slot.
func hasRoom(m *swtest.Model, sid string) bool {
	most := m.Instances[sid].MaxSlots
	if most == 0 {
		return true
	}
	owned := 0
	for slot := range m.Jobs {
		if m.LiveOwner(slot) == sid && !isPart(slot) {
			owned++
		}
	}
	return owned < most
}

// isTakeable reports whether a live instance can run the slot and has room for it. Nobody runs a
// job of which an ancestor is not there, such as one that has no time in common with its parents.
func (w *world) isTakeable(m *swtest.Model, slot string) bool {
	if j := m.Jobs[zkrec.JobOfSlot(slot)]; j != nil && slices.ContainsFunc(w.ledger.ancestors(j.Spec.Job), func(name string) bool { return m.Jobs[name] == nil }) {
		return false
	}
	return slices.ContainsFunc(w.cluster.Live(), func(i *swtest.Instance) bool {
		return w.isOpen(m, i) && w.mayOwn(m, i.Name, slot) && (isPart(slot) || hasRoom(m, i.Name))
	})
}

// isPart reports whether a slot is an instance's of a job that runs on every instance: it counts in
// no share, and in no limit.
func isPart(slot string) bool {
	_, _, part := zkrec.SplitInstance(slot)
	return part
}

// isWaiting reports whether a job has a slot that nobody has room for, so that changes of the job
// wait, too.
func (w *world) isWaiting(m *swtest.Model, job string) bool {
	return slices.ContainsFunc(m.Jobs[job].Spec.ActiveLayout().Slots(job), func(slot string) bool {
		return m.LiveOwner(slot) == "" && !w.isTakeable(m, slot)
	})
}

// checkRunning expects that no instance had more handlers at work at once than it may have.
func (w *world) checkRunning() {
	if w.Running == 0 {
		return
	}
	type change struct {
		at time.Time
		by int
	}
	changes := make(map[*swtest.Instance][]change)
	for _, r := range w.cluster.Runs() {
		if x := w.ledger.lost; w.ledger.endless[r.ID] || x != nil && x.claims[r.ID] {
			continue // it neither counts nor waits, or its claim was lost, and so whether that is so
		}
		changes[r.Instance] = append(changes[r.Instance], change{r.Started, 1})
		if !r.Ended.IsZero() {
			changes[r.Instance] = append(changes[r.Instance], change{r.Ended, -1})
		}
	}
	for i, all := range changes {
		slices.SortFunc(all, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), a.by-b.by) })
		running := 0
		for _, c := range all {
			if running += c.by; running > w.Running {
				w.violate(violation{13, i.Name, c.at, fmt.Sprintf("%d runs at once, %d are allowed", running, w.Running)})
				break
			}
		}
	}
}
