package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	rules "github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Property 12: the loss when the servers forget transactions that they have acknowledged. The
// ledger reads the log as if these had never been, and all else must hold of the rest.

// loss is the forgotten transactions.
type loss struct {
	from, to    time.Time // of the snapshot, and of its restoration
	end         time.Time // of the leases of before
	first, last int64     // zxids: after the first, up to the last
	back        time.Time // when zxids began to be used again; zero if they are not
	claims      map[string]bool
	open        map[string]bool  // runs whose results may be lost
	told        map[string]int64 // by job, the last tick recorded as complete, or of an alarm
}

// forget has the servers lose the last transactions, once.
func (w *world) forget() {
	if w.Forgets && w.ledger.lost == nil {
		lose := w.keep()
		most := w.Session
		if w.rng.IntN(2) == 0 {
			most /= 4 // some results of a tick, and not yet that it is complete
		}
		time.Sleep(w.upTo(most))
		lose()
	}
}

// keep makes a snapshot, and returns a function that has the servers lose all later transactions.
// The log is not read in between.
func (w *world) keep() (lose func()) {
	w.notef("a snapshot is made")
	snapshot := w.cluster.Server.Snapshot()
	log := w.cluster.Server.LogAfter(w.ledger.through)
	end := slices.IndexFunc(log, func(txn zkdev.Txn) bool { return txn.Zxid > snapshot.Zxid() })
	if end < 0 {
		end = len(log)
	}
	w.ledger.read(log[:end])
	from := time.Now()
	return func() {
		w.cluster.Server.Stop()
		w.ledger.forgets(from, time.Now(), snapshot.Zxid(), w.cluster.Server.LogAfter(snapshot.Zxid()))
		var all []string
		for _, i := range w.cluster.Instances() {
			all = append(all, i.Name)
		}
		w.force(all...)
		time.Sleep(w.upTo(w.Session / 2))
		for _, victim := range w.cluster.Live() {
			if w.rng.IntN(2) == 0 {
				w.joinsLate(victim)
			}
		}
		replace := w.cluster.Restore
		if w.Resets {
			replace, w.ledger.lost.back, w.ledger.through = w.cluster.Reset, time.Now(), snapshot.Zxid()
			w.lasts(w.Session + givesUpWithin)
		}
		if err := replace(snapshot); err != nil {
			w.violate(violation{7, "server", time.Now(), err.Error()})
		}
		w.notef("the server has lost what came after zxid %d; zxids are used again: %v", snapshot.Zxid(), w.Resets)
	}
}

// joinsLate has an instance that connects again hear late that it has joined: meanwhile watches
// tell it of what the others do.
func (w *world) joinsLate(victim *swtest.Instance) {
	place, d, done := victim.Place(), w.upTo(w.Session/4), false
	w.removes = append(w.removes, w.cluster.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
		if done || r.Client != place || !has(r, zkdev.OpCreate, "/_instances/"+victim.Name) {
			return zkdev.Pass()
		}
		done = true
		w.unheard(r.Session)
		return zkdev.DelayReply(w.lasts(d))
	}))
}

// givesUpWithin is how long after its timeout a client gives up a session if the server is behind
// the client's last transaction: it tries each second, and an attempt takes as long.
const givesUpWithin = 2 * time.Second

// bringUpAndLose brings up a group whose servers then lose all their data. Operators submit their
// jobs again.
func (w *world) bringUpAndLose() {
	lose := w.keep()
	w.holds = true
	w.bringUp()
	time.Sleep(w.upTo(2 * w.Session))
	lose()
	w.holds = false
	w.setCalendars()
	for k := range w.shards {
		if w.step(0) && w.jobs[jobName(k)] {
			w.submit(k)
		}
	}
}

// forgets takes in the lost transactions. Leases were renewed by their heartbeats, though.
func (l *ledger) forgets(from, to time.Time, first int64, log []zkdev.Txn) {
	l.lost = &loss{from: from, to: to, first: first, last: first, claims: make(map[string]bool), open: make(map[string]bool), told: make(map[string]int64)}
	for slot, acc := range l.accounts {
		if acc.record.Open() {
			l.lost.open[acc.record.RunID] = true
		}
		l.changes(slot, to)
	}
	election := queue{slices.Clone(l.queue.places), l.queue.deposed}
	for k := range log {
		txn := &log[k]
		election.apply(txn, l.tree.Leader())
		l.lost.last, l.through = txn.Zxid, txn.Zxid
		l.txns++
		slot, node, rest, ok := l.model.Split(txn.Path)
		switch {
		case !ok || txn.Code != zkdev.OK:
		case node == rules.NodeTick && rest == "" && txn.Op != zkdev.OpDelete:
			if rec, err := zkrec.ParseTick(txn.Data, txn.Written); err == nil && rec.Open() && !l.seen[rec.RunID] {
				// The kinds of jobs are not known if all is lost.
				l.lost.claims[rec.RunID], l.endless[rec.RunID] = true, l.isEndless(slot, rec) || l.model.Jobs[slot] == nil
			}
		case node == rules.NodeHistory && txn.Op != zkdev.OpDelete: // also results that came late
			history, _ := zkrec.ParseHistory([][]byte{txn.Data})
			for _, e := range history.Entries {
				l.lost.open[e.RunID] = true
			}
		case node == rules.NodeShards && rest == "" && txn.Op != zkdev.OpDelete:
			record, _ := zkrec.ParseComplete(txn.Data)
			l.lost.told[slot] = max(l.lost.told[slot], record.Tick)
		case node == nodeAlarm && txn.Op != zkdev.OpDelete:
			alarm, _ := zkrec.ParseAlarm(txn.Data)
			l.lost.told[zkrec.JobOfSlot(slot)] = max(l.lost.told[zkrec.JobOfSlot(slot)], alarm.Tick)
		case node == rules.NodeAlive && rest != "" && txn.Op == zkdev.OpSetData:
			if r := l.current(slot); r != nil && r.sid == rest {
				r.beats, r.zxids = append(r.beats, txn.Time), append(r.zxids, txn.Zxid)
			}
		}
	}
	election.led(to) // its session may go on, and it has not heard of its end
	l.queue.deposed = election.deposed
}

// readAround reads a log of which the middle was lost.
func (l *ledger) readAround(lost loss, log []zkdev.Txn) {
	after := func(zxid int64) int {
		if k := slices.IndexFunc(log, func(txn zkdev.Txn) bool { return txn.Zxid > zxid }); k >= 0 {
			return k
		}
		return len(log)
	}
	from, to := after(lost.first), after(lost.last)
	l.read(log[:from])
	l.forgets(lost.from, lost.to, lost.first, log[from:to])
	l.read(log[to:])
}

// isLost reports whether a token was lost that somebody has had since a time. If tokens are given
// again, it was if the log does not give it: r is the reign that has it in the log, or nil.
func (l *ledger) isLost(token int64, sid string, since time.Time, r *reign) bool {
	x := l.lost
	if token <= x.first || token > x.last {
		return false
	}
	if x.back.IsZero() || since.Before(x.back) {
		return true
	}
	return r == nil || r.sid != sid
}

// within reports whether a hook was told at a time whose transactions may be lost.
func (x *loss) within(t time.Time) bool { return !t.Before(x.from) && !t.After(x.to) }

// answers reports whether a hook may have been told of a tick because of the answer to a lost
// transaction, which came after the loss, but before the leases are over.
func (x *loss) answers(t time.Time, job string, tick time.Time) bool {
	return x != nil && t.After(x.to) && t.Before(x.end) && tick.UnixMilli() <= x.told[job]
}

// excuse leaves out reports of instances about lost transactions, and verifies that runs and leases
// that rest on them end with the leases.
func (l *ledger) excuse(e evidence) evidence {
	x := l.lost
	if x == nil {
		return e
	}
	l.forgotten = len(x.claims)
	x.end = x.to.Add(e.session * 3 / 4)
	e.runs = slices.DeleteFunc(slices.Clone(e.runs), func(r swtest.Run) bool {
		lost := x.claims[r.ID] || x.back.IsZero() && l.isLost(r.Token, r.Instance.Name, r.Started, nil)
		if lost && (r.Started.After(x.end) || !x.claims[r.ID]) {
			l.violatef(12, r.Job, r.Started, "run %s of %s, token %d, rests on what was lost until %s", r.ID, r.Instance.Name, r.Token, clock(x.to))
		}
		return lost
	})
	e.rights = slices.DeleteFunc(slices.Clone(e.rights), func(r swtest.Right) bool {
		lost := l.isLost(r.Token, r.Instance.Name, r.From, l.reignOf(r.Job, r.Token))
		if lost && r.Until.After(x.end) {
			l.violatef(12, r.Job, r.Until, "%s has a lease with token %d, which was lost at %s", r.Instance.Name, r.Token, clock(x.to))
		}
		return lost
	})
	e.hooks = slices.DeleteFunc(slices.Clone(e.hooks), func(a adoption) bool {
		return l.isLost(a.token, a.sid, a.at, l.reignOfPart(a.job, a.shard, a.sid, a.token))
	})
	e.told = slices.DeleteFunc(slices.Clone(e.told), func(c completion) bool { return x.within(c.at) && l.recorded(c) < 0 })
	e.warned = slices.DeleteFunc(slices.Clone(e.warned), func(w warned) bool { return x.within(w.at) })
	unrecorded := make(map[string]bool)
	for _, of := range []map[string]bool{e.unrecorded, x.open} {
		for id := range of {
			unrecorded[id] = true
		}
	}
	e.unrecorded = unrecorded
	return e
}

// endOf reports whether the end of an instance was lost, so that the nodes that it removed are
// back.
func (x *loss) endOf(i *swtest.Instance) bool {
	return x != nil && i.StoppedAfter(x.from) && !i.StoppedAfter(x.to)
}

// TestFalseEvidenceOfLosses is TestFalseEvidence for property 12.
func TestFalseEvidenceOfLosses(t *testing.T) {
	t.Parallel()
	claimed := func(e *evidence, lost bool) int { // the first run that was claimed in time to be lost, or after it
		return slices.IndexFunc(e.runs, func(r swtest.Run) bool {
			return lost && e.lost.within(r.Started.Add(-time.Second)) || !lost && r.Started.After(e.lost.to)
		})
	}
	// hear has the last call of a hook before the loss come after it.
	hear := func(e *evidence, late time.Duration) {
		k := slices.IndexFunc(e.told, func(c completion) bool { return c.at.After(e.lost.to) })
		e.told[k-1].at = e.lost.to.Add(late)
	}
	tell(t, forgotten, []lie{
		{"nothing", func(*evidence) {}, 0, ""},
		{"nothing was lost", func(e *evidence) { e.lost = nil }, 8, "tick is in 1 rows and has attempts"},
		{"a run that nobody has claimed", func(e *evidence) { e.runs[claimed(e, true)].ID += "?" }, 3, "no claim"},
		{"a run after the loss that nobody has claimed", func(e *evidence) { e.runs[claimed(e, false)].ID += "?" }, 3, "no claim"},
		{"a run that was claimed and lost begins late", func(e *evidence) {
			e.runs[claimed(e, true)].Started = e.lost.to.Add(session)
		}, 12, "rests on what was lost"},
		{"a lease that was lost is kept", func(e *evidence) {
			e.rights[0].Token, e.rights[0].Until = e.lost.last, e.lost.to.Add(session)
		}, 12, "which was lost"},
		{"the answer of a tick that was recorded as complete comes after its loss", func(e *evidence) { hear(e, time.Millisecond) }, 0, ""},
		{"it comes much later", func(e *evidence) { hear(e, session) }, 9, "is told"},
	})
}

// forgotten has the server lose the claims of some seconds: their ticks are run again.
func forgotten(t *testing.T) evidence {
	t.Helper()
	s := &scene{Cluster: swtest.New(t, swtest.Config{SessionTimeout: session}), t: t, schedule: "* * * * * ?", brief: true}
	s.beginDivided(&breach{})
	time.Sleep(500 * time.Millisecond) // between two ticks
	snapshot, from := s.Server.Snapshot(), time.Now()
	time.Sleep(3 * time.Second)
	s.force("a", "b")
	lost := loss{from: from, to: time.Now(), first: snapshot.Zxid(), last: s.Server.Zxid()}
	time.Sleep(time.Millisecond)
	if err := s.Restore(snapshot); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * session)
	e := s.end()
	e.lost = &lost
	twice := make(map[string]int)
	for _, r := range e.runs {
		key := fmt.Sprint(r.Shard.Index, " of ", clock(r.Tick))
		if twice[key]++; twice[key] > 2 {
			t.Errorf("%s is run %d times", key, twice[key])
		}
	}
	return e
}
