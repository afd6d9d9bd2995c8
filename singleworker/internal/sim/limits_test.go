package sim

import (
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// What a group owes in which instances have MaxSlots.

// hasRoom reports whether an instance may own one more slot.
func hasRoom(m *swtest.Model, sid string) bool {
	most := m.Instances[sid].MaxSlots
	if most == 0 {
		return true
	}
	owned := 0
	for slot := range m.Jobs {
		if m.LiveOwner(slot) == sid {
			owned++
		}
	}
	return owned < most
}

// isTakeable reports whether a live instance can run the slot and has room for it.
func (w *world) isTakeable(m *swtest.Model, slot string) bool {
	job := zkrec.JobOfSlot(slot)
	return slices.ContainsFunc(w.cluster.Live(), func(i *swtest.Instance) bool {
		return w.isOpen(m, i) && w.handlers[i.Name][job] && hasRoom(m, i.Name)
	})
}

// isWaiting reports whether a job has a slot that nobody has room for, so that changes of the job wait, too.
func (w *world) isWaiting(m *swtest.Model, job string) bool {
	return slices.ContainsFunc(m.Jobs[job].Spec.ActiveLayout().Slots(job), func(slot string) bool {
		return m.LiveOwner(slot) == "" && !w.isTakeable(m, slot)
	})
}
