package ledger_test

import (
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// ran has a own the job, run its first tick and then be the owner at second 15, with one heartbeat
// at 14.
func ran(w *world) {
	w.own(1, "j", "a")
	w.record(10, "j", w.claimed("j", 10, "r1"))
	w.end(11, "j", history.StateOK)
	w.beat(14, "j")
}

// held has a run of j fail that is to be repeated, and returns the claim of a manual run beside
// that.
func held(w *world) zkrec.Tick {
	w.own(1, "j", "a")
	w.record(10, "j", w.claimed("j", 10, "r1"))
	w.end(11, "j", history.StateFailed)
	w.write(12, operator, create(tree.Request("j", "q"), zkrec.Request{Kind: zkrec.RequestRun}.Encode()))
	rec := w.claimed("j", 12, "m1")
	rec.Manual, rec.Watermark, rec.Held = "q", ms(10), w.tick["j"].Again()
	return rec
}

// notBegun claims a tick of a job that repeats nothing, and returns the record of a run that was
// not begun.
func notBegun(w *world) zkrec.Tick {
	w.submit(0.5, "j", job.Job{Schedule: "*/10 * * * * ?", Interrupted: job.InterruptedSkip, MaxAttempts: 1})
	w.own(1, "j", "a")
	w.record(10, "j", w.claimed("j", 10, "r1"))
	rec := w.tick["j"]
	rec.State, rec.Ended, rec.NotBegun = history.StateInterrupted, ms(11), true
	return rec
}

// A story is a series of a group's writes, and the rules that it breaks.
type story struct {
	name string
	tell func(w *world)
	want []ledger.Rule
}

// tell tells stories, each in a new world. A rule is broken where they say so, and nowhere else.
func tell(t *testing.T, stories []story) {
	t.Helper()
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true)
			s.tell(w)
			w.wantRules(t, s.want)
		})
	}
}

func TestOwners(t *testing.T) {
	t.Parallel()
	tell(t, []story{
		{"a run", ran, nil},
		{"a clean hand-over", func(w *world) { ran(w); w.release(15, "j", 1); w.own(15, "j", "b") }, nil},
		{"an offer", func(w *world) {
			ran(w)
			w.write(15, 1, set(tree.Alive("j"), zkrec.Owner{Offer: "b"}.Encode()), remove(tree.Heartbeat("j", "a")))
			w.own(15, "j", "b")
		}, nil},
		{"a takeover from the dead", func(w *world) { ran(w); w.expire(24, "a"); w.own(24, "j", "b") }, nil},
		{"from one whose node was deleted", func(w *world) { ran(w); w.write(15, 5, remove(tree.Instance("a"))); w.own(15, "j", "b") }, nil},
		{"from one that was gone since its last heartbeat", func(w *world) {
			ran(w)
			w.write(15, 5, remove(tree.Instance("a")))
			w.rejoin(15, "a")
			w.own(16, "j", "b")
		}, nil},
		{"from one that was gone before its last heartbeat", func(w *world) {
			ran(w)
			w.write(15, 5, remove(tree.Instance("a")))
			w.rejoin(15, "a")
			w.beat(15, "j")
			w.own(16, "j", "b")
		}, []ledger.Rule{ledger.Owner}},
		{"from a later start of the instance", func(w *world) {
			ran(w)
			w.expire(15, "a")
			w.connect(7)
			op := create(tree.Instance("a"), zkrec.Instance{Incarnation: "next"}.Encode())
			op.Owner = 7
			w.write(15, 7, op)
			w.own(16, "j", "b")
		}, nil},
		{"from one that hangs", func(w *world) { ran(w); w.own(24, "j", "b") }, nil},
		{"from one that hangs, which it names", func(w *world) { ran(w); w.own(24, "j", "b", "a") }, nil},
		{"from one that hangs, naming another one", func(w *world) { ran(w); w.own(24, "j", "b", "c") }, []ledger.Rule{ledger.Owner}},
		{"from nobody, naming the last one", func(w *world) { ran(w); w.release(15, "j", 1); w.own(15, "j", "b", "a") }, []ledger.Rule{ledger.Owner}},
		{"from one that does not", func(w *world) { ran(w); w.own(23.9, "j", "b") }, []ledger.Rule{ledger.Owner}},
		{"from one that has just adopted", func(w *world) { w.own(1, "j", "a"); w.own(2, "j", "b") }, []ledger.Rule{ledger.Owner}},
		{"under another leader, whose clock is another one", func(w *world) { ran(w); w.zxid |= 1 << 32; w.own(3, "j", "b") }, nil},
		{"released by another one", func(w *world) { ran(w); w.release(15, "j", 2) }, []ledger.Rule{ledger.Owner}},
		{"released by an operator", func(w *world) { ran(w); w.release(15, "j", operator) }, []ledger.Rule{ledger.Owner}},
		{"tidied up", func(w *world) { ran(w); w.expire(24, "a"); w.release(200, "j", 2) }, nil},
		{"in the name of another one", func(w *world) {
			w.write(1, 2, set(tree.Alive("j"), zkrec.Owner{SID: "a", Incarnation: "a!"}.Encode()))
		}, []ledger.Rule{ledger.Owner}},
		{"by someone else", func(w *world) {
			w.write(1, operator, set(tree.Alive("j"), zkrec.Owner{SID: "c"}.Encode()))
		}, []ledger.Rule{ledger.Owner}},
	})
}

func TestClaims(t *testing.T) {
	t.Parallel()
	tell(t, []story{
		{"the next tick", func(w *world) { ran(w); w.record(20, "j", w.claimed("j", 20, "r2")) }, nil},
		{"the same tick", func(w *world) { ran(w); w.record(15, "j", w.claimed("j", 10, "r2")) }, []ledger.Rule{ledger.Claim}},
		{"the same run", func(w *world) { ran(w); w.record(15, "j", w.claimed("j", 10, "r1")) }, []ledger.Rule{ledger.Claim}},
		{"a tick that is no tick", func(w *world) { ran(w); w.record(15, "j", w.claimed("j", 15, "r2")) }, []ledger.Rule{ledger.Account}},
		{"the tick after the next", func(w *world) { ran(w); w.record(30, "j", w.claimed("j", 30, "r2")) }, []ledger.Rule{ledger.Account}},
		{"with a row for the other", func(w *world) { ran(w); w.record(30, "j", w.claimed("j", 30, "r2"), missed(20, 20, 1)) }, nil},
		{"with a row for too many", func(w *world) { ran(w); w.record(30, "j", w.claimed("j", 30, "r2"), missed(20, 30, 2)) }, []ledger.Rule{ledger.Account}},
		{"with a row that miscounts", func(w *world) { ran(w); w.record(50, "j", w.claimed("j", 50, "r2"), missed(20, 40, 4)) }, []ledger.Rule{ledger.Account}},
		{"with a row from what is no tick", func(w *world) { ran(w); w.record(30, "j", w.claimed("j", 30, "r2"), missed(21, 21, 1)) }, []ledger.Rule{ledger.Account}},
		{"with a row for a tick that was run", func(w *world) { ran(w); w.record(30, "j", w.claimed("j", 30, "r2"), missed(10, 20, 2)) }, []ledger.Rule{ledger.Account}},
		{"rows that get longer", func(w *world) {
			ran(w)
			for _, tick := range []float64{20, 30, 40} {
				rec := w.tick["j"]
				rec.Watermark = ms(tick)
				w.record(tick, "j", rec, missed(tick, tick, 1))
			}
			w.record(50, "j", w.claimed("j", 50, "r2"))
		}, nil},
		{"a line that moves for nothing", func(w *world) {
			ran(w)
			rec := w.tick["j"]
			rec.Watermark = ms(25)
			w.record(25, "j", rec)
		}, []ledger.Rule{ledger.Account}},
		{"a tick that was claimed, with the line taken back", func(w *world) {
			ran(w)
			w.record(20, "j", w.claimed("j", 20, "r2"))
			w.end(21, "j", history.StateOK)
			w.record(22, "j", w.claimed("j", 10, "r3"))
		}, []ledger.Rule{ledger.Account, ledger.Claim}},
		{"twice in one transaction", func(w *world) {
			ran(w)
			data := w.claimed("j", 20, "r2").Encode()
			w.write(20, 1, set(tree.Tick("j"), data), set(tree.Tick("j"), data))
		}, []ledger.Rule{ledger.Claim}},
		{"a slot that a wrong clock has dated", func(w *world) {
			first := set(tree.Tick("j"), zkrec.Tick{Watermark: ms(-5)}.Encode())
			first.Version = 1
			w.write(5, 1, first)
		}, nil},
		{"a line that is taken back, and not by the first write", func(w *world) {
			second := set(tree.Tick("j"), zkrec.Tick{Watermark: ms(-5)}.Encode())
			second.Version = 2
			w.write(5, 1, second)
		}, []ledger.Rule{ledger.Account}},
		{"a line that is taken back", func(w *world) {
			ran(w)
			rec := w.tick["j"]
			rec.Watermark = ms(5)
			w.record(25, "j", rec)
		}, []ledger.Rule{ledger.Account}},
	})
}

// paused has the switch of j set while a owns it, which claims the tick at 10 at the given second.
func paused(p zkrec.Pause, at float64, always bool) func(w *world) {
	return func(w *world) {
		if always {
			w.write(1, operator, set(tree.Job("j"), zkrec.Spec{Job: job.Job{Schedule: "@always"}}.Encode()))
		}
		w.own(1, "j", "a")
		w.write(5, operator, set(tree.Register("j"), zkrec.Switch{Paused: &p}.Encode()))
		rec := w.claimed("j", 10, "r1")
		rec.Started, rec.Always = ms(at), always
		w.record(at, "j", rec)
	}
}

func TestPauses(t *testing.T) {
	t.Parallel()
	broken := []ledger.Rule{ledger.Claim}
	tell(t, []story{
		{"in a pause", paused(zkrec.Pause{}, 10, false), broken},
		{"in a pause that is to end", paused(zkrec.Pause{For: zkrec.Duration(time.Hour)}, 10, false), broken},
		{"in a pause that is to end, whose ticks are run then", paused(zkrec.Pause{For: zkrec.Duration(time.Second), Missed: job.MisfireAll}, 10, false), nil},
		{"in a pause whose ticks are to be run", paused(zkrec.Pause{Missed: job.MisfireAll}, 10, false), broken},
		{"after a pause", paused(zkrec.Pause{Since: 1, Until: ms(10)}, 10, false), nil},
		{"of a job that always runs, in a pause", paused(zkrec.Pause{}, 10, true), broken},
		{"of a job that always runs, after a pause in which it was due", paused(zkrec.Pause{Since: 1, Until: ms(20)}, 20, true), nil},
		{"of another job, after a pause in which it was due", paused(zkrec.Pause{Since: 1, Until: ms(20)}, 20, false), broken},
		{"in a pause that has not begun by the claimant's clock", func(w *world) {
			w.own(1, "j", "a")
			w.write(15, operator, set(tree.Register("j"), zkrec.Switch{Paused: &zkrec.Pause{}}.Encode()))
			rec := w.claimed("j", 10, "r1")
			rec.Started = ms(11)
			w.record(16, "j", rec)
		}, broken},
		{"of a job that was changed in a pause", func(w *world) {
			w.own(1, "j", "a")
			w.write(5, operator, set(tree.Register("j"), zkrec.Switch{Paused: &zkrec.Pause{}}.Encode()))
			w.write(6, operator, set(tree.Job("j"), zkrec.Spec{Job: job.Job{Schedule: "*/10 * * * * ?", Description: "x"}, Since: ms(1)}.Encode()))
			w.record(10, "j", w.claimed("j", 10, "r1"))
		}, broken},
	})
}

func TestClaimants(t *testing.T) {
	t.Parallel()
	tell(t, []story{
		{"by another one", func(w *world) {
			ran(w)
			rec := w.claimed("j", 20, "r2")
			rec.SID = "b"
			w.record(20, "j", rec)
		}, []ledger.Rule{ledger.Claimant}},
		{"by the last owner", func(w *world) {
			ran(w)
			rec := w.claimed("j", 20, "r2")
			w.own(24, "j", "b")
			w.record(25, "j", rec)
		}, []ledger.Rule{ledger.Claimant}},
		{"by nobody's owner", func(w *world) {
			ran(w)
			rec := w.claimed("j", 20, "r2")
			w.release(15, "j", 1)
			w.record(25, "j", rec)
		}, []ledger.Rule{ledger.Claimant}},
		{"before it is given away in the same transaction", func(w *world) {
			ran(w)
			w.write(20, 1, w.claims("r2"), set(tree.Alive("j"), nil), remove(tree.Heartbeat("j", "a")))
		}, nil},
		{"after it was given away in the same transaction", func(w *world) {
			ran(w)
			w.write(20, 1, set(tree.Alive("j"), nil), remove(tree.Heartbeat("j", "a")), w.claims("r2"))
		}, []ledger.Rule{ledger.Claimant}},
		{"in the session of another one", func(w *world) { ran(w); w.recordIn(20, 2, "j", w.claimed("j", 20, "r2")) }, []ledger.Rule{ledger.Claimant}},
		{"in the session of an operator", func(w *world) { ran(w); w.recordIn(20, operator, "j", w.claimed("j", 20, "r2")) }, []ledger.Rule{ledger.Claimant, ledger.Claimant}},
		{"with an earlier token", func(w *world) {
			ran(w)
			w.token["j"]--
			w.record(20, "j", w.claimed("j", 20, "r2"))
		}, []ledger.Rule{ledger.Token, ledger.Claimant}},
		{"with a later token", func(w *world) { ran(w); w.token["j"]++; w.record(20, "j", w.claimed("j", 20, "r2")) }, []ledger.Rule{ledger.Claimant}},
	})
}

func TestResults(t *testing.T) {
	t.Parallel()
	tell(t, []story{
		{"a result that comes late, from an owner of before", func(w *world) {
			w.own(1, "j", "a")
			w.record(10, "j", w.claimed("j", 10, "r1"))
			w.own(20, "j", "b")
			w.end(21, "j", history.StateOK)
		}, nil},
		{"a result without an entry", func(w *world) {
			w.own(1, "j", "a")
			w.record(10, "j", w.claimed("j", 10, "r1"))
			rec := w.tick["j"]
			rec.State = history.StateOK
			w.record(11, "j", rec)
		}, []ledger.Rule{ledger.Account}},
		{"an entry of a run that nobody claimed", func(w *world) { ran(w); w.end(15, "j", history.StateOK) }, []ledger.Rule{ledger.Account}},
		{"a result of another run", func(w *world) {
			ran(w)
			rec := w.tick["j"]
			rec.RunID = "r0"
			w.record(15, "j", rec)
		}, []ledger.Rule{ledger.Claim}},
		{"a claim beside an open run", func(w *world) {
			ran(w)
			w.record(20, "j", w.claimed("j", 20, "r2"))
			w.record(30, "j", w.claimed("j", 30, "r3"))
		}, []ledger.Rule{ledger.Account}},
		{"a retry", func(w *world) {
			w.own(1, "j", "a")
			w.record(10, "j", w.claimed("j", 10, "r1"))
			w.end(11, "j", history.StateFailed)
			w.record(12, "j", w.again("j", "r2"))
			w.end(13, "j", history.StateOK)
		}, nil},
		{"a retry of what went well", func(w *world) { ran(w); w.record(15, "j", w.again("j", "r2")) }, []ledger.Rule{ledger.Claim}},
		{"a rerun of what was interrupted", func(w *world) {
			w.own(1, "j", "a")
			w.record(10, "j", w.claimed("j", 10, "r1"))
			w.own(20, "j", "b")
			given := w.tick["j"].Run
			given.State = history.StateInterrupted
			w.record(20, "j", w.again("j", "r2"), zkrec.Entry{Run: given})
			given.State = history.StateOK // after all
			w.amend(21, "j", given)
			given.State = history.StateFailed // this time it is final
			w.amend(22, "j", given)
		}, []ledger.Rule{ledger.Account}},
		{"a manual run beside what is to be repeated", func(w *world) {
			ask := held(w)
			w.record(13, "j", ask)
			w.end(14, "j", history.StateOK)
			w.record(15, "j", w.again("j", "r2"))
			w.end(16, "j", history.StateOK)
		}, nil},
		{"a manual run in the place of what is to be repeated", func(w *world) {
			ask := held(w)
			ask.Held = zkrec.Held{}
			w.record(13, "j", ask)
		}, []ledger.Rule{ledger.Claim}},
		{"what is to be repeated is forgotten after a manual run", func(w *world) {
			w.record(13, "j", held(w))
			rec := w.tick["j"]
			rec.Held = zkrec.Held{}
			w.tick["j"] = rec
			w.end(14, "j", history.StateOK)
		}, []ledger.Rule{ledger.Claim}},
		{"what was interrupted is not to be repeated", func(w *world) {
			w.own(1, "j", "a")
			w.record(10, "j", w.claimed("j", 10, "r1"))
			w.end(11, "j", history.StateInterrupted)
		}, []ledger.Rule{ledger.Claim}},
		{"what was interrupted is not to be repeated, as an operator stopped it", func(w *world) {
			w.own(1, "j", "a")
			w.record(10, "j", w.claimed("j", 10, "r1"))
			stop := zkrec.Request{Kind: zkrec.RequestStop, RunID: "r1"}
			w.write(10.5, operator, create(tree.Request("j", "s1"), stop.Encode()))
			w.end(11, "j", history.StateInterrupted)
		}, nil},
		{"a rerun of what is lost", func(w *world) {
			w.own(1, "j", "a")
			w.record(10, "j", w.claimed("j", 10, "r1"))
			w.own(20, "j", "b")
			given := w.tick["j"].Run
			given.State = history.StateLost
			w.record(20, "j", w.again("j", "r2"), zkrec.Entry{Run: given})
		}, []ledger.Rule{ledger.Claim}},

		{"deleted with the job", func(w *world) { ran(w); w.cancel(15, "j"); w.submit(16, "j", job.Job{Schedule: "*/10 * * * * ?"}) }, nil},
		{"a tick record that somebody deletes", func(w *world) { ran(w); w.write(15, operator, remove(tree.Tick("j"))) }, []ledger.Rule{ledger.Account}},
		{"a record that is made unreadable, and repaired", func(w *world) {
			ran(w)
			w.write(15, operator, set(tree.Tick("j"), []byte("garbage")))
			w.write(25, operator, set(tree.Tick("j"), nil))
			w.tick["j"] = zkrec.Tick{Watermark: ms(25)}
			w.record(30, "j", w.claimed("j", 30, "r2"))
		}, []ledger.Rule{ledger.Claimant}},
		{"a record that an instance makes unreadable", func(w *world) { ran(w); w.write(15, 1, set(tree.Tick("j"), []byte("garbage"))) }, nil},
		{"a record of a newer version", func(w *world) {
			ran(w)
			w.write(15, operator, set(tree.Tick("j"), []byte(`{"schema": 1000}`)))
		}, nil},
	})
}

func (w *world) wantRules(t *testing.T, want []ledger.Rule) {
	t.Helper()
	if !slices.EqualFunc(w.found, want, func(v ledger.Violation, rule ledger.Rule) bool { return v.Rule == rule }) {
		t.Errorf("found %v, want %v", w.found, want)
	}
}

// TestNotBegun: a run that was claimed and not begun is repeated, and counts as no attempt.
func TestNotBegun(t *testing.T) {
	t.Parallel()
	tell(t, []story{
		{"a run that was not begun, and its rerun", func(w *world) {
			rec := notBegun(w)
			rec.NextAttempt = history.NextRerun
			w.record(11, "j", rec, zkrec.Entry{Run: rec.Run})
			again := w.again("j", "r2")
			again.Attempt = 1
			w.record(12, "j", again)
			w.end(13, "j", history.StateOK)
		}, nil},
		{"a run that was not begun, and counts as an attempt", func(w *world) {
			rec := notBegun(w)
			rec.NextAttempt = history.NextRerun
			w.record(11, "j", rec, zkrec.Entry{Run: rec.Run})
			w.record(12, "j", w.again("j", "r2"))
		}, []ledger.Rule{ledger.Claim, ledger.Claim}},
		{"a run that was not begun, and is given up by policy", func(w *world) {
			rec := notBegun(w)
			w.record(11, "j", rec, zkrec.Entry{Run: rec.Run})
		}, []ledger.Rule{ledger.Claim}},
		{"a run that was not begun, and succeeded", func(w *world) {
			rec := notBegun(w)
			rec.State = history.StateOK
			w.record(11, "j", rec, zkrec.Entry{Run: rec.Run})
		}, []ledger.Rule{ledger.Account}},
	})
}

// TestSchedules: the due ticks follow from the spec at that time.
func TestSchedules(t *testing.T) {
	t.Parallel()
	later := func(w *world) { // every ten seconds until 25, and then every 20
		ran(w)
		spec := zkrec.Spec{Job: job.Job{Schedule: "*/20 * * * * ?"}, Former: &zkrec.Former{Schedule: "*/10 * * * * ?", Since: ms(0)}}
		w.write(25, operator, set(tree.Job("j"), spec.Encode()))
	}
	changed := func(e zkrec.Entry) zkrec.Entry {
		e.Reason = history.ReasonScheduleChanged
		return e
	}
	passed := func(w *world, entries ...zkrec.Entry) {
		rec := w.tick["j"]
		rec.Watermark = ms(25)
		w.record(41, "j", rec, entries...)
		w.record(41, "j", w.claimed("j", 40, "r2"))
	}
	tell(t, []story{
		{"all", func(w *world) { later(w); passed(w, changed(missed(20, 20, 1))) }, nil},
		{"nothing of the former", func(w *world) { later(w); passed(w) }, []ledger.Rule{ledger.Account}},
		{"too much of the former", func(w *world) { later(w); passed(w, changed(missed(20, 30, 2))) }, []ledger.Rule{ledger.Account}},
		{"a tick of the former one", func(w *world) { later(w); w.record(30, "j", w.claimed("j", 30, "r2"), missed(20, 20, 1)) }, []ledger.Rule{ledger.Account}},
		{"far more than are counted", func(w *world) {
			ran(w)
			w.record(200_000, "j", w.claimed("j", 200_000, "r2"), missed(20, 199_990, zkrec.MaxCount))
		}, nil},
		{"what cannot be read", func(w *world) {
			ran(w)
			w.write(25, operator, set(tree.Job("j"), zkrec.Spec{Job: job.Job{Schedule: "never"}}.Encode()))
			w.record(30, "j", w.claimed("j", 30, "r2"))
		}, nil},
	})
}

// TestRequests: a request is run once, and not dropped.
func TestRequests(t *testing.T) {
	t.Parallel()
	ask := func(w *world) {
		w.own(1, "j", "a")
		w.write(2, operator, create(tree.Request("j", "q"), zkrec.Request{Kind: zkrec.RequestRun}.Encode()),
			create(tree.Request("j", "s"), zkrec.Request{Kind: zkrec.RequestStop, RunID: "r"}.Encode()))
	}
	claim := func(w *world, run string) {
		rec := w.claimed("j", 2, run)
		rec.Manual, rec.Watermark = "q", ms(0)
		w.record(3, "j", rec)
	}
	tell(t, []story{
		{"run", func(w *world) {
			ask(w)
			claim(w, "r1")
			w.end(4, "j", history.StateOK)
			w.write(4, 1, remove(tree.Request("j", "q")), remove(tree.Request("j", "s")))
		}, nil},
		{"run twice", func(w *world) { ask(w); claim(w, "r1"); w.end(4, "j", history.StateOK); claim(w, "r2") }, []ledger.Rule{ledger.Claim}},
		{"not there", func(w *world) { w.own(1, "j", "a"); claim(w, "r1") }, []ledger.Rule{ledger.Claim}},
		{"withdrawn", func(w *world) { ask(w); w.write(4, operator, remove(tree.Request("j", "q"))) }, nil},
		{"dropped", func(w *world) { ask(w); w.write(4, 1, remove(tree.Request("j", "q"))) }, []ledger.Rule{ledger.Claim}},
		{"dropped when it always runs", func(w *world) {
			ask(w)
			w.write(3, operator, set(tree.Job("j"), zkrec.Spec{Job: job.Job{Schedule: "@always"}}.Encode()))
			w.write(4, 1, remove(tree.Request("j", "q")))
		}, nil},
		{"with a job", func(w *world) { ask(w); w.write(4, 1, remove(tree.Request("j", "q")), remove(tree.Job("j"))) }, nil},
		{"no run's", func(w *world) { ask(w); w.write(4, 1, remove(tree.Request("j", "s"))) }, nil},
		{"in progress", func(w *world) { ask(w); claim(w, "r1"); w.record(10, "j", w.claimed("j", 10, "r2")) }, []ledger.Rule{ledger.Account}},
	})
}

// TestMiddleOfALog: nothing is claimed about the time before the log, and every rule is judged
// whose basis is in it.
func TestMiddleOfALog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	ran(w)
	later := &world{
		zxid: w.zxid, sessions: w.sessions, owner: w.owner, token: w.token, tick: w.tick, history: w.history,
	}
	later.ledger = ledger.New(tree, false, ledger.Observer{}, func(v ledger.Violation) { later.found = append(later.found, v) })
	later.beat(19, "j")
	later.record(20, "j", later.claimed("j", 20, "r2"))
	later.end(21, "j", history.StateOK)
	if n := later.ledger.Counts(); len(later.found) > 0 || n.Unjudged == 0 {
		t.Errorf("found %v of %+v", later.found, n)
	}
	later.record(30, "j", later.claimed("j", 20, "r3"))
	later.wantRules(t, []ledger.Rule{ledger.Claim})
}

// TestSnapshot: a ledger that begins with a snapshot has the same state as one that has read all.
// The snapshot shows traces of a transaction that follows it.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	ran(w)
	zxid := w.zxid
	spec := zkrec.Spec{Job: job.Job{Schedule: "*/10 * * * * ?"}}
	claimed := w.claimed("j", 20, "r2")
	claimed.History = w.history["j"].Mark()
	during := w.txn(20, 1, set(tree.Tick("j"), claimed.Encode()))
	var found []ledger.Violation
	l := ledger.New(tree, true, ledger.Observer{}, func(v ledger.Violation) { found = append(found, v) })
	for _, n := range []txnlog.Node{
		{Path: tree.Instance("a"), Data: zkrec.Instance{Incarnation: "a!", SessionTimeout: zkrec.Duration(timeout)}.Encode(), Czxid: 2, Mzxid: 2, Owner: 1, Mtime: at(0)},
		{Path: tree.Instance("b"), Data: zkrec.Instance{Incarnation: "b!", SessionTimeout: zkrec.Duration(timeout)}.Encode(), Czxid: 4, Mzxid: 4, Owner: 2, Mtime: at(0)},
		{Path: tree.Job("j"), Data: spec.Encode(), Czxid: 5, Mzxid: 5, Mtime: at(0)},
		{Path: tree.Alive("j"), Data: zkrec.Owner{SID: "a", Incarnation: "a!"}.Encode(), Czxid: 5, Mzxid: w.token["j"], Mtime: at(1)},
		{Path: tree.Heartbeat("j", "a"), Czxid: w.token["j"], Mzxid: zxid, Mtime: at(14)},
		{Path: tree.Tick("j"), Data: during.Ops[0].Data, Czxid: 5, Mzxid: during.Zxid, Mtime: at(20)},
		{Path: tree.History("j"), Data: w.history["j"].Encode(0), Czxid: 5, Mzxid: zxid, Mtime: at(11)},
	} {
		l.Load(n)
	}
	l.LoadSessions(map[int64]time.Duration{1: timeout, 2: timeout, operator: timeout})
	l.Replay(during)
	w.ledger, w.tick["j"] = l, claimed.Normal()
	w.end(21, "j", history.StateOK)
	w.record(30, "j", w.claimed("j", 30, "r3"))
	if n := l.Counts(); len(found) > 0 || n.Unjudged > 0 || n.Claims != 1 || n.Results != 1 {
		t.Errorf("found %v of %+v", found, n)
	}
	w.own(23, "j", "b")
	w.record(31, "j", w.claimed("j", 30, "r4"), zkrec.Entry{Run: zkrec.Run{
		Tick: ms(30), RunID: "r3", SID: "a", Token: w.tick["j"].Token, Attempt: 1, State: history.StateLost,
	}})
	if w.found = found; len(found) != 2 || found[0].Rule != ledger.Owner || found[1].Rule != ledger.Claim {
		t.Errorf("found %v, want a takeover from who lives, and a tick that is claimed again", found)
	}
}

// each has a job that runs on every instance, and its part at a.
func each(w *world) {
	w.submit(0, "each", job.Job{Schedule: "*/10 * * * * ?", Everywhere: true})
	const part = "each/a"
	ops := []txnlog.Op{}
	for _, n := range tree.NewShard(part, 0) {
		ops = append(ops, create(n.Path, n.Data))
	}
	w.write(1, w.sessions["a"], ops...)
	w.tick[part] = zkrec.Tick{Watermark: ms(1)}
}

func TestEverywhere(t *testing.T) {
	t.Parallel()
	removed := func(w *world, second float64) {
		var ops []txnlog.Op
		for _, path := range []string{tree.Heartbeat("each/a", "a"), tree.Alive("each/a"), tree.Tick("each/a"), tree.History("each/a"), tree.Requests("each/a"), tree.Slot("each/a")} {
			ops = append(ops, remove(path))
		}
		w.write(second, 2, ops...)
	}
	tell(t, []story{
		{"a run", func(w *world) {
			each(w)
			w.own(2, "each/a", "a")
			w.record(10, "each/a", w.claimed("each/a", 10, "r1"))
			w.end(11, "each/a", history.StateOK)
		}, nil},
		{"a tick twice", func(w *world) {
			each(w)
			w.own(2, "each/a", "a")
			w.record(10, "each/a", w.claimed("each/a", 10, "r1"))
			w.end(11, "each/a", history.StateOK)
			w.record(12, "each/a", w.claimed("each/a", 10, "r2"))
		}, []ledger.Rule{ledger.Claim}},
		{"the part of another", func(w *world) { each(w); w.own(2, "each/a", "b") }, []ledger.Rule{ledger.Owner}},
		{"what is left is removed", func(w *world) { each(w); w.own(2, "each/a", "a"); w.expire(3, "a"); removed(w, 4) }, nil},
		{"and not what is in use", func(w *world) { each(w); w.own(2, "each/a", "a"); removed(w, 4) }, []ledger.Rule{ledger.Account}},
		{"a run of the job itself", func(w *world) {
			each(w)
			w.write(1, operator, create(tree.Alive("each"), nil), create(tree.Tick("each"), zkrec.Tick{Watermark: ms(1)}.Encode()), create(tree.History("each"), nil))
			w.tick["each"] = zkrec.Tick{Watermark: ms(1)}
			w.own(2, "each", "a")
			w.record(10, "each", w.claimed("each", 10, "r1"))
		}, []ledger.Rule{ledger.Shards}},
	})
}
