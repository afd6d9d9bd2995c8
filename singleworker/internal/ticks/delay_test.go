package ticks_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/job"
)

// delayed is a view of a job whose tick of 10:01 is due at 10:01:29.371 and whose ticks come each
// minute.
func delayed(t *testing.T, s situation) ticks.View {
	t.Helper()
	s.policy.Jitter = 50 * time.Second
	v := s.view(t)
	v.Group, v.Slot = "group", "job"
	return v
}

// A tick with jitter is due, late and past by the time to which it is delayed, and stays the tick
// that it is.
func TestDelay(t *testing.T) {
	t.Parallel()
	skip := job.MisfireSkip
	quiet := delayed(t, situation{through: "10:00", now: "10:01"})
	due := quiet.Due(at(t, "10:01"))
	if wait := due.Sub(at(t, "10:01")); wait <= 5*time.Second || wait >= 50*time.Second {
		t.Fatalf("10:01 is due %v later: the rest of this test takes it for more than 5 s", wait)
	}
	when := func(v ticks.View, now time.Time) ticks.View {
		v.Now = now
		return v
	}
	if plan := ticks.Next(when(quiet, due.Add(-time.Millisecond))); plan.Change || !plan.Wake.Equal(due) {
		t.Errorf("before it is due: %+v, want to wake at %v", plan, due)
	}
	wantPlan(t, when(quiet, due), "run 10:01#1; through 10:01")
	late := delayed(t, situation{policy: ticks.Policy{Misfire: skip}, through: "10:00", now: "10:01"})
	wantPlan(t, when(late, due.Add(time.Second)), "run 10:01#1; through 10:01")
	wantPlan(t, when(late, due.Add(1001*time.Millisecond)), "missed(stalled) 10:01; through 10:01")

	// A pause that begins before the tick is due covers it; one that is over by then does not.
	paused := when(late, due.Add(time.Millisecond))
	paused.Paused.Since, paused.Paused.Until = due.Add(-time.Second).UnixMilli(), due.Add(time.Millisecond).UnixMilli()
	wantPlan(t, paused, "skipped(paused) 10:01; through 10:01")
	over := when(late, due.Add(time.Millisecond))
	over.Paused.Since, over.Paused.Until = at(t, "10:00").UnixMilli(), due.Add(-time.Second).UnixMilli()
	wantPlan(t, over, "run 10:01#1; through 10:01")

	// A run that ended before the tick was due was not in its way; one that ended after that was.
	ran := func(ended time.Time) ticks.View {
		last := run(t, history.StateOK, "10:00", me, "10:00", "10:00")
		last.Ended = ended.UnixMilli()
		return when(delayed(t, situation{last: last, through: "10:00", now: "10:01"}), due.Add(10*time.Millisecond))
	}
	wantPlan(t, ran(due.Add(-time.Second)), "run 10:01#1; through 10:01")
	wantPlan(t, ran(due.Add(time.Millisecond)), "skipped(overlap) 10:01; through 10:01")

	// An owner that has the job since it was due missed it for another reason than one that had it.
	owned := when(late, due.Add(5*time.Second))
	owned.OwnedSince = due.Add(time.Second)
	wantPlan(t, owned, "missed(no_owner) 10:01; through 10:01")
	owned.OwnedSince = due.Add(-time.Second)
	wantPlan(t, owned, "missed(stalled) 10:01; through 10:01")

	r := quiet.Record
	for _, ask := range []struct {
		what string
		got  time.Time
		want time.Time
	}{
		{"next due", ticks.NextDue(quiet.Job, r, at(t, "10:01")), due},
		{"next due, of a tick that has come", ticks.NextDue(quiet.Job, r, due.Add(-time.Millisecond)), due},
		{"unclaimed before it is due", ticks.Unclaimed(quiet.Job, r, nil, due.Add(-time.Millisecond)), time.Time{}},
		{"unclaimed", ticks.Unclaimed(quiet.Job, r, nil, due.Add(2*time.Second)), due},
	} {
		if !ask.got.Equal(ask.want) {
			t.Errorf("%s: %v, want %v", ask.what, ask.got, ask.want)
		}
	}
	alarm := due.Add(time.Minute)
	if tick, again := ticks.Overdue(quiet.Job, r, false, alarm.Add(-time.Millisecond)); !tick.IsZero() || !again.Equal(alarm) {
		t.Errorf("overdue %v, look again %v, want it at %v", tick, again, alarm)
	}
	if tick, _ := ticks.Overdue(quiet.Job, r, false, alarm); !tick.Equal(at(t, "10:01")) {
		t.Errorf("overdue %v, want 10:01", tick)
	}
	if ticks.Soon(quiet.Job, due.Add(-3*time.Second)) || !ticks.Soon(quiet.Job, due.Add(-time.Second)) || !ticks.Soon(quiet.Job, due.Add(50*time.Millisecond)) {
		t.Error("a tick is soon by when it is due")
	}
}

// Ticks are due in their order, each before the next one comes, whatever the jitter.
func TestDelaysKeepTheOrder(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"* * * * * ?", "*/7 * * * *", "@every 90s", "0 30 1,2 * * ?"} {
		j := ticks.Job{Schedule: schedule(t, text), Policy: &ticks.Policy{Jitter: time.Hour}, Group: "group", Slot: "job"}
		tick := at(t, "09:00")
		for range 500 {
			next := j.Schedule.Next(tick)
			if due := j.Due(next); due.Before(next) || !due.Before(j.Schedule.Next(next)) || due.Sub(next) >= time.Hour {
				t.Fatalf("%s: %v is due at %v", text, next, due)
			}
			if j.Due(next) != j.Of("job", nil).Due(next) {
				t.Fatal("it is due at two times")
			}
			tick = next
		}
	}
}

// Shards that wait for BeforeTick are delayed alike, others each by itself. So are instances.
func TestDelaysOfSlots(t *testing.T) {
	t.Parallel()
	tick := at(t, "10:00")
	due := func(gated bool, slot string) time.Time {
		j := ticks.Job{Schedule: schedule(t, "@daily"), Policy: &ticks.Policy{Jitter: time.Hour}, Group: "group", Gated: gated}
		return j.Of(slot, nil).Due(tick)
	}
	alike := func(gated bool, a, b string) bool { return due(gated, a).Equal(due(gated, b)) }
	if !alike(true, "job[0]", "job[7]") || alike(false, "job[0]", "job[7]") || alike(false, "job/a", "job/b") {
		t.Error("slots are delayed alike, or those with BeforeTick are not")
	}
}

// TestSpread: ten thousand jobs at midnight with a jitter of ten seconds begin evenly: in 99 % of
// the seconds of a hundred days, their number is within 15 % of even.
func TestSpread(t *testing.T) {
	t.Parallel()
	const jobs, seconds, days, within = 10_000, 10, 100, 0.15
	even := float64(jobs) / seconds
	j := ticks.Job{Schedule: schedule(t, "@daily"), Policy: &ticks.Policy{Jitter: seconds * time.Second}, Group: "billing"}
	var off []float64
	midnight := at(t, "00:00")
	for range days {
		midnight = j.Schedule.Next(midnight)
		var starts [seconds]int
		for k := range jobs {
			starts[j.Of(fmt.Sprintf("job-%d", k), nil).Due(midnight).Sub(midnight)/time.Second]++
		}
		for _, n := range starts {
			off = append(off, math.Abs(float64(n)-even)/even)
		}
	}
	slices.Sort(off)
	p99, most := off[len(off)*99/100], off[len(off)-1]
	t.Logf("off from even: %.1f %% at p99, %.1f %% at most", 100*p99, 100*most)
	if p99 > within {
		t.Errorf("off from even by %.1f %% at p99", 100*p99)
	}
}
