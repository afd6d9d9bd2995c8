package cronexpr_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
)

// The common times of schedules, each of which changes at times, are those that each of them has in
// its turn, from both sides.
func TestCommon(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	begin := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
	end := begin.Add(72 * time.Hour)
	parse := func(text string) *cronexpr.Schedule {
		s, err := cronexpr.Parse(text, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	texts := []string{"*/6 * * * *", "30 */2 * * *", "@every 90s", "@hourly", "0 3 * * *", "@every 20m"}
	some := func() time.Time { return begin.Add(time.Duration(rng.IntN(72*60)) * time.Minute) }
	met := 0
	for range 300 {
		want := map[int64]int{}
		var all []*cronexpr.Schedule
		for range 1 + rng.IntN(3) {
			since := []time.Time{some(), some(), some()}
			slices.SortFunc(since, time.Time.Compare)
			var turns []cronexpr.Turn
			for i := range since {
				turn := cronexpr.Turn{Schedule: parse(texts[rng.IntN(len(texts))]), Since: since[i]}
				until := end
				if i < 2 {
					until = since[i+1]
					if rng.IntN(4) == 0 {
						turn.Schedule = nil
					}
				}
				turns = append(turns, turn)
				for at := turn.Since; turn.Schedule != nil; want[at.Unix()]++ {
					if at = turn.Schedule.Next(at); at.After(until) {
						break
					}
				}
			}
			all = append(all, cronexpr.InTurn(turns...))
		}
		child := parse("@AFTER").Common(all...)
		at := some()
		var next, prev time.Time
		for s, n := range want {
			tick := time.Unix(s, 0)
			if n != len(all) {
				continue
			}
			if tick.After(at) && (next.IsZero() || tick.Before(next)) {
				next = tick
			}
			if tick.Before(at) && tick.After(prev) {
				prev = tick
			}
		}
		if got := child.Next(at); !got.Equal(next) && !(next.IsZero() && got.After(end)) {
			t.Fatalf("after %v comes %v, want %v", at, got, next)
		}
		if got := child.Prev(at); !got.Equal(prev) {
			t.Fatalf("before %v comes %v, want %v", at, got, prev)
		}
		if !prev.IsZero() {
			met++
		}
		if !child.After() || child.String() != "@after" || child.Words() != parse("@after").Words() {
			t.Fatalf("it is %v: %s", child, child.Words())
		}
	}
	if met < 100 {
		t.Errorf("%d of 300 have a time in common", met)
	}
}

// Schedules that never meet have no common time, and to see that takes no hour.
func TestCommonNever(t *testing.T) {
	t.Parallel()
	odd, err := cronexpr.Parse("1/2 * * * * ?", nil)
	even, err2 := cronexpr.Parse("0/2 * * * * ?", nil)
	open, err3 := cronexpr.Parse("@after", nil)
	if err != nil || err2 != nil || err3 != nil {
		t.Fatal(err, err2, err3)
	}
	now := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
	both := open.Common(odd, even)
	if next, prev := both.Next(now), both.Prev(now); !next.IsZero() || !prev.IsZero() || !both.Ended(now) {
		t.Errorf("next %v, prev %v", next, prev)
	}
	if !open.Next(now).IsZero() || open.Ended(now) || open.Manual() || open.Within(now, now) != open {
		t.Errorf("%v has times, although it is not known of which others", open)
	}
	if _, err := cronexpr.Parse("@after load", nil); err == nil {
		t.Error("@after takes a name")
	}
}
