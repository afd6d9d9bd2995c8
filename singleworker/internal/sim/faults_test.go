package sim

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

func mapKeys[K comparable, V any](m map[K]V) iter.Seq[K] { return maps.Keys(m) }

// fault is something that happens to a group, or that is done to it.
type fault struct {
	name   string
	weight int // how often it is drawn, in relation to the others
	do     func(w *world, victim *swtest.Instance)
}

// faults are all that there are: a new one is a line here.
var faults = []fault{
	{"kill", 2, (*world).kill},
	{"partition", 2, (*world).partition},
	{"stall", 1, (*world).stall},
	{"restart the server", 1, func(w *world, _ *swtest.Instance) { w.restart() }},
	{"cut", 3, (*world).cut},
	{"slow", 2, (*world).slow},
	{"end a session", 1, (*world).endSession},
	{"join or leave", 1, (*world).changeGroup},
	{"submit or cancel", 1, func(w *world, _ *swtest.Instance) { w.changeJob() }},
	{"mute", 1, (*world).mute},
	{"trigger", 1, func(w *world, _ *swtest.Instance) { w.trigger(w.rng.IntN(len(w.shards))) }},
	{"pause", 1, func(w *world, _ *swtest.Instance) { w.pause(jobName(w.rng.IntN(len(w.shards)))) }},
	{"freeze", 1, func(w *world, _ *swtest.Instance) { w.freeze(jobName(w.rng.IntN(len(w.shards)))) }},
	{"order", 1, func(w *world, victim *swtest.Instance) { w.order(victim.Name) }},
	{"withdraw", 1, (*world).orderOrWithdraw},
	{"set", 2, func(w *world, _ *swtest.Instance) { w.set(w.rng.IntN(len(w.shards))) }},
	{"stop a run", 1, func(w *world, _ *swtest.Instance) { w.stop(w.rng.IntN(len(w.shards))) }},
	{"withdraw requests", 1, func(w *world, _ *swtest.Instance) { w.unrequest(w.rng.IntN(len(w.shards))) }},
	{"set a clock", 1, (*world).setClock},
	{"zk clock", 2, func(w *world, _ *swtest.Instance) { w.setServerClock() }},
	{"forget", 1, func(w *world, _ *swtest.Instance) { w.forget() }},
	{"depose", 1, func(w *world, _ *swtest.Instance) { w.depose() }},
	{"lag", 2, (*world).fallBehind},
	{"twin", 1, (*world).twin},
	{"move", 1, func(w *world, _ *swtest.Instance) { w.move(w.rng.IntN(len(w.shards))) }},
	{"exclude", 3, func(w *world, victim *swtest.Instance) { w.exclude(victim.Name, w.rng.IntN(len(w.shards))) }},
	{"reshard", 5, func(w *world, _ *swtest.Instance) { w.reshard() }},
	{"calendar", 4, func(w *world, _ *swtest.Instance) { w.changeCalendar() }},
}

// fault injects one random fault.
func (w *world) fault() {
	live := w.cluster.Live()
	if len(live) == 0 {
		w.start("")
		return
	}
	victim := live[w.rng.IntN(len(live))]
	may := faults
	if w.Families {
		may = append(slices.Clone(may), fault{"family", 8, func(w *world, _ *swtest.Instance) { w.changeFamily() }})
	}
	if w.Shared {
		may = append(slices.Clone(may), fault{"limit", 8, func(w *world, _ *swtest.Instance) { w.changeLimit() }})
	}
	sum := 0
	for _, f := range may {
		sum += f.weight
	}
	n := w.rng.IntN(sum)
	for _, f := range may {
		if n -= f.weight; n < 0 {
			f.do(w, victim)
			return
		}
	}
}

// endSession ends one from outside, or only its connection in a group where the former does not
// happen.
func (w *world) endSession(victim *swtest.Instance) {
	switch {
	case !w.Forced:
		victim.Client.Disconnect()
	case w.rng.IntN(2) == 0:
		w.expire()
	default:
		w.deleteNode(victim)
	}
}

func (w *world) orderOrWithdraw(victim *swtest.Instance) {
	if w.rng.IntN(3) == 0 {
		w.withdraw(victim)
	} else {
		w.order(victim.Name)
	}
}

func (w *world) kill(victim *swtest.Instance) {
	if len(w.cluster.Live()) < 2 && w.rng.IntN(2) == 0 {
		return
	}
	if w.rng.IntN(2) == 0 {
		time.Sleep(untilCrowd() + crowdPhases[w.rng.IntN(len(crowdPhases))])
	}
	w.notef("%s is killed", victim.Name)
	victim.Kill()
	time.Sleep(w.upTo(2 * w.Session))
	name := ""
	if w.rng.IntN(2) == 0 {
		name = victim.Name
	}
	w.start(name)
}

// crowdPhases are the moments around one at which many jobs are due.
var crowdPhases = func() (all []time.Duration) {
	for phase := -400 * time.Millisecond; phase < 600*time.Millisecond; phase += 50 * time.Millisecond {
		all = append(all, phase)
	}
	return all
}()

// untilCrowd is how long it takes until jobs of nearly all schedules that are quicker than a minute
// are due.
func untilCrowd() time.Duration {
	const period = 5 * time.Second
	now := time.Now()
	return now.Truncate(period).Add(period).Sub(now)
}

func (w *world) partition(victim *swtest.Instance) {
	d := w.upTo(w.Session * 5 / 2)
	w.notef("%s is partitioned for %v", victim.Name, d)
	victim.Partition()
	w.after(d, func() {
		w.notef("%s is healed", victim.Name)
		victim.Heal()
	})
}

func (w *world) stall(victim *swtest.Instance) {
	d := w.upTo(w.Session * 5 / 2)
	w.notef("%s stalls for %v", victim.Name, d)
	w.stops[victim.Client] = append(w.stops[victim.Client], stop{time.Now(), time.Now().Add(d)})
	victim.Stall()
	w.after(d, func() {
		w.notef("%s resumes", victim.Name)
		victim.Resume()
	})
}

// fallBehind has an instance read from a server that is behind.
func (w *world) fallBehind(victim *swtest.Instance) {
	if !w.Lagging {
		return
	}
	d, lasts := w.upTo(w.Session)+time.Millisecond, w.upTo(6*w.Session)
	w.notef("%s reads from a server that is %v behind, for %v", victim.Name, d, lasts)
	w.lags(victim.Place(), true)
	victim.Client.Lag(d)
	w.after(lasts, func() {
		w.notef("the server of %s has caught up", victim.Name)
		victim.Client.Lag(0)
		w.lags(victim.Place(), false)
	})
}

// restart stops the server for a while.
func (w *world) restart() {
	mode := zkdev.KeepSessions
	if w.Forced && w.rng.IntN(3) == 0 {
		mode = zkdev.DropSessions
	}
	away := w.upTo(w.Session)
	if w.rng.IntN(3) == 0 {
		away *= 3
	}
	longest := w.Session
	if w.rng.IntN(3) == 0 {
		longest = w.Session / 2 // for those that connect from then on
	}
	w.cluster.Server.SetMaxSession(longest)
	w.notef("the server goes for %v and grants sessions of %v; keeps sessions: %v", away, longest, mode == zkdev.KeepSessions)
	w.cluster.Server.Stop()
	time.Sleep(away)
	if mode == zkdev.DropSessions {
		w.force(w.running()...)
	}
	if err := w.cluster.Server.Restart(mode); err != nil {
		w.violate(violation{7, "server", time.Now(), err.Error()})
	}
	w.notef("the server is back")
}

// running lists those that live, or are leaving.
func (w *world) running() (sids []string) {
	for _, i := range w.cluster.Instances() {
		if i.State() == swtest.Running || i.State() == swtest.Stopping {
			sids = append(sids, i.Name)
		}
	}
	return sids
}

// force notes that sessions of instances end from outside.
func (w *witness) force(of ...string) {
	sids := make(map[string]bool)
	for _, sid := range of {
		sids[sid] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forced = append(w.forced, forced{time.Now(), sids})
}

func (w *world) expire() {
	sessions := w.cluster.Server.Sessions()
	if len(sessions) == 0 {
		return
	}
	session := sessions[w.rng.IntN(len(sessions))]
	w.notef("session %#x of %s is ended from outside", session.ID, session.Client)
	w.cluster.View(func(m *swtest.Model) {
		for sid, member := range m.Instances {
			if member.Session == session.ID {
				w.force(sid)
			}
		}
	})
	_ = w.cluster.Server.ExpireSession(session.ID) // may have ended by itself
}

// deleteNode deletes the node of a healthy instance: to the others it is dead. The instance may
// learn of it late and claim ticks meanwhile.
func (w *world) deleteNode(victim *swtest.Instance) {
	w.notef("someone deletes the node of %s", victim.Name)
	if w.rng.IntN(3) > 0 {
		d := w.upTo(w.Session * 6 / 10)
		w.control(victim, zkdev.OpAny, 0, 1, func() zkdev.Action { return zkdev.DelayReply(w.lasts(d)) })
		time.Sleep(w.Session / 4) // until its next heartbeat, or sooner
	}
	w.force(victim.Name)
	err := w.cluster.Delete(context.Background(), w.cluster.Tree().Instance(victim.Name))
	if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
		w.violate(violation{7, victim.Name, time.Now(), err.Error()})
	}
}

// mute silences an instance while its session lives: the server refuses its
// heartbeats.
func (w *world) mute(victim *swtest.Instance) {
	d := w.upTo(3 * w.Session)
	w.notef("%s is mute for %v", victim.Name, d)
	end := time.Now().Add(d)
	place, beat := victim.Place(), "/alive/"+victim.Name
	w.removes = append(w.removes, w.cluster.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
		if r.Client == place && time.Now().Before(end) && has(r, zkdev.OpSetData, beat) {
			return zkdev.Refuse(zkdev.SessionMoved) // that is: ask again
		}
		return zkdev.Pass()
	}))
}

var cutOps = []zkdev.Op{
	zkdev.OpMulti, zkdev.OpMulti, zkdev.OpMulti, zkdev.OpGetData, zkdev.OpGetChildren2, zkdev.OpExists,
	zkdev.OpPing, zkdev.OpConnect, zkdev.OpSetWatches, zkdev.OpAny,
}

// cut breaks a connection at one of the victim's next requests.
func (w *world) cut(victim *swtest.Instance) {
	op := cutOps[w.rng.IntN(len(cutOps))]
	action, what := zkdev.CutBefore(), "before"
	if w.rng.IntN(3) > 0 {
		action, what = zkdev.CutAfter(), "after"
	}
	skip := w.rng.IntN(4)
	w.notef("%s is cut %s its %dth %v", victim.Name, what, skip+1, op)
	w.control(victim, op, skip, 1, func() zkdev.Action { return action })
}

// slow delays some of the victim's next requests, or their replies.
func (w *world) slow(victim *swtest.Instance) {
	op := cutOps[w.rng.IntN(len(cutOps))]
	d := w.upTo(w.Session * 6 / 10)
	kind := zkdev.Delay
	if w.rng.IntN(2) == 0 {
		kind = zkdev.DelayReply
	}
	times := 1 + w.rng.IntN(5)
	w.notef("%s waits %v at %d %v", victim.Name, d, times, op)
	w.control(victim, op, 0, times, func() zkdev.Action { return kind(w.lasts(d)) })
}

// control applies an action to the victim's requests, except for the first few.
func (w *world) control(victim *swtest.Instance, op zkdev.Op, skip, times int, action func() zkdev.Action) {
	name := victim.Place()
	w.removes = append(w.removes, w.cluster.Server.ControlKeep(op, func(r *zkdev.Request) zkdev.Action {
		if r.Client != name || times == 0 {
			return zkdev.Pass()
		}
		if skip > 0 {
			skip--
			return zkdev.Pass()
		}
		times--
		w.unheard(r.Session)
		return action()
	}))
}

// changeGroup makes an instance join or leave.
func (w *world) changeGroup(victim *swtest.Instance) {
	if live := len(w.cluster.Live()); live < 8 && (live < 2 || w.rng.IntN(2) == 0) {
		w.start("")
		return
	}
	w.notef("%s leaves", victim.Name)
	victim.Leave()
}
