package admin

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
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

func (s scene) past() past {
	spec := s.spec
	if spec.Schedule == "" {
		spec.Schedule = "@hourly"
	}
	if spec.Since == 0 {
		spec.Since = at("00:30:00")
	}
	live := map[string]Instance{"app-3": {ID: "app-3"}, "app-2": {ID: "app-2"}}
	if s.dead {
		delete(live, "app-2")
	}
	r := records{
		slot: "job", spec: spec.Encode(), registered: []string{"app-2", "app-3"}, tick: s.tick, tickErr: s.tickErr, alarm: s.alarm,
		owner: zkrec.Owner{SID: "app-2"}, ownerStat: zkconn.Stat{Mzxid: 20, Mtime: time.UnixMilli(at("09:30:00"))},
	}
	if s.nobody {
		r.owner = zkrec.Owner{}
	}
	return past{records: r, of: r.parse(), history: zkrec.History{Entries: s.history}, job: r.status(r.parse(), live, sceneNow)}
}

// ran is a run of app-2's that took ten minutes.
func ran(clock, state string) zkrec.Run {
	return zkrec.Run{
		Tick: at(clock), RunID: "r" + clock, SID: "app-2", Token: 20, Attempt: 1, State: state,
		Started: at(clock) + 1000, Ended: at(clock) + 601_000,
	}
}

func ranEntry(clock, state string, change func(*zkrec.Entry)) zkrec.Entry {
	e := zkrec.Entry{Run: ran(clock, state)}
	if change != nil {
		change(&e)
	}
	return e
}

func open(clock string, token int64) zkrec.Tick {
	run := ran(clock, zkrec.RunRunning)
	run.Token, run.Ended = token, 0
	return zkrec.Tick{Watermark: run.Tick, Run: run}
}

// rowOf is a row of ticks that were not run, as app-2 recorded it at 10:00:30.
func rowOf(from, to string, count int, state, reason string) zkrec.Entry {
	return zkrec.Entry{
		Run: zkrec.Run{Tick: at(from), SID: "app-2", Token: 20, State: state, Ended: at("10:00:30")},
		To:  at(to), Count: count, Reason: reason,
	}
}

func through(clock string) zkrec.Tick { return zkrec.Tick{Watermark: at(clock)} }

// A whyRow is a scene, and what is to be said of it.
type whyRow struct {
	scene scene
	at    string // "": now
	fate  string
	says  []string // of the sentences, in order
}

func (row whyRow) check(t *testing.T, what string) {
	t.Helper()
	asked := time.Time{}
	if row.at != "" {
		asked = time.UnixMilli(at(row.at))
	}
	got := row.scene.past().explain(asked, sceneNow)
	said := len(got.Sentences) >= len(row.says)
	for i, says := range row.says {
		said = said && strings.Contains(got.Sentences[i], says)
	}
	if got.Fate != row.fate || !said {
		t.Errorf("%s: %s, want %s\ngot  %s\nwant %s", what, got.Fate, row.fate,
			strings.Join(got.Sentences, "\n     "), strings.Join(row.says, "\n     "))
	}
}

const sceneOwner = "app-2 owns the job since 2026-11-21 09:30:00 UTC (token 20)"

func TestWhyOfARun(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]whyRow{
		"it went well": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{ranEntry("12:00:00", zkrec.RunOK, nil)}}, "", RunOK,
			[]string{
				"The tick of 2026-11-21 12:00:00 UTC was run on app-2 from 2026-11-21 12:00:01 UTC to 2026-11-21 12:10:01 UTC (10m0s), attempt 1, and ended well.",
				sceneOwner + ".", "The next tick to run is that of 2026-11-21 13:00:00 UTC.",
			},
		},
		"no tick at that time": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{ranEntry("11:00:00", zkrec.RunOK, nil)}}, "11:17:00", RunOK,
			[]string{"There is no tick at 2026-11-21 11:17:00 UTC; the last before is that of 2026-11-21 11:00:00 UTC.", "The tick of 2026-11-21 11:00:00 UTC was run"},
		},
		"it is running": {
			scene{tick: open("12:00:00", 20)}, "", RunRunning,
			[]string{"The tick of 2026-11-21 12:00:00 UTC is running on app-2 since 2026-11-21 12:00:01 UTC, attempt 1."},
		},
		"its owner died": {
			scene{tick: open("12:00:00", 20), dead: true}, "", RunUnknown,
			[]string{"the result is unknown, because app-2 has not written it and is gone.", "policy for interrupted runs: rerun.", "Nobody owns the job: its owner app-2 is gone; waiting for app-3 to take over."},
		},
		"another has adopted it": {
			scene{tick: open("09:00:00", 10)}, "09:00:00", RunUnknown,
			[]string{"is not the owner any more: app-2 has adopted the job at 2026-11-21 09:30:00 UTC.", "", sceneOwner + "; before, app-2 did (token 10): its run of 2026-11-21 09:00:00 UTC has no result, at 2026-11-21 09:00:01 UTC."},
		},
		"it failed, and a retry is to come": {
			scene{
				tick:    zkrec.Tick{Watermark: at("12:00:00"), Run: ran("12:00:00", zkrec.RunFailed), NextAttempt: "retry", NextAttemptAt: at("12:31:00")},
				history: []zkrec.Entry{ranEntry("12:00:00", zkrec.RunFailed, func(e *zkrec.Entry) { e.Error = "no route.\nstack" })},
			}, "", RunFailed,
			[]string{"attempt 1, and failed: no route.", "It is to be run again (retry) at 2026-11-21 12:31:00 UTC."},
		},
		"the second attempt was ended": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{
				ranEntry("11:00:00", zkrec.RunInterrupted, func(e *zkrec.Entry) { e.RunID, e.SID, e.Error = "first", "app-1", "stopping" }),
				ranEntry("11:00:00", zkrec.RunTimedOut, func(e *zkrec.Entry) { e.Attempt = 2 }),
			}}, "11:59:59", RunTimedOut,
			[]string{"There is no tick", "attempt 2, and was ended by its timeout.", "Attempt 1 before, on app-1 at 2026-11-21 11:00:01 UTC, was interrupted: stopping."},
		},
		"it was lost": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{ranEntry("12:00:00", zkrec.RunLost, nil)}}, "", RunLost,
			[]string{"and was lost: nobody knows how far it came, and it is not run again."},
		},
		"a manual run": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{ranEntry("12:12:12", zkrec.RunOK, func(e *zkrec.Entry) { e.Manual = "id"; e.Tick += 345 })}}, "12:12:12", RunOK,
			[]string{"The manual run of 2026-11-21 12:12:12 UTC was run on app-2"},
		},
	} {
		row.check(t, what)
	}
}

func TestWhyATickWasNotRun(t *testing.T) {
	t.Parallel()
	pause := &zkrec.Pause{Since: at("11:50:00"), By: "alice@host", Reason: "migration"}
	over := &zkrec.Pause{Since: at("11:50:00"), Until: at("12:29:50"), By: "alice@host", Missed: "once"}
	oldRun := ranEntry("07:00:00", zkrec.RunOK, func(e *zkrec.Entry) { e.SID, e.Token = "app-1", 10 })
	for what, row := range map[string]whyRow{
		"overlapped": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{
				rowOf("11:00:00", "11:00:00", 1, zkrec.TickSkipped, zkrec.ReasonOverlap),
				ranEntry("10:00:00", zkrec.RunOK, func(e *zkrec.Entry) { e.Ended = at("11:30:00") }),
			}}, "11:00:00", RunSkipped,
			[]string{"was not run: the run before was still going on (that of 2026-11-21 10:00:00 UTC, on app-2 from 2026-11-21 10:00:01 UTC to 2026-11-21 11:30:00 UTC), and the job's policy for overlaps is skip."},
		},
		"skipped in a pause": {
			scene{spec: zkrec.Spec{Paused: pause}, tick: through("12:00:00"), history: []zkrec.Entry{rowOf("12:00:00", "12:00:00", 1, zkrec.TickSkipped, zkrec.ReasonPaused)}}, "", RunSkipped,
			[]string{"was not run: the job was paused by alice@host from 2026-11-21 11:50:00 UTC until it is resumed, because of: migration.", sceneOwner + "."},
		},
		"missed without an owner": {
			scene{tick: through("09:00:00"), history: []zkrec.Entry{oldRun, rowOf("08:00:00", "09:00:00", 2, zkrec.TickMissed, zkrec.ReasonNoOwner)}}, "09:00:00", RunMissed,
			[]string{
				"was not run: nobody owned the job when it came (the owner before, app-1, was last heard of at 2026-11-21 07:10:01 UTC, and app-2 adopted the job at 2026-11-21 09:30:00 UTC); app-2 accounted for it at 2026-11-21 10:00:30 UTC.",
				"The job's policy for missed ticks is once.", "It is one of 2 ticks in a row, from 2026-11-21 08:00:00 UTC to 2026-11-21 09:00:00 UTC.",
				sceneOwner + "; before, app-1 did (token 10): its run of 2026-11-21 07:00:00 UTC ended well, at 2026-11-21 07:10:01 UTC.",
			},
		},
		"its owner was stalled": {
			scene{tick: through("10:00:00"), history: []zkrec.Entry{rowOf("10:00:00", "10:00:00", 1, zkrec.TickMissed, zkrec.ReasonStalled)}}, "10:00:00", RunMissed,
			[]string{"was not run: its owner app-2 could not claim it in time, and noticed at 2026-11-21 10:00:30 UTC."},
		},
		"its schedule was replaced": {
			scene{
				spec:    zkrec.Spec{Since: at("10:30:00"), Former: &zkrec.Former{Schedule: "*/15 * * * *", Since: at("00:30:00")}},
				tick:    through("10:15:00"),
				history: []zkrec.Entry{rowOf("10:15:00", "10:15:00", 1, zkrec.TickSkipped, zkrec.ReasonScheduleChanged)},
			}, "10:20:00", RunSkipped,
			[]string{"There is no tick", "The tick of 2026-11-21 10:15:00 UTC was not run: the schedule that it belonged to was replaced at 2026-11-21 10:30:00 UTC"},
		},
		"before the job was": {
			scene{}, "00:15:00", FateNone,
			[]string{`The schedule "@hourly" has no tick at 2026-11-21 00:15:00 UTC or before, since the job has it (2026-11-21 00:30:00 UTC).`, sceneOwner},
		},
		"before the schedule, but on record": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{ranEntry("00:10:00", zkrec.RunOK, nil)}}, "00:15:00", RunOK,
			[]string{"There is no tick at 2026-11-21 00:15:00 UTC; the last before is that of 2026-11-21 00:10:00 UTC.", "ended well"},
		},
		"a new job": {
			scene{spec: zkrec.Spec{Since: at("12:20:00")}}, "", FateComing, []string{"The tick of 2026-11-21 13:00:00 UTC has yet to come.", sceneOwner},
		},
		"to come": {
			scene{tick: through("12:00:00")}, "15:00:00", FateComing, []string{"The tick of 2026-11-21 15:00:00 UTC has yet to come.", sceneOwner, "The next tick to run is that of 2026-11-21 13:00:00 UTC."},
		},
		"to come in a pause": {
			scene{spec: zkrec.Spec{Paused: pause}, tick: through("11:00:00")}, "15:00:00", FateComing, []string{"has yet to come, and will not be run: the job is paused by alice@host from"},
		},
		"came in a pause": {
			scene{spec: zkrec.Spec{Paused: pause}, tick: through("11:00:00")}, "", FatePaused, []string{"was not run: the job was paused by alice@host from 2026-11-21 11:50:00 UTC until it is resumed"},
		},
		"came in a pause that is over": {
			scene{spec: zkrec.Spec{Paused: over}, tick: through("11:00:00")}, "", FatePaused,
			[]string{"was not run: the job was paused by alice@host from 2026-11-21 11:50:00 UTC to 2026-11-21 12:29:50 UTC.", "The pause is over; its owner has yet to account for it, by the policy once."},
		},
		"behind a run": {
			scene{tick: open("11:00:00", 20)}, "", FateDue,
			[]string{"The tick of 2026-11-21 12:00:00 UTC is not run yet: the run of 2026-11-21 11:00:00 UTC goes on, on app-2 since 2026-11-21 11:00:01 UTC; the job's policy for overlaps is skip."},
		},
		"just due": {
			scene{spec: zkrec.Spec{Policy: zkrec.Policy{AlarmAfter: zkrec.Duration(time.Hour)}}, tick: through("11:00:00")}, "", FateDue, []string{"came a moment ago, and is not claimed yet."},
		},
		"late": {
			scene{tick: through("11:00:00"), alarm: &zkrec.Alarm{Tick: at("12:00:00"), SID: "app-3", At: time.UnixMilli(at("12:01:00"))}}, "", FateLate,
			[]string{"is late: it was neither claimed nor skipped in 30m0s.", "app-3 noticed that at 2026-11-21 12:01:00 UTC.", "Its owner app-2 lives, and has not claimed it: look at its log."},
		},
		"late for long, each tick for a moment only": {
			scene{spec: zkrec.Spec{Schedule: "0 * * * * ?"}, tick: through("11:00:00"), alarm: &zkrec.Alarm{Tick: at("11:01:00"), SID: "app-3", At: time.UnixMilli(at("11:02:00"))}}, "", FateLate,
			[]string{"The tick of 2026-11-21 12:30:00 UTC is late: it was neither claimed nor skipped in 0s.", "So are all since that of 2026-11-21 11:01:00 UTC.", "app-3 noticed that at 2026-11-21 11:02:00 UTC."},
		},
		"late without an owner": {
			scene{tick: through("11:00:00"), nobody: true}, "", FateLate, []string{"is late", "Nobody owns the job: waiting for app-2 or app-3 to adopt it."},
		},
		"forgotten": {
			scene{tick: through("12:00:00"), history: []zkrec.Entry{ranEntry("10:00:00", zkrec.RunOK, nil)}}, "09:00:00", FateForgotten,
			[]string{"was accounted for, but what became of it is not known any more: the history goes back to 2026-11-21 10:00:00 UTC only."},
		},
		"claimed by a clock that was ahead": {
			scene{tick: through("18:00:00")}, "", FateForgotten,
			[]string{"was accounted for", sceneOwner, "Every tick up to 2026-11-21 18:00:00 UTC is accounted for already, by a clock that was wrong or by hand: nothing runs before."},
		},
		"never written down": {
			scene{tick: through("12:00:00")}, "", FateForgotten, []string{"was accounted for, but the history does not have it: an older version kept none, or somebody has changed it."},
		},
		"garbage": {
			scene{tickErr: errors.New("tick record: garbage")}, "", RunUnreadable, []string{"Nobody can tell what became of the tick of 2026-11-21 12:00:00 UTC: tick record: garbage."},
		},
		"can never run": {
			scene{spec: zkrec.Spec{Schedule: "@dialy"}}, "", FateNone, []string{"The job cannot run: Schedule \"@dialy\"", "The owner record names app-2"},
		},
	} {
		row.check(t, what)
	}
}

// Whatever the records hold, there is an explanation, and it fits them.
func TestWhyAlwaysAnswers(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	base := at("00:00:00")
	moment := func() int64 { return base + random.Int64N(18*3600)*1000 }
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	states := []string{RunRunning, RunOK, RunFailed, RunTimedOut, RunInterrupted, RunLost, RunSkipped, RunMissed, "novel"}
	fates := append(slices.Clone(states), RunUnknown, RunUnreadable, FateComing, FateDue, FateLate, FatePaused, FateForgotten, FateNone)
	run := func() zkrec.Run {
		tick := moment() / 3_600_000 * 3_600_000
		return zkrec.Run{
			Tick: tick, RunID: pick("", "a", "b"), Manual: pick("", "", "id"), SID: pick("", "app-1", "app-2"), Token: random.Int64N(30),
			State: pick(states...), Started: tick, Ended: pick2(random, 0, moment()), Error: pick("", "no"),
		}
	}
	for range 3_000 {
		s := scene{dead: random.IntN(3) == 0, nobody: random.IntN(3) == 0, tick: zkrec.Tick{Watermark: moment(), Run: run(), NextAttempt: pick("", "retry")}}
		s.spec.Since = pick2(random, 0, moment())
		if random.IntN(2) == 0 {
			s.spec.Paused = &zkrec.Pause{Since: moment(), Until: pick2(random, 0, moment())}
		}
		if random.IntN(2) == 0 {
			s.spec.Former = &zkrec.Former{Schedule: pick("@hourly", "*/7 * * * *", "x"), Since: moment()}
		}
		if random.IntN(9) == 0 {
			s.tick, s.tickErr = zkrec.Tick{}, errors.New("garbage")
		}
		for range random.IntN(4) {
			s.history = append(s.history, zkrec.Entry{Run: run(), To: pick2(random, 0, moment()), Count: random.IntN(3), Reason: pick("", "overlap", "paused", "no_owner", "stalled", "schedule_changed")})
		}
		asked := time.UnixMilli(pick2(random, moment(), base+int64(random.IntN(24))*3_600_000))
		got := s.past().explain(asked, sceneNow)
		ok := slices.Contains(fates, got.Fate) && len(got.Sentences) > 0 && (got.Tick.IsZero() == (got.Fate == FateNone)) &&
			(got.Fate != FateComing || got.Tick.After(sceneNow))
		for _, e := range got.Entries {
			ok = ok && covers(e, got.Tick)
		}
		for _, sentence := range got.Sentences {
			ok = ok && strings.HasSuffix(sentence, ".") && !strings.Contains(sentence, "0001") && !strings.Contains(sentence, "%!")
		}
		if !ok {
			t.Fatalf("seed %d: %+v\nat %v: %s of %v, %q", seed, s, asked, got.Fate, got.Tick, got.Sentences)
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
		token := w.owned(Job{Name: "job", Schedule: "@hourly", TimeZone: "Asia/Tokyo"})
		time.Sleep(time.Hour)
		w.claim(zkrec.Run{Tick: time.Now().UnixMilli(), RunID: "a", Token: token, Attempt: 1, Started: time.Now().UnixMilli()})
		got, err := w.c.Why(w.Context(), "job", time.Time{})
		if err != nil || got.Fate != RunRunning || !got.Tick.Equal(noon.Add(time.Hour)) ||
			got.Sentences[0] != "The tick of 2000-01-01 22:00:00 JST is running on app-1 since 2000-01-01 22:00:00 JST, attempt 1." {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := w.c.Why(w.Context(), "nobody", time.Time{}); !errors.Is(err, ErrNotFound) {
			t.Errorf("no such job: %v", err)
		}
		_, err = w.c.Why(w.Context(), "a/b", time.Time{})
		wantInvalid(t, err, "Name", `Name "a/b"`)
	})
}
