package web

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Each state has its own shape, where it belongs. So have moves, plans, and time without a record.
func TestTimelineOfAJob(t *testing.T) {
	t.Parallel()
	w := window{Begin: noon.Add(-90 * time.Minute), End: noon.Add(10 * time.Minute), now: noon}
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	run := func(minutes int, state history.State, on string) history.Entry {
		e := history.Entry{Count: 1, Run: history.Run{Tick: at(minutes), State: state, InstanceID: on, RunID: strconv.Itoa(minutes), Started: at(minutes), Ended: at(minutes + 1)}}
		if state == history.StateRunning {
			e.Ended = time.Time{}
		}
		return e
	}
	row := func(from, to int, state history.State) history.Entry {
		return history.Entry{Run: history.Run{Tick: at(from), State: state, InstanceID: "a"}, To: at(to), Count: 2}
	}
	entries := []history.Entry{ // newest first
		run(-1, history.StateRunning, "b"), run(-10, history.StateTimedOut, "b"), row(-30, -20, history.StateMissed), row(-50, -40, history.StateSkipped),
		run(-60, history.StateFailed, "a"), run(-65, history.StateUnknown, "a"), run(-70, history.StateOK, "a"), run(-200, history.StateOK, "a"),
	}
	every := admin.JobStatus{Name: "report", State: admin.StateOwned, Job: job.Job{Name: "report", Schedule: "0 */5 * * * ?"}.WithDefaults()}
	drawn := jobTimes(w, every, entries)
	var got []string
	for _, p := range drawn.Paths {
		got = append(got, p.Class+" "+p.D)
	}
	want := []string{
		"planned M855 6v6", "skipped M360 9h90", "missed M536 9l4-5 4 5-4 5zM540 9h90", "ok M180 9h9", "running M801 5h9l4 4-4 4h-9z",
		"unsure M225 5h9v8h-9z", "failed M270 9h9M720 9h9", "cross M270 1l8 16m0-16l-8 16M720 1l8 16m0-16l-8 16", "moved M716 0h8l-4 5z",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if want := "report: 1 failed, 2 missed, 1 ok, 1 running, 2 skipped, 1 timed_out, 1 unknown"; drawn.Text != want {
		t.Errorf("%q, want %q", drawn.Text, want)
	}
	recent := jobTimes(w, every, entries[:2])
	if i := slices.IndexFunc(recent.Paths, func(p timePath) bool { return p.Class == "unknown" }); i < 0 || recent.Paths[i].D != "M0 9h720" {
		t.Errorf("what came before the oldest entry: %+v", recent.Paths)
	}
	if n := len(jobTimes(w, admin.JobStatus{Name: "broken"}, nil).Paths); n != 0 {
		t.Errorf("%d paths of a job that cannot be read", n)
	}
}

// Runs that touch are one bar. Those that do not touch are not.
func TestTimelineBars(t *testing.T) {
	t.Parallel()
	d := newDrawing(window{})
	for _, bar := range [][2]int{{10, 12}, {12, 14}, {13, 20}, {22, 24}, {30, 40}, {15, 25}, {28, 30}} {
		d.bar("ok", bar[0], bar[1])
	}
	d.bar("failed", 11, 13)
	row := d.row(admin.JobStatus{Name: "a"})
	if want := []timePath{{"ok", "M10 9h10M22 9h2M30 9h10M15 9h10M28 9h2"}, {"failed", "M11 9h2"}}; !slices.Equal(row.Paths, want) {
		t.Errorf("%+v, want %+v", row.Paths, want)
	}
}

// A thousand runs in a pixel are drawn once.
func TestTimelineIsSmall(t *testing.T) {
	t.Parallel()
	w := window{Begin: noon.Add(-28 * 24 * time.Hour), End: noon, now: noon}
	var entries []history.Entry
	for i := range 30_000 {
		at := noon.Add(-time.Duration(i) * time.Minute)
		entries = append(entries, history.Entry{Count: 1, Run: history.Run{State: history.StateFailed, RunID: "x", Tick: at, Started: at, Ended: at}})
	}
	drawn, size := jobTimes(w, admin.JobStatus{Name: "busy"}, entries), 0
	for _, p := range drawn.Paths {
		size += len(p.D)
	}
	if size > 4<<10 || !strings.Contains(drawn.Text, "29999 failed") {
		t.Errorf("%d bytes, %s", size, drawn.Text)
	}
}

// The calendar counts the schedules' ticks.
func TestCalendarCounts(t *testing.T) {
	t.Parallel()
	from := time.Date(2000, 3, 20, 0, 0, 0, 0, time.UTC) // a week in which clocks change
	for _, of := range []job.Job{
		{Schedule: "0 0 2 ? * SUN", TimeZone: "Europe/Berlin"}, {Schedule: "@hourly"}, {Schedule: "0 */2 9-17 * * ?", TimeZone: "America/New_York"},
		{Schedule: "0 * * * * ?"}, {Schedule: "*/10 * * * * ?"}, {Schedule: "@every 90s"}, {Schedule: "@at 2000-03-22T07:00:00Z"}, {Schedule: "@manually"}, {Schedule: "@always"},
		{Schedule: "0 0 3 1 1 ?"}, {Schedule: "*/7 15-20 4 * * ?", TimeZone: "Asia/Kathmandu"}, {Schedule: "@every 7s"},
	} {
		of = of.WithDefaults()
		schedule, err := of.ParseSchedule()
		if err != nil {
			t.Fatal(err)
		}
		var want [hours]int
		for at := schedule.Next(from.Add(-time.Millisecond)); !at.IsZero() && at.Before(from.Add(hours*time.Hour)); at = schedule.Next(at) {
			want[int(at.Sub(from)/time.Hour)] += 3
		}
		one := admin.JobStatus{Job: of, State: admin.StateOwned}
		got := coming(context.Background(), []admin.JobStatus{one, one, {State: admin.StateInvalid}, one}, from, from)
		if most := slices.Max(want[:]); most >= 3*60 { // every minute
			if off := math.Abs(got.rate - float64(most)); got.often != 3 || off > float64(most)/10 || got.ticks != [hours]int{} {
				t.Errorf("%s: %d jobs with %v ticks an hour, want 3 with %d; counted %v", of.Schedule, got.often, got.rate, most, got.ticks)
			}
		} else if got.ticks != want || got.often > 0 {
			t.Errorf("%s: %v, want %v", of.Schedule, got.ticks, want)
		}
	}
}

// Thousands of different schedules are not counted for ever.
func TestCalendarIsBounded(t *testing.T) {
	t.Parallel()
	var jobs []admin.JobStatus
	for i := range 2000 {
		jobs = append(jobs, admin.JobStatus{Job: job.Job{Schedule: fmt.Sprintf("@every %ds", 60+i)}.WithDefaults()})
	}
	if w := coming(t.Context(), jobs, noon, noon); w.left == 0 || w.left == len(jobs) {
		t.Errorf("%d of %d jobs were not counted", w.left, len(jobs))
	}
}

func TestMapOfOwners(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		s := serve(t, newFake(), Options{})
		s.wants("/owners", `<span class="o-owns">owns</span>`, `<span class="o-owns">owns 2</span>`, `<span class="o-ran">before</span>`, "app-1 → app-2 2h59m ago")
		s.wants("/timeline?span=1h", "nightly: nothing in this time", `class="t-unknown"`)
		s.wants("/timeline", "nightly: 1 failed, 3 skipped", `aria-current="true">fit`)
		s.wants("/timeline?span=28d", "nightly: 1 failed, 1 ok, 3 skipped", `class="t-moved"`, `aria-current="true">28d`)
		s.wants("/timeline?span=28d&by=instance", `">app-1</a></th>`, "nightly: 1 ok", `">app-2</a></th>`, "nightly: 1 failed")
		s.wants("/timeline?span=6h&end=2000-01-01T06:00:00Z", "end=2000-01-01T03%3A00%3A00Z", "end=2000-01-01T09%3A00%3A00Z")
		s.wants("/calendar", "Sat 1 Jan", "Busiest hours", "Sat 8 Jan", "Sunday 09:00 UTC: 42 ticks")
	})
}

// The load without jitter stands beside the load with it: the runs are the same, those with jitter
// are where Due says, also those whose ticks were before.
func TestLoad(t *testing.T) {
	t.Parallel()
	describe := func(name string, jitter time.Duration, slots ...string) admin.JobStatus {
		of := admin.JobStatus{Name: name, Job: job.Job{Name: name, Schedule: "0 * * * *", Handler: "work", Jitter: jitter}.WithDefaults()}
		for _, slot := range slots {
			of.Slots = append(of.Slots, admin.JobStatus{Name: slot, Job: of.Job})
		}
		return of
	}
	var jobs []admin.JobStatus
	for i := range 600 {
		jobs = append(jobs, describe(fmt.Sprint("spread-", i), 20*time.Minute))
	}
	jobs = append(jobs, describe("parts", 0, "parts[0]", "parts[1]"), admin.JobStatus{Job: job.Job{Schedule: "* * * * *"}})
	now := noon.Add(5*time.Minute + 20*time.Second)
	l := coming(t.Context(), jobs, now, noon).load
	var want [loadMinutes]int
	for hour := range 7 {
		tick := noon.Add(time.Duration(hour) * time.Hour)
		for i := range jobs[:600] {
			if minute := int(jobs[i].Due(tick).Sub(l.from) / time.Minute); minute >= 0 && !jobs[i].Due(tick).Before(l.from) && minute < loadMinutes {
				want[minute]++
			}
		}
		if hour > 0 {
			want[hour*60-5] += 2
		}
	}
	if l.spread != want {
		t.Errorf("with jitter %v\nwant %v", l.spread, want)
	}
	plain, most := 0, 0
	for minute, n := range l.plain {
		if most = max(most, l.spread[minute]); n != 0 && n != 602 || n != 0 && (minute+5)%60 != 0 {
			t.Errorf("%d starts in minute %d", n, minute)
		}
		plain += n
	}
	if plain != 6*602 || most > 60 {
		t.Errorf("%d starts without jitter, at most %d in a minute with it", plain, most)
	}
	b := l.body(time.UTC)
	if b.Most != 602 || len(b.Pictures) != 2 || b.Pictures[0].Text != "at most 602 starts a minute, first at 13:00 UTC" || strings.Count(b.Pictures[0].D, "M") != 6 {
		t.Errorf("%d, %+v", b.Most, b.Pictures)
	}
	if l := coming(t.Context(), jobs[600:], now, noon).load; l.plain != l.spread || len(l.body(time.UTC).Pictures) != 1 {
		t.Error("two pictures without jitter")
	}
}
