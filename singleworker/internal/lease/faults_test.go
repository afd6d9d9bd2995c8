package lease_test

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// faultLoop injects faults at random intervals until the end of the noise.
func (w *world) faultLoop() {
	if w.quiet {
		return
	}
	w.after(w.upTo(2*w.faultEvery), w.faultLoop)
	i := w.anyInstance()
	switch w.rng.IntN(12) {
	case 0, 1:
		if i != nil {
			notice := w.upTo(sessionTimeout * 6 / 10)
			i.cut(notice, notice+w.upTo(2*sessionTimeout))
		}
	case 2:
		if i != nil {
			i.sleep(w.upTo(3 * sessionTimeout))
		}
	case 3:
		if i != nil && !i.stalled {
			w.logf("", "%s hangs", i.member.Incarnation)
			i.stall(w.upTo(3 * sessionTimeout))
		}
	case 4:
		w.crash(i)
	case 5, 6:
		w.changeJob()
	case 7:
		w.handOfMan()
	case 8, 9:
		w.toggleBusy(i)
	case 10:
		w.changeGroup(i)
	case 11:
		if i != nil && w.forced {
			i.forceExpiry()
		}
	}
}

// anyInstance returns a random running instance, or nil.
func (w *world) anyInstance() *instance {
	for range 8 {
		if i := w.insts[w.rng.IntN(len(w.insts))]; i.up {
			return i
		}
	}
	return nil
}

func (w *world) live() []*instance {
	var out []*instance
	for _, i := range w.insts {
		if i.up {
			out = append(out, i)
		}
	}
	return out
}

// sleep suspends the machine: its monotonic clock stops, and its session survives
// only if it wakes in time.
func (i *instance) sleep(d time.Duration) {
	if i.stalled || !i.link {
		return
	}
	i.w.logf("", "%s sleeps for %v", i.member.Incarnation, d)
	i.suspended, i.sleptAt = true, i.w.time
	i.cut(d+i.w.upTo(sessionTimeout/5), d+i.w.upTo(sessionTimeout))
	i.stall(d)
}

func (w *world) crash(i *instance) {
	if i == nil || len(w.live()) < 2 {
		return
	}
	w.logf("", "%s crashes", i.member.Incarnation)
	i.up = false
	i.cut(0, 0)
	sid := ""
	if w.percent(50) {
		sid = i.member.SID
	}
	w.startInstance(sid, w.upTo(2*sessionTimeout))
}

func (i *instance) forceExpiry() {
	if !i.link {
		return
	}
	i.w.logf("", "%s: its session is ended from outside", i.member.Incarnation)
	i.forced = true
	for _, l := range i.leases {
		l.forced = true
	}
	i.cut(i.w.upTo(sessionTimeout/4), i.w.upTo(sessionTimeout))
	i.expire(i.session)
}

// changeJob deletes a job, submits one, or does both in quick succession.
func (w *world) changeJob() {
	slot := w.zk.names[w.rng.IntN(len(w.zk.names))]
	j := w.zk.jobs[slot]
	switch {
	case !j.now().Exists:
		w.logf(slot, "job submitted")
		w.zk.create(j)
	case !w.resubmits:
	case w.percent(40):
		w.logf(slot, "job deleted")
		w.zk.remove(j)
	case w.percent(50):
		w.logf(slot, "job deleted and submitted again")
		w.zk.remove(j)
		w.after(w.upTo(sessionTimeout/2), func() {
			if !j.now().Exists {
				w.zk.create(j)
			}
		})
	}
}

// handOfMan makes a manual change of heartbeat nodes.
func (w *world) handOfMan() {
	slot := w.zk.names[w.rng.IntN(len(w.zk.names))]
	j := w.zk.jobs[slot]
	rec := j.now()
	if !rec.Exists {
		return
	}
	w.zk.zxid++
	if !w.resubmits && len(rec.Beats) > 0 && w.percent(50) {
		sid := rec.Beats[w.rng.IntN(len(rec.Beats))].SID
		rec.Beats = without(rec.Beats, sid)
		w.logf(slot, "someone deletes the heartbeat of %s", sid)
		w.zk.put(j, rec)
		return
	}
	sid := "java"
	if i := w.anyInstance(); i != nil && w.percent(50) {
		sid = i.member.SID
	}
	if _, exists := beatOf(rec, sid); exists || sid == rec.Owner.SID {
		return
	}
	w.logf(slot, "a stranger heartbeat of %s appears", sid)
	// Use a version that no instance knows: a forged heartbeat with the version that
	// a hung owner saw last would renew a lost lease.
	rec.Beats = with(rec.Beats, lease.Beat{SID: sid, Version: 1000, Mzxid: w.zk.zxid})
	w.zk.put(j, rec)
	if w.percent(50) {
		w.after(w.upTo(sessionTimeout), func() { w.strangerBeats(j, sid) })
	}
}

func (w *world) strangerBeats(j *job, sid string) {
	rec := j.now()
	version, exists := beatOf(rec, sid)
	if !exists || w.quiet || rec.Owner.SID == sid || w.percent(10) {
		return
	}
	w.zk.zxid++
	w.zk.beat(sid, j.slot, version)
	w.after(w.upTo(sessionTimeout), func() { w.strangerBeats(j, sid) })
}

func (w *world) toggleBusy(i *instance) {
	if i == nil || len(i.leases) == 0 {
		return
	}
	slots := i.sortedLeases()
	slot := slots[w.rng.IntN(len(slots))]
	if i.busy[slot] {
		i.setBusy(slot, false)
	} else if i.valid(slot) {
		i.setBusy(slot, true)
	}
}

func (i *instance) setBusy(slot lease.Slot, busy bool) {
	i.busy[slot] = busy
	i.deliver(func() { i.step(lease.Busy{Slot: slot, Busy: busy}) }, 0)
}

// changeGroup makes an instance join, drain, or lose or gain a handler.
func (w *world) changeGroup(i *instance) {
	switch {
	case w.percent(30) && len(w.live()) < 6:
		w.startInstance("", w.upTo(sessionTimeout))
	case i == nil:
	case w.drains && i.draining && w.percent(60):
		i.undrain()
	case w.drains && w.percent(30) && w.open() > 1:
		i.drain()
	case !w.alike:
		slot := w.zk.names[w.rng.IntN(len(w.zk.names))]
		i.handlers[slot] = !i.handlers[slot]
		w.logf(slot, "%s: has its handler: %v", i.member.Incarnation, i.handlers[slot])
		if i.handlers[slot] {
			w.zk.register(slot, i.member.SID)
		} else {
			w.zk.unregister(slot, i.member.SID)
		}
		i.listJobs()
	}
}

// open counts the instances that take slots.
func (w *world) open() int {
	n := 0
	for _, i := range w.insts {
		if i.up && !i.draining {
			n++
		}
	}
	return n
}

// drain publishes that the instance takes no more slots, and then makes it release
// its slots. Publishing may be slow or fail.
func (i *instance) drain() {
	if i.draining {
		return
	}
	i.w.logf("", "%s drains", i.member.Incarnation)
	i.draining, i.closed = true, true
	i.publishLater()
	i.deliver(i.applyOrder, i.w.delay())
}

// undrain ends a drain.
func (i *instance) undrain() {
	i.w.logf("", "%s drains no more", i.member.Incarnation)
	i.draining, i.closed = false, false
	i.publishLater()
	i.deliver(i.applyOrder, i.w.delay())
}

// applyOrder applies the latest drain or undrain: notifications may arrive in any order.
func (i *instance) applyOrder() {
	if i.draining {
		i.step(lease.Drain{})
	} else {
		i.step(lease.Undrain{})
	}
}

// publishLater may come too late, or not at all until the next sync.
func (i *instance) publishLater() {
	if !i.link || i.w.zk.peers()[i.member.SID].Incarnation != i.member.Incarnation || i.w.percent(10) {
		return
	}
	i.w.after(i.w.delay(), func() {
		if i.link && i.w.zk.peers()[i.member.SID].Incarnation == i.member.Incarnation {
			i.publish()
		}
	})
}

// silence ends the noise: existing faults are repaired, and no new ones occur.
func (w *world) silence() {
	w.quiet = true
	w.logf("", "the noise stops")
	live := w.live()
	if w.hangsForEver && len(live) > 1 {
		i := live[w.rng.IntN(len(live))]
		if i.link && !i.stalled && !i.draining {
			w.logf("", "%s hangs for ever", i.member.Incarnation)
			i.stall(1000 * time.Hour)
			w.hung = i.member.SID
			live = slices.DeleteFunc(live, func(other *instance) bool { return other == i })
		}
	}
	for _, i := range live {
		if i.stalled {
			i.stallID++
			i.resume()
		}
		for _, slot := range w.zk.names {
			if i.busy[slot] {
				i.setBusy(slot, false)
			}
		}
		if !i.link && i.session != nil {
			i.notice(i.conn)
			w.after(w.delay(), i.reconnect)
		}
	}
}

// responsive lists the running instances that do not hang.
func (w *world) responsive() []*instance {
	var out []*instance
	for _, i := range w.insts {
		if i.up && !i.stalled {
			out = append(out, i)
		}
	}
	return out
}
