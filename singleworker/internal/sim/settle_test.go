package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// settle measures how soon every slot is owned and the shares are even, and checks that it
// stays so. Resharding meanwhile restarts that.
func (w *world) settle() {
	quiet := time.Now()
	begun, slots := quiet, w.slots()
	job, missing, shares := "", "", ""
	for {
		changing, what := w.changing()
		if since := time.Since(quiet); changing != "" && since > w.changedWithin() {
			w.violate(violation{7, changing, time.Now(), fmt.Sprintf("%v after the faults its shards are not what they should be: %s", since, what)})
			break
		}
		w.read()
		if now := w.slots(); !slices.Equal(now, slots) {
			begun, slots = time.Now(), now
		}
		since := time.Since(begun)
		if name, text := w.unowned(); text != "" {
			w.owned, job, missing = max(w.owned, since), name, text
		}
		uneven := w.uneven()
		if uneven != "" {
			w.even, shares = max(w.even, since), uneven
		}
		// A session that ends late is over by then.
		enough := since > w.evenWithin() || since > w.Session+w.Sync && w.owned < since && uneven == ""
		if changing == "" && enough {
			break
		}
		time.Sleep(serverTick)
	}
	if w.owned > w.ownedWithin() {
		w.violate(violation{5, job, quiet.Add(w.owned), fmt.Sprintf("%v after the faults not owned by a live instance: %s", w.owned, missing)})
	}
	if w.even > w.evenWithin() {
		w.violate(violation{6, "", time.Now(), fmt.Sprintf("after %v the shares are %s", w.even, shares)})
	}
	w.checkDead()
	if !w.Alike || w.Placed { // what is even there is not known: until nothing may move
		for until := begun.Add(w.evenWithin()); time.Now().Before(until); w.read() {
			time.Sleep(min(w.Session, time.Until(until)))
		}
	}
	w.rest()
}

// rest watches a group in which nothing happens: no slot moves, and every due tick is run.
func (w *world) rest() {
	w.calmFrom = time.Now()
	before, slots := w.tokens(), w.slots()
	time.Sleep(w.Session + 3*w.Sync)
	w.calmTo = time.Now()
	w.read()
	if !slices.Equal(slots, w.slots()) {
		clear(before) // a job is done, and the others may move
	}
	for slot, token := range w.tokens() {
		if was, known := before[slot]; known && was != token {
			w.violate(violation{6, slot, time.Now(), fmt.Sprintf("it has moved although nothing happened: token %d, then %d", was, token)})
		}
	}
	rights := w.cluster.Rights()
	live := w.cluster.Live()
	w.cluster.View(func(m *swtest.Model) {
		for name, j := range m.Jobs {
			switch {
			case j.Spec.Done != nil && zkrec.JobOfSlot(name) == name:
				w.checkDone(m, j)
			case j.Spec.Done == nil && m.IsSlot(name) && w.isAble(m, name) && (m.LiveOwner(name) != "" || w.isTakeable(m, name)):
				w.checkIdle(m, j, live, rights)
			}
		}
	})
}

// tokens lists the tokens of the owned slots.
func (w *world) tokens() map[string]int64 {
	tokens := make(map[string]int64)
	w.cluster.View(func(m *swtest.Model) {
		for slot, j := range m.Jobs {
			if m.LiveOwner(slot) != "" {
				tokens[slot] = j.Token
			}
		}
	})
	return tokens
}

// settledWithin is how long after a tick a quiet network has it run, and recorded: it is claimed by
// then, its handler returns at once, and a tick that is late by a second is a misfire.
const settledWithin = 3 * time.Second

// checkIdle verifies that the owner of a slot knows it, and does its work.
func (w *world) checkIdle(m *swtest.Model, j *swtest.Job, live []*swtest.Instance, rights []swtest.Right) {
	now := time.Now()
	owner := m.LiveOwner(j.Name)
	if !slices.ContainsFunc(rights, func(r swtest.Right) bool {
		return r.Instance.Name == owner && slices.Contains(live, r.Instance) && r.Job == j.Name && r.Token == j.Token && !r.Closed
	}) {
		w.violate(violation{5, j.Name, now, fmt.Sprintf("%q owns it with %d, and does not know it", owner, j.Token)})
	}
	paused := j.Spec.Switch.Paused.Covers(now) || j.Spec.Switch.Paused.Covers(now.Add(-settledWithin)) ||
		isFrozen(m, j.Name, now) || isFrozen(m, j.Name, now.Add(-settledWithin))
	for id, request := range j.Requests {
		if !paused || request.Kind != zkrec.RequestBackfill {
			w.violate(violation{8, j.Name, now, fmt.Sprintf("request %s is ignored: %+v; it is at %+v", id, request, j.Tick)})
		}
	}
	sched, err := w.ledger.scheduleOf(j.Spec.Job)
	if err != nil || paused {
		return
	}
	if j.Spec.Resizing() && w.isWaiting(m, zkrec.JobOfSlot(j.Name)) {
		return // resharding waits for room, and the ticks for resharding
	}
	if isAlways(&j.Spec) && !j.Tick.Open() && restartDue(&j.Spec, j.Tick) < now.Add(-settledWithin).UnixMilli() {
		w.violate(violation{15, j.Name, now, fmt.Sprintf("it is to run always, and does not: %+v", j.Tick)})
	}
	within := settledWithin
	if len(j.Spec.Job.Limits) > 0 {
		within += turnWithin
	}
	if due := w.lateTick(j, sched, now.Add(-within)).UnixMilli(); due > max(j.Tick.Watermark, j.Spec.Since, j.Spec.ActiveLayout().Since) {
		w.violate(violation{8, j.Name, now, fmt.Sprintf("its account ends at %s, before %s: %+v", clockMs(j.Tick.Watermark), clockMs(due), j.Tick)})
	}
}

// checkDead verifies that the server has no nodes of dead instances while the others run, except
// for the registrations of those that were killed.
func (w *world) checkDead() {
	live := make(map[string]bool)
	for _, i := range w.cluster.Live() {
		live[i.Name] = true
	}
	if n := len(w.cluster.Server.Sessions()); n != len(live) {
		w.violate(violation{7, "", time.Now(), fmt.Sprintf("%d sessions, want those of %d instances", n, len(live))})
	}
	w.cluster.View(func(m *swtest.Model) {
		for sid := range m.Instances {
			if !live[sid] {
				w.violate(violation{7, sid, time.Now(), "its ephemeral node is left"})
			}
		}
		for name, j := range m.Jobs {
			for sid := range j.Beats {
				if sid != j.Owner.SID && w.isAble(m, name) {
					w.violate(violation{7, name, time.Now(), "a heartbeat of " + sid + " without an owner record"})
				}
			}
		}
	})
}

// isAble reports whether a live instance can run the slot and so cleans up after its dead owners.
func (w *world) isAble(m *swtest.Model, slot string) bool {
	return slices.ContainsFunc(w.cluster.Live(), func(i *swtest.Instance) bool { return w.isOpen(m, i) && w.mayOwn(m, i.Name, slot) })
}

// mayOwn reports whether an instance can run a slot: of a job that runs on every instance, its own.
func (w *world) mayOwn(m *swtest.Model, sid, slot string) bool {
	job, of, part := zkrec.SplitInstance(slot)
	if !part {
		job = zkrec.JobOfSlot(slot)
	}
	return w.mayRun(m, sid, job) && (!part || sid == of)
}

// isOpen reports whether a live instance takes jobs.
func (w *world) isOpen(m *swtest.Model, i *swtest.Instance) bool {
	order, ordered := m.Orders[i.Name]
	return w.isLeader(i) && !i.Withdrawn() && !(ordered && order.Binds(m.Instances[i.Name].Incarnation))
}

// ownedWithin is property 5's time; see the test.
func (w *world) ownedWithin() time.Duration { return w.Session + 2*w.Sync + 3*serverTick }

// evenWithin is property 6's. For so many sync periods, an instance that had to be relieved again
// and again is offered nothing.
func (w *world) evenWithin() time.Duration {
	const skipped = 32
	return max(w.ownedWithin()+3*w.Sync, (skipped+3)*w.Sync) + 4*serverTick
}

// unowned names a job that some live instance has the handler of and none owns.
func (w *world) unowned() (job, missing string) {
	live := w.cluster.Live()
	w.cluster.View(func(m *swtest.Model) { job, missing = w.unownedIn(m, live) })
	return job, missing
}

func (w *world) unownedIn(m *swtest.Model, live []*swtest.Instance) (slot, missing string) {
	for _, name := range slices.Sorted(mapKeys(m.Jobs)) {
		if zkrec.JobOfSlot(name) != name || m.Jobs[name].Spec.Done != nil {
			continue // its job's layout tells; or nobody is to own it
		}
		for _, slot := range slotsOf(m, name, live) {
			able := w.isTakeable(m, slot)
			owner := m.LiveOwner(slot)
			running := slices.ContainsFunc(live, func(i *swtest.Instance) bool {
				// A killed one of the same name lives on in the records, for a while.
				return i.Name == owner && w.isOpen(m, i) && w.mayOwn(m, owner, slot) && !m.Instances[owner].Since.Before(i.Since)
			})
			closed := slices.ContainsFunc(live, func(i *swtest.Instance) bool {
				return i.Name == owner && (!w.isOpen(m, i) || !w.mayOwn(m, owner, slot))
			})
			if (able || closed) && !running && !w.isHandedOver(m, m.Jobs[slot]) {
				return slot, fmt.Sprintf("%+v, alive: %v", m.Jobs[slot], m.Instances)
			}
		}
	}
	return "", ""
}

// slotsOf lists a job's slots. A job that runs on every instance has one at each instance that
// lives.
func slotsOf(m *swtest.Model, job string, live []*swtest.Instance) (slots []string) {
	spec := &m.Jobs[job].Spec
	if !spec.Job.Everywhere {
		return spec.ActiveLayout().Slots(job)
	}
	for _, i := range live {
		slots = append(slots, zkrec.InstanceSlot(job, i.Name))
	}
	return slots
}

// isHandedOver reports whether a job is moving from one live instance to another: for as long as
// the messages of an adoption may take, and no longer.
func (w *world) isHandedOver(m *swtest.Model, job *swtest.Job) bool {
	if job == nil {
		return false // its nodes are not there
	}
	_, lives := m.Instances[job.Owner.Offer]
	return lives && time.Since(job.Since) < handOver
}

// handOver is an event, and four requests and their replies: for the record, the list of
// instances, the instances, and the adoption.
const handOver = 9 * longestLag

// uneven names shares that are less even than they will be: of all slots, or of the shards of one
// job.
func (w *world) uneven() (what string) {
	if !w.Alike || w.Placed {
		return ""
	}
	owners, shares := w.cluster.Owners(), make(map[string]int)
	maps.DeleteFunc(owners, func(slot, _ string) bool { return isPart(slot) }) // which are in no share
	for _, sid := range owners {
		shares[sid]++
	}
	open := make(map[string]swtest.Member)
	w.cluster.View(func(m *swtest.Model) {
		for _, i := range w.cluster.Live() {
			if member, joined := m.Instances[i.Name]; joined && w.isOpen(m, i) {
				member.Owned = shares[i.Name]
				open[i.Name] = member
			}
		}
	})
	slots := make(map[string]int)             // by job
	shards := make(map[string]map[string]int) // by job and instance
	for slot, sid := range owners {
		job := zkrec.JobOfSlot(slot)
		if slots[job]++; shards[job] == nil {
			shards[job] = make(map[string]int)
		}
		shards[job][sid]++
	}
	for a, from := range open {
		for b, to := range open {
			if to.MaxSlots > 0 && to.Owned >= to.MaxSlots {
				continue
			}
			// By how much the move of a slot evens out; shards of one job count for more than all slots.
			gain := func(a, b int) int { return (2*a-1)*to.Weight - (2*b+1)*from.Weight }
			all := gain(from.Owned, to.Owned)
			if all > 0 && !w.Weighted {
				return fmt.Sprint(shares)
			}
			for job, of := range shards {
				group := gain(of[a], of[b])
				if slots[job] == 1 {
					group = 0 // it is alone
				}
				if of[a] > 0 && (group > 0 || group == 0 && all > 0) {
					return fmt.Sprint(job, of, shares)
				}
			}
		}
	}
	return ""
}

// end stops everything and looks for remains: property 7.
func (w *world) end() {
	killed, open := make(map[string]bool), make(map[*swtest.Instance]bool)
	w.cluster.View(func(m *swtest.Model) {
		for _, i := range w.cluster.Live() {
			open[i] = w.isOpen(m, i)
		}
	})
	for _, i := range w.cluster.Instances() {
		if i.State() != swtest.Killed {
			i.Leave()
		}
	}
	w.read()
	w.checkRunning()
	joined := make(map[string]bool)
	for _, sid := range w.ledger.joined {
		joined[sid] = true
	}
	for _, i := range w.cluster.Instances() {
		<-i.Done()
		if i.State() == swtest.Killed {
			killed[i.Name] = true
		} else if err := i.Stop(); errors.Is(err, singleworker.ErrNotHandedBack) || !joined[i.Name] || w.ledger.lost.endOf(i) {
			killed[i.Name] = true // as good as: what it registered is left, or was when it could not join
		} else if twin := errors.Is(err, singleworker.ErrDuplicateInstance) && w.twins[i.Name]; err != nil && !twin {
			w.violate(violation{7, i.Name, time.Now(), fmt.Sprintf("Run returned %v", err)})
		}
	}
	time.Sleep(w.Session + 2*serverTick) // for the sessions of those that were killed last
	if n := len(w.cluster.Server.Sessions()); n != 0 {
		w.violate(violation{7, "", time.Now(), fmt.Sprintf("%d sessions are left", n)})
	}
	w.cluster.View(func(m *swtest.Model) { w.checkLeft(m, killed, open) })
}

// checkLeft looks at the nodes and sessions that a group leaves behind.
func (w *world) checkLeft(m *swtest.Model, killed map[string]bool, open map[*swtest.Instance]bool) {
	for sid := range m.Instances {
		w.violate(violation{7, sid, time.Now(), "its ephemeral node is left"})
	}
	if n := len(m.Sessions); n != 0 {
		w.violate(violation{7, "", time.Now(), fmt.Sprintf("the log leaves %d sessions", n)})
	}
	for name, j := range m.Jobs {
		for sid := range j.Beats {
			retired := j.Spec.Done != nil && !m.IsSlot(name) // goes with its job, at the latest
			alone := isPart(name) || j.Spec.Done != nil      // no other instance may take it
			dead := killed[sid] || w.Latch && w.twins[sid]   // the process that is left leads before it looks after its parts
			if w.everAble(name, open) && !(alone && dead) && !retired {
				w.violate(violation{7, name, time.Now(), "the heartbeat of " + sid + " is left"})
			}
		}
		for sid := range j.Registered {
			if zkrec.JobOfSlot(name) == name && !killed[sid] { // who was killed could not; the others do, after ten sessions
				w.violate(violation{7, name, time.Now(), "the registration of " + sid + " is left"})
			}
		}
	}
}

// everAble reports whether an instance that lived to the end and took jobs has the slot's handler,
// and so has cleaned up after the dead: in the part of an instance, that one alone.
func (w *world) everAble(slot string, open map[*swtest.Instance]bool) bool {
	job := zkrec.JobOfSlot(slot)
	if w.Limited || w.Placed {
		return false // it may have had no room, or been kept away
	}
	_, of, part := zkrec.SplitInstance(slot)
	return slices.ContainsFunc(w.cluster.Instances(), func(i *swtest.Instance) bool {
		return open[i] && w.handlers[i.Name][job] && (!part || i.Name == of)
	})
}
