package sim

import (
	"path"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	rules "github.com/swjobs/singleworker/singleworker/internal/ledger"
	rule "github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// The other half of property 10: the dead man's switch does not stay silent.

// contact is a time in which the server has heard from a session without a gap.
type contact struct {
	session  int64
	from, to time.Time
}

// hearFrom notes when the server hears from whom.
func (w *witness) hearFrom(server *zkdev.Server, session time.Duration) {
	w.latest, w.behind = make(map[int64]int), make(map[string]int)
	server.ControlKeep(zkdev.OpAny, func(r *zkdev.Request) zkdev.Action {
		now := time.Now()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.behind[r.Client] > 0 {
			delete(w.latest, r.Session) // what it reads is old
			return zkdev.Pass()
		}
		k, known := w.latest[r.Session]
		if !known || r.Op == zkdev.OpConnect || now.Sub(w.contacts[k].to) > heardEvery(session) {
			k = len(w.contacts)
			w.contacts = append(w.contacts, contact{session: r.Session, from: now})
		}
		w.contacts[k].to, w.latest[r.Session] = now, k
		return zkdev.Pass()
	})
}

// heardEvery is between two messages of a client that is well: it sends one each third of a
// session, which may be under way for as long again.
func heardEvery(session time.Duration) time.Duration { return session * 2 / 3 }

// unheard notes that something happens to a session's messages.
func (w *witness) unheard(session int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.latest, session)
}

// lags notes that an instance reads old data, once more or once less.
func (w *witness) lags(place string, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if on {
		w.behind[place]++
	} else {
		w.behind[place]--
	}
}

// vigil is the knowledge that instances may have of the ticks of a slot that they watch.
type vigil struct {
	since time.Time // when it last changed
	alarm int64     // the latest tick for which an alarm was raised
}

// silence is a time in which a tick was overdue, nothing excused that, and there was no alarm.
type silence struct {
	slot     string
	tick     int64
	from, to time.Time
}

// watch takes in the changes that a transaction makes to that, before it does.
func (l *ledger) watch(slot, node, rest string, txn *zkdev.Txn) {
	if name, is := l.tree.CalendarAt(txn.Path); is {
		l.recalendaring(name, txn.Time)
	}
	l.relimiting(txn)
	switch {
	case txn.Op == zkdev.OpCloseSession:
		for sid, member := range l.model.Instances {
			if member.Session == txn.Session {
				l.parts(sid, txn.Time)
			}
		}
	case path.Dir(txn.Path) == l.tree.Instances() && txn.Op == zkdev.OpDelete:
		l.parts(rest, txn.Time)
	case path.Dir(txn.Path) == l.tree.Instances() && txn.Op == zkdev.OpCreate:
		l.changesOf(rest, txn.Time)
		l.stay[rest] = len(l.members)
		l.members = append(l.members, contact{session: txn.Session, from: txn.Time})
	case node == rules.NodeJob && zkrec.JobOfSlot(slot) == slot:
		l.reparenting(slot, txn.Time)
		if j := l.model.Jobs[slot]; j != nil {
			for _, of := range j.Spec.ActiveLayout().Slots(slot) {
				l.changes(of, txn.Time)
			}
		}
	case node == rules.NodeTick && rest == "", node == rules.NodeAlive && rest == "" && l.accounts[slot] != nil && l.accounts[slot].record.Open():
		l.changes(slot, txn.Time)
	}
	if slot != "" && node == rules.NodeJob && txn.Op == zkdev.OpDelete {
		delete(l.vigils, slot)
	}
}

// parts takes in that an instance's node goes.
func (l *ledger) parts(sid string, at time.Time) {
	l.changesOf(sid, at)
	if k, known := l.stay[sid]; known {
		l.members[k].to = at
		delete(l.stay, sid)
	}
}

// changesOf starts the vigils anew of the slots with a run that is in progress if the instance
// lives.
func (l *ledger) changesOf(sid string, at time.Time) {
	for slot, acc := range l.accounts {
		if acc.record.Open() && acc.record.SID == sid {
			l.changes(slot, at)
		}
	}
}

// changes starts a slot's vigil anew.
func (l *ledger) changes(slot string, at time.Time) {
	l.listenTo(slot, at)
	if v := l.vigils[slot]; v != nil {
		v.since = at
	}
}

// watched takes in a job's spec: its slots are watched from now on.
func (l *ledger) watched(job string, spec zkrec.Spec, at time.Time) {
	if spec.Job.Everywhere {
		return // whether an instance was there for its tick, only it knows
	}
	for _, slot := range spec.ActiveLayout().Slots(job) {
		if l.vigils[slot] == nil {
			l.vigils[slot] = new(vigil)
		}
		l.vigils[slot].since = at
	}
}

// listenTo looks for a silence of a slot to which nothing has happened up to now.
func (l *ledger) listenTo(slot string, now time.Time) {
	v, j := l.vigils[slot], l.model.Jobs[zkrec.JobOfSlot(slot)]
	if v == nil || j == nil || now.Sub(v.since) <= leastAlarm {
		return
	}
	spec, record := j.Spec, zkrec.Tick{}
	alarmAfter := spec.Job.WithDefaults().AlarmAfter
	if alarmAfter < 0 || now.Sub(v.since) <= alarmAfter || spec.Canceled || !slices.Contains(spec.ActiveLayout().Slots(j.Name), slot) {
		return
	}
	if acc, of := l.accounts[slot], l.model.Jobs[slot]; acc != nil {
		if _, lives := l.model.Instances[acc.record.SID]; lives && acc.record.Open() && of != nil && of.Token == acc.record.Token {
			return // a run is in progress
		}
		if record = acc.record; acc.term().over != 0 {
			return // no tick follows
		}
	}
	sched, err := l.scheduleOf(spec.Job)
	if err != nil || !l.hasCalendars(spec.Job) || l.model.Limits.Refuse(spec.Job) != nil {
		return // openAccount says so, or nobody can tell its ticks
	}
	tick := sched.Next(time.UnixMilli(max(record.Watermark, spec.Since, spec.ActiveLayout().Since)))
	if sched.Always() {
		if record.Open() {
			return // when an open run counts as lost, watchers know for themselves
		}
		tick = time.UnixMilli(restartDue(&spec, record))
	}
	from := l.deadline(slot, &spec, sched, tick)
	if from.IsZero() {
		return
	}
	from = from.Add(alarmAfter)
	if p := spec.Switch.Paused; p != nil && from.UnixMilli() > p.Since {
		if p.Until == 0 {
			return
		}
		from = later(from, time.UnixMilli(p.Until).Add(alarmAfter))
	}
	for _, span := range l.model.Freeze.Of(zkrec.JobOfSlot(slot)) {
		if from.UnixMilli() <= span.Since {
			continue
		}
		if span.Until == 0 {
			return
		}
		from = later(from, time.UnixMilli(span.Until).Add(alarmAfter))
	}
	// Who has looked before looks again when the next tick can be overdue, or, if one was, after
	// another AlarmAfter.
	from = later(from, v.since.Add(alarmAfter))
	if !tick.IsZero() && tick.UnixMilli() > v.alarm && now.After(from) {
		l.silences = append(l.silences, silence{slot, tick.UnixMilli(), from, now})
	}
}

// dueAt is when a tick of a slot is due, by the job's Jitter.
func (l *ledger) dueAt(slot string, spec *zkrec.Spec, sched *cronexpr.Schedule, tick time.Time) time.Time {
	j := rule.Job{Schedule: sched, Policy: &spec.Job, Group: l.tree.Group(), Gated: spec.ActiveLayout().BeforeTick != ""}
	return j.Of(slot, nil).Due(tick)
}

// checkSilences verifies that a tick that is overdue raises an alarm within silentFor if an
// instance is there from which the server hears all that time.
func (l *ledger) checkSilences() {
	for slot := range l.vigils {
		l.listenTo(slot, l.until)
	}
	stays := make(map[int64][]contact) // by session
	for _, m := range l.members {
		stays[m.session] = append(stays[m.session], m)
	}
	for _, s := range l.silences {
		l.checkSilence(s, stays)
	}
}

func (l *ledger) checkSilence(s silence, stays map[int64][]contact) {
	for _, c := range l.contacts {
		for _, m := range stays[c.session] {
			from, to := later(s.from, later(c.from, m.from)), earlier(s.to, c.to)
			if !m.to.IsZero() {
				to = earlier(to, m.to)
			}
			if to.Sub(from) <= l.silent || !l.isRight(l.joined[c.session], from, to) || !l.isGroupRight(from, to) {
				continue
			}
			l.silent = to.Sub(from)
			if to.Sub(from) > l.silentFor {
				l.violatef(10, s.slot, to, "nobody raises an alarm for %s, overdue since %s; %s could, from %s to %s", clockMs(s.tick),
					clock(s.from), l.joined[c.session], clock(from), clock(to))
				return
			}
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// silentFor is how long after its time an alarm may be raised: one sync period until the next look,
// one until the second one if that fails, one until the third, and a session for requests that keep
// a connection busy for longer than that. It waits for clocks that are behind, and for the bounds
// of their uncertainty.
func (w *world) silentFor() time.Duration {
	silent := w.Session + 3*w.Sync
	switch {
	case w.ClockLimit > 0:
		silent += w.ClockLimit + 2*time.Second
	case w.ClockLimit < 0:
		silent += mostOff + 2*time.Second
	}
	return silent
}
