package admin

import (
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// scene is a job that runs on the hour, as the records have it at 12:30:00:
// app-2 owns it since 09:30, under token 20.
type scene struct {
	spec    zkrec.Spec
	tick    zkrec.Tick
	tickErr error
	history []zkrec.Entry
	dead    bool // app-2 is
	nobody  bool // owns it
	alarm   *zkrec.Alarm
}

var sceneNow = time.UnixMilli(at("12:30:00"))

var sceneAt = moment{now: sceneNow, certain: sceneNow}

func (s scene) past() past {
	spec := s.spec
	if spec.Job.Schedule == "" {
		spec.Job.Schedule = "@hourly"
	}
	if spec.Since == 0 {
		spec.Since = at("00:30:00")
	}
	live := map[string]Instance{"app-3": {ID: "app-3"}, "app-2": {ID: "app-2"}}
	if s.dead {
		delete(live, "app-2")
	}
	r := records{
		slot: "job", spec: spec.Encode(), register: node{data: spec.Switch.Encode()}, registered: []string{"app-2", "app-3"}, tick: s.tick, tickErr: s.tickErr, alarm: s.alarm, history: zkrec.History{Entries: s.history},
		owner: zkrec.Owner{SID: "app-2"}, ownerStat: zkconn.Stat{Mzxid: 20, Mtime: time.UnixMilli(at("09:30:00"))},
	}
	if s.nobody {
		r.owner = zkrec.Owner{}
	}
	p := past{records: r, of: r.parse(), job: r.status(r.parse(), live, sceneAt)}
	p.job.SetConditions(sceneAt.now)
	return p
}

// ran is a run of app-2's that took ten minutes.
func ran(clock string, state history.State) zkrec.Run {
	return zkrec.Run{
		Tick: at(clock), RunID: "r" + clock, SID: "app-2", Token: 20, Attempt: 1, State: state,
		Started: at(clock) + 1000, Ended: at(clock) + 601_000,
	}
}

func ranEntry(clock string, state history.State, change func(*zkrec.Entry)) zkrec.Entry {
	e := zkrec.Entry{Run: ran(clock, state)}
	if change != nil {
		change(&e)
	}
	return e
}

func open(clock string, token int64) zkrec.Tick {
	run := ran(clock, history.StateRunning)
	run.Token, run.Ended = token, 0
	return zkrec.Tick{Watermark: run.Tick, Run: run}
}

// rowOf is a row of ticks that were not run, as app-2 recorded it at 10:00:30.
func rowOf(from, to string, count int, state history.State, reason history.Reason) zkrec.Entry {
	return zkrec.Entry{
		Run: zkrec.Run{Tick: at(from), SID: "app-2", Token: 20, State: state, Ended: at("10:00:30")},
		To:  at(to), Count: count, Reason: reason,
	}
}

func through(clock string) zkrec.Tick { return zkrec.Tick{Watermark: at(clock)} }

// A whyRow is a scene and the outcome of a tick in it.
type whyRow struct {
	scene scene
	at    string // "": now
	fate  history.State
}

func (row whyRow) explain(t *testing.T, what string) Explanation {
	t.Helper()
	asked := time.Time{}
	if row.at != "" {
		asked = time.UnixMilli(at(row.at))
	}
	got := row.scene.past().explain(asked, sceneAt)
	if got.Fate != row.fate {
		t.Errorf("%s: %s, want %s", what, got.Fate, row.fate)
	}
	return got
}

// golden compares explanations with a file in testdata, one line each, or writes it with
// -update. Swctl's sentences are tested on the same files.
func golden(t *testing.T, name string, facts map[string]Explanation) {
	t.Helper()
	path := filepath.Join("testdata", name+".json")
	var got []byte
	for _, what := range slices.Sorted(maps.Keys(facts)) {
		line, err := json.Marshal(map[string]Explanation{what: facts[what]})
		if err != nil {
			t.Fatal(err)
		}
		got = append(append(got, line...), '\n')
	}
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run the test with -update to write it", err)
	}
	if string(want) != string(got) {
		t.Errorf("%s differs; run the test with -update and look at the difference", path)
	}
}

var update = flag.Bool("update", false, "write the golden files")

func TestWhyOfARun(t *testing.T) {
	t.Parallel()
	asked := ran("12:20:00", history.StateOK)
	asked.RunID, asked.Manual = "manual", "ask"
	facts := map[string]Explanation{}
	for what, row := range map[string]whyRow{
		"it went well": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{ranEntry("12:00:00", history.StateOK, nil)}}, "", history.StateOK,
		},
		"no tick at that time": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{ranEntry("11:00:00", history.StateOK, nil)}}, "11:17:00", history.StateOK,
		},
		"it is running": {
			scene{tick: open("12:00:00", 20)}, "", history.StateRunning,
		},
		"its owner died": {
			scene{tick: open("12:00:00", 20), dead: true}, "", history.StateUnknown,
		},
		"another has adopted it": {
			scene{tick: open("09:00:00", 10)}, "09:00:00", history.StateUnknown,
		},
		"it failed, and a retry is to come": {
			scene{
				tick:    zkrec.Tick{Watermark: at("12:00:00"), Run: ran("12:00:00", history.StateFailed), NextAttempt: "retry", NextAttemptAt: at("12:31:00")},
				history: []zkrec.Entry{ranEntry("12:00:00", history.StateFailed, func(e *zkrec.Entry) { e.Error = "no route.\nstack" })},
			}, "", history.StateFailed,
		},
		"a pause holds its retry back, and it was run when asked": {
			scene{
				spec:    zkrec.Spec{Switch: zkrec.Switch{Paused: &zkrec.Pause{Since: at("12:10:00")}}},
				tick:    zkrec.Tick{Watermark: at("12:00:00"), Run: asked, Held: zkrec.Held{Run: ran("12:00:00", history.StateFailed), NextAttempt: "retry", NextAttemptAt: at("12:11:00")}},
				history: []zkrec.Entry{ranEntry("12:00:00", history.StateFailed, nil), {Run: asked}},
			}, "12:00:00", history.StateFailed,
		},
		"the second attempt was ended": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{
				ranEntry("11:00:00", history.StateInterrupted, func(e *zkrec.Entry) { e.RunID, e.SID, e.Error = "first", "app-1", "stopping" }),
				ranEntry("11:00:00", history.StateTimedOut, func(e *zkrec.Entry) { e.Attempt = 2 }),
			}}, "11:59:59", history.StateTimedOut,
		},
		"it was claimed and never begun": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{ranEntry("12:00:00", history.StateInterrupted, func(e *zkrec.Entry) {
				e.NotBegun, e.Error = true, "claimed, not begun: singleworker: instance is stopping"
			})}}, "", history.StateInterrupted,
		},
		"it started late": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{ranEntry("12:00:00", history.StateOK, func(e *zkrec.Entry) { e.Started += 43_000 })}}, "", history.StateOK,
		},
		"its owner had not claimed it": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{ranEntry("12:00:00", history.StateOK, func(e *zkrec.Entry) { e.Started += 310; e.TakenFrom = "app-1" })}}, "", history.StateOK,
		},
		"it was lost": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{ranEntry("12:00:00", history.StateLost, nil)}}, "", history.StateLost,
		},
		"a manual run": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{ranEntry("12:12:12", history.StateOK, func(e *zkrec.Entry) { e.Manual = "id"; e.Tick += 345 })}}, "12:12:12", history.StateOK,
		},
	} {
		facts[what] = row.explain(t, what)
	}
	golden(t, "why-run", facts)
}

func TestWhyATickWasNotRun(t *testing.T) {
	t.Parallel()
	pause := &zkrec.Pause{Since: at("11:50:00"), By: "alice@host", Reason: "migration"}
	over := &zkrec.Pause{Since: at("11:50:00"), Until: at("12:29:50"), By: "alice@host", Missed: "once"}
	oldRun := ranEntry("07:00:00", history.StateOK, func(e *zkrec.Entry) { e.SID, e.Token = "app-1", 10 })
	facts := map[string]Explanation{}
	for what, row := range map[string]whyRow{
		"overlapped": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{
				rowOf("11:00:00", "11:00:00", 1, history.StateSkipped, history.ReasonOverlap),
				ranEntry("10:00:00", history.StateOK, func(e *zkrec.Entry) { e.Ended = at("11:30:00") }),
			}}, "11:00:00", history.StateSkipped,
		},
		"skipped in a pause": {
			scene{spec: zkrec.Spec{Switch: zkrec.Switch{Paused: pause}}, tick: through("12:00:00"), history: []zkrec.Entry{rowOf("12:00:00", "12:00:00", 1, history.StateSkipped, history.ReasonPaused)}}, "", history.StateSkipped,
		},
		"missed without an owner": {
			scene{tick: through("09:00:00"), history: []zkrec.Entry{oldRun, rowOf("08:00:00", "09:00:00", 2, history.StateMissed, history.ReasonNoOwner)}}, "09:00:00", history.StateMissed,
		},
		"its owner was stalled": {
			scene{tick: through("10:00:00"), history: []zkrec.Entry{rowOf("10:00:00", "10:00:00", 1, history.StateMissed, history.ReasonStalled)}}, "10:00:00", history.StateMissed,
		},
		"its schedule was replaced": {
			scene{
				spec:    zkrec.Spec{Since: at("10:30:00"), Former: &zkrec.Former{Schedule: "*/15 * * * *", Since: at("00:30:00")}},
				tick:    through("10:15:00"),
				history: []zkrec.Entry{rowOf("10:15:00", "10:15:00", 1, history.StateSkipped, history.ReasonScheduleChanged)},
			}, "10:20:00", history.StateSkipped,
		},
		"before the job was": {
			scene{}, "00:15:00", FateNone,
		},
		"before the schedule, but on record": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{ranEntry("00:10:00", history.StateOK, nil)}}, "00:15:00", history.StateOK,
		},
		"a new job": {
			scene{spec: zkrec.Spec{Since: at("12:20:00")}}, "", FateComing,
		},
		"to come": {
			scene{tick: through("12:00:00")}, "15:00:00", FateComing,
		},
		"to come in a pause": {
			scene{spec: zkrec.Spec{Switch: zkrec.Switch{Paused: pause}}, tick: through("11:00:00")}, "15:00:00", FateComing,
		},
		"came in a pause": {
			scene{spec: zkrec.Spec{Switch: zkrec.Switch{Paused: pause}}, tick: through("11:00:00")}, "", FatePaused,
		},
		"came in a pause that is over": {
			scene{spec: zkrec.Spec{Switch: zkrec.Switch{Paused: over}}, tick: through("11:00:00")}, "", FatePaused,
		},
		"behind a run": {
			scene{tick: open("11:00:00", 20)}, "", FateDue,
		},
		"just due": {
			scene{spec: zkrec.Spec{Job: job.Job{AlarmAfter: time.Hour}}, tick: through("11:00:00")}, "", FateDue,
		},
		"late": {
			scene{tick: through("11:00:00"), alarm: &zkrec.Alarm{Tick: at("12:00:00"), SID: "app-3", At: time.UnixMilli(at("12:01:00"))}}, "", FateLate,
		},
		"late for long, each tick for a moment only": {
			scene{spec: zkrec.Spec{Job: job.Job{Schedule: "0 * * * * ?"}}, tick: through("11:00:00"), alarm: &zkrec.Alarm{Tick: at("11:01:00"), SID: "app-3", At: time.UnixMilli(at("11:02:00"))}}, "", FateLate,
		},
		"late without an owner": {
			scene{tick: through("11:00:00"), nobody: true}, "", FateLate,
		},
		"forgotten": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{ranEntry("10:00:00", history.StateOK, nil)}}, "09:00:00", FateForgotten,
		},
		"claimed by a clock that was ahead": {
			scene{tick: through("18:00:00")}, "", FateForgotten,
		},
		"never written down": {
			scene{tick: through("12:00:00")}, "", FateForgotten,
		},
		"garbage": {
			scene{tickErr: &zkrec.UnreadableError{Path: "/billing/job/tick", Err: errors.New("tick record: garbage")}}, "", history.StateUnreadable,
		},
		"can never run": {
			scene{spec: zkrec.Spec{Job: job.Job{Schedule: "@dialy"}}}, "", FateNone,
		},
	} {
		facts[what] = row.explain(t, what)
	}
	golden(t, "why-not-run", facts)
}

// For any records there is an explanation, and it matches them.
func TestWhyAlwaysAnswers(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	base := at("00:00:00")
	moment := func() int64 { return base + random.Int64N(18*3600)*1000 }
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	states := []history.State{history.StateRunning, history.StateOK, history.StateFailed, history.StateTimedOut, history.StateInterrupted, history.StateLost, history.StateSkipped, history.StateMissed, "novel"}
	run := func() zkrec.Run {
		tick := moment() / 3_600_000 * 3_600_000
		return zkrec.Run{
			Tick: tick, RunID: pick("", "a", "b"), Manual: pick("", "", "id"), SID: pick("", "app-1", "app-2"), Token: random.Int64N(30),
			State: states[random.IntN(len(states))], Started: tick, Ended: pick2(random, 0, moment()), Error: pick("", "no"),
		}
	}
	for range 3_000 {
		s := scene{dead: random.IntN(3) == 0, nobody: random.IntN(3) == 0, tick: zkrec.Tick{Watermark: moment(), Run: run(), NextAttempt: pick("", "retry")}}
		s.spec.Since = pick2(random, 0, moment())
		if random.IntN(2) == 0 {
			s.spec.Switch.Paused = &zkrec.Pause{Since: moment(), Until: pick2(random, 0, moment())}
		}
		if random.IntN(2) == 0 {
			s.spec.Former = &zkrec.Former{Schedule: pick("@hourly", "*/7 * * * *", "x"), Since: moment()}
		}
		if random.IntN(9) == 0 {
			s.tick, s.tickErr = zkrec.Tick{}, errors.New("garbage")
		}
		for range random.IntN(4) {
			s.history = append(s.history, zkrec.Entry{Run: run(), To: pick2(random, 0, moment()), Count: random.IntN(3), Reason: history.Reason(pick("", "overlap", "paused", "no_owner", "stalled", "schedule_changed"))})
		}
		asked := time.UnixMilli(pick2(random, moment(), base+int64(random.IntN(24))*3_600_000))
		got := s.past().explain(asked, sceneAt)
		ok := (slices.Contains(fates, got.Fate) || got.Fate == "novel") && (got.Tick.IsZero() == (got.Fate == FateNone)) &&
			(got.Fate != FateComing || got.Tick.After(sceneNow))
		for _, e := range got.Entries {
			ok = ok && covers(e, got.Tick)
		}
		if !ok {
			t.Fatalf("seed %d: %+v\nat %v: %s of %v", seed, s, asked, got.Fate, got.Tick)
		}
	}
}

func pick2(random *rand.Rand, a, b int64) int64 {
	if random.IntN(2) == 0 {
		return a
	}
	return b
}

// From the records in ZooKeeper, as an operator asks.
func TestWhyReadsTheRecords(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		token := w.owned(job.Job{Name: "job", Schedule: "@hourly", TimeZone: "Asia/Tokyo"})
		time.Sleep(time.Hour)
		w.claim(zkrec.Run{Tick: time.Now().UnixMilli(), RunID: "a", Token: token, Attempt: 1, Started: time.Now().UnixMilli()})
		got, err := w.c.Why(w.Context(), "job", time.Time{})
		if err != nil || got.Fate != history.StateRunning || !got.Tick.Equal(noon.Add(time.Hour)) || got.Entries[0].InstanceID != "app-1" {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := w.c.Why(w.Context(), "nobody", time.Time{}); !errors.Is(err, ErrNotFound) {
			t.Errorf("no such job: %v", err)
		}
		_, err = w.c.Why(w.Context(), "a/b/c", time.Time{})
		wantRefused(t, err, "Name", `job.Name "a/b/c"`)
	})
}

// The last tick up to now is not the one of the next millisecond.
func TestWhyJustBeforeATick(t *testing.T) {
	t.Parallel()
	for before, want := range map[time.Duration]string{time.Microsecond: "12:00:00", time.Millisecond: "12:00:00", 0: "13:00:00", -time.Microsecond: "13:00:00"} {
		now := time.UnixMilli(at("13:00:00")).Add(-before)
		if x := (scene{}).past().explain(time.Time{}, moment{now: now, certain: now}); x.Tick.UnixMilli() != at(want) || x.Fate == FateComing {
			t.Errorf("%v before 13:00 it explains %v: %s, want %s", before, x.Tick, x.Fate, want)
		}
	}
}
