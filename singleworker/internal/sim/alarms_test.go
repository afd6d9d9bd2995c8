package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Property 10: the dead man's switch.

const nodeAlarm = "alarm"

// alarmed is an alarm in the log.
type alarmed struct {
	slot   string
	at     time.Time
	sid    string
	tick   int64
	wrong  string // what speaks against it
	before bool   // it was raised before its tick could be overdue
	told   int    // how often the hook of who raised it was called
}

// warned is a call of OnTickMissed.
type warned struct {
	sid string
	at  time.Time
	singleworker.Missed
}

// mark is a slot's watermark until a time.
type mark struct {
	until     time.Time
	watermark int64
}

// markAt is the watermark as an instance may have read it that writes at the given time: some
// sessions before.
func (a *account) markAt(t time.Time) int64 {
	if t.Before(a.begun) {
		return 0 // it did not exist yet
	}
	for _, m := range a.marks {
		if m.until.After(t) {
			return m.watermark
		}
	}
	return a.record.Watermark
}

// advanced notes that the watermark moves, and forgets marks that nobody can have read any more.
func (a *account) advanced(at time.Time, window time.Duration) {
	for len(a.marks) > 0 && a.marks[0].until.Before(at.Add(-window)) {
		a.marks = a.marks[1:]
	}
	a.marks = append(a.marks, mark{at, a.record.Watermark})
}

// stale is how old an instance's knowledge may be when its alarm is written: a reply and a request
// may each take the better part of a session, and its server be one behind. The longest session of
// the simulation has 10 s.
const stale = 30 * time.Second

// leastAlarm is the least AlarmAfter of a job of the simulation.
const leastAlarm = 2 * time.Second

// raised takes in an alarm.
func (l *ledger) raised(slot string, txn *zkdev.Txn) {
	alarm, err := zkrec.ParseAlarm(txn.Data)
	acc := l.accounts[slot]
	a := &alarmed{slot: slot, at: txn.Time, sid: alarm.SID, tick: alarm.Tick}
	l.alarms = append(l.alarms, a)
	if v := l.vigils[slot]; v != nil {
		l.changes(slot, txn.Time)
		v.alarm = max(v.alarm, alarm.Tick)
	}
	if acc == nil {
		return // its nodes are being made, or deleted
	}
	a.before = txn.Time.UnixMilli() < alarm.Tick+leastAlarm.Milliseconds() && l.isTrusted(txn.Time)
	recent := txn.Time.Add(-stale)
	switch {
	case err != nil:
		a.wrong = err.Error()
	case alarm.SID != l.joined[txn.Session]:
		a.wrong = "it was raised by another instance, " + l.joined[txn.Session]
	case alarm.Tick <= acc.alarm:
		a.wrong = "an alarm was raised for " + clockMs(acc.alarm) + " already"
	case acc.markAt(recent) >= alarm.Tick:
		a.wrong = "its slot had accounted for " + clockMs(acc.markAt(recent)) + " long before"
	case !acc.term().sched.Always() && acc.term().until == 0 && later(time.UnixMilli(acc.term().since), acc.term().changed).Before(recent) && acc.next(alarm.Tick-1) != alarm.Tick:
		a.wrong = "there is no such tick"
	}
	acc.alarm = alarm.Tick
}

// checkAlarms verifies that each alarm is one, and that hooks are told of each at most once.
func (l *ledger) checkAlarms() {
	of := make(map[string]map[int64]*alarmed)
	for _, a := range l.alarms {
		if a.before && a.wrong == "" {
			a.wrong = "it came before its time"
		}
		if a.wrong != "" {
			l.violatef(10, a.slot, a.at, "%s raises a false alarm for %s: %s", a.sid, clockMs(a.tick), a.wrong)
		}
		if of[a.slot] == nil {
			of[a.slot] = make(map[int64]*alarmed)
		}
		of[a.slot][a.tick] = a
	}
	for _, told := range l.warned {
		slot, a := alarmOf(of, told)
		switch {
		case a == nil && l.lost.answers(told.at, told.Job, told.Tick):
			continue
		case a == nil:
			l.violatef(10, slot, told.at, "%s is told that %s was missed, for which it has raised no alarm", told.sid, clock(told.Tick))
			continue
		case a.told > 0:
			l.violatef(10, slot, told.at, "%s is told again that %s was missed", told.sid, clock(told.Tick))
		}
		a.told++
	}
	l.counts.alarms = len(l.alarms)
}

// alarmOf is the alarm that a hook was told of, and its slot: shard 0 of 1 may be the job itself,
// and is told of later.
func alarmOf(of map[string]map[int64]*alarmed, told warned) (slot string, found *alarmed) {
	slots := []string{told.Job, zkrec.ShardSlot(told.Job, told.Shard.Index)}
	switch {
	case told.InstanceID != "":
		slots = []string{zkrec.InstanceSlot(told.Job, told.InstanceID)}
	case told.Shard.Total > 1:
		slots = slots[1:]
	}
	slot = slots[0]
	for _, one := range slots {
		a := of[one][told.Tick.UnixMilli()]
		if a != nil && a.sid == told.sid && (found == nil || found.told > 0) {
			slot, found = one, a
		}
	}
	return slot, found
}

// TestFalseEvidenceOfAlarms is TestFalseEvidence for property 10.
func TestFalseEvidenceOfAlarms(t *testing.T) {
	t.Parallel()
	alarms := func(e *evidence, change func(n int, a *zkrec.Alarm)) {
		e.log = slices.Clone(e.log)
		n := 0
		for k := range e.log {
			if txn := &e.log[k]; strings.HasSuffix(txn.Path, "/"+nodeAlarm) {
				alarm, _ := zkrec.ParseAlarm(txn.Data)
				change(n, &alarm)
				txn.Data, n = alarm.Encode(), n+1
			}
		}
	}
	tell(t, neglected, []lie{
		{"nothing", func(*evidence) {}, 0, ""},
		{"not raised", func(e *evidence) {
			e.log = slices.DeleteFunc(slices.Clone(e.log), func(txn zkdev.Txn) bool { return strings.HasSuffix(txn.Path, "/"+nodeAlarm) })
		}, 10, "nobody raises an alarm"},
		{"told twice", func(e *evidence) { e.warned = append(e.warned, e.warned[0]) }, 10, "told again"},
		{"told somebody else", func(e *evidence) { e.warned[0].sid = "c" }, 10, "has raised no alarm"},
		{"raised by another", func(e *evidence) { alarms(e, func(_ int, a *zkrec.Alarm) { a.SID = "c" }) }, 10, "by another instance"},
		{"raised again", func(e *evidence) {
			first := e.warned[0].Tick.UnixMilli()
			alarms(e, func(_ int, a *zkrec.Alarm) { a.Tick = first })
		}, 10, "already"},
		{"of no tick", func(e *evidence) { alarms(e, func(_ int, a *zkrec.Alarm) { a.Tick++ }) }, 10, "no such tick"},
		{"too early", func(e *evidence) { alarms(e, func(_ int, a *zkrec.Alarm) { a.Tick += 60_000 }) }, 10, "before its time"},
		{"of a tick that was run", func(e *evidence) {
			alarms(e, func(_ int, a *zkrec.Alarm) { a.Tick = e.runs[0].Tick.UnixMilli() })
		}, 10, "long before"},
	})
}

// neglected has a job lose its only owner, while another instance without the handler lives, twice.
func neglected(t *testing.T) evidence {
	t.Helper()
	s := &scene{Cluster: swtest.New(t, swtest.Config{SessionTimeout: session}), t: t, schedule: "0 * * * * ?", brief: true}
	s.hearFrom(s.Server, session)
	if err := s.Submit(t.Context(), singleworker.Job{Name: job, Schedule: s.schedule, AlarmAfter: 5 * time.Second}); err != nil {
		t.Fatal(err)
	}
	s.Start("guest", swtest.Setup{Configure: func(cfg *singleworker.Config) { s.listen("guest", &cfg.Hooks) }})
	for range 2 {
		a := s.start("a", &breach{})
		time.Sleep(3 * time.Minute)
		a.Leave()
		time.Sleep(3 * time.Minute)
	}
	return s.end()
}

// withoutHandler has a job that no instance can run.
func withoutHandler(s *scene, b *breach) {
	s.hearFrom(s.Server, session)
	if err := s.Submit(s.t.Context(), singleworker.Job{Name: job, Schedule: s.schedule}); err != nil {
		s.t.Fatal(err)
	}
	s.Start("a", swtest.Setup{Dial: b.dial, Configure: func(cfg *singleworker.Config) { s.listen("a", &cfg.Hooks) }})
	time.Sleep(3 * time.Minute)
}
