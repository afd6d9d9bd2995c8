package cronexpr_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
)

// A window leaves a schedule the times that are in it, its ends included, from both sides.
func TestWithin(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	begin := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"*/7 * * * *", "30 1,2 * * *", "@every 90s", "0 0 12 ? * SUN"} {
		whole, err := cronexpr.Parse(text, berlin)
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			some := func() time.Time { return begin.Add(time.Duration(rng.IntN(72*60)) * time.Minute) }
			from, to, at := some(), some(), some()
			in := whole.Within(from, to)
			want, last := time.Time{}, time.Time{}
			for tick := whole.Next(begin.Add(-1)); tick.Before(begin.Add(96 * time.Hour)); tick = whole.Next(tick) {
				if tick.Before(from) || tick.After(to) {
					continue
				}
				if tick.After(at) && want.IsZero() {
					want = tick
				}
				if tick.Before(at) {
					last = tick
				}
			}
			if got := in.Next(at); !got.Equal(want) {
				t.Fatalf("%s from %v to %v: after %v comes %v, want %v", text, from, to, at, got, want)
			}
			if got := in.Prev(at); !got.Equal(last) {
				t.Fatalf("%s from %v to %v: before %v comes %v, want %v", text, from, to, at, got, last)
			}
			if in.String() != whole.String() || in.Location() != berlin || in.Ended(begin) != in.Next(begin).IsZero() {
				t.Fatalf("%v in %v", in, in.Location())
			}
		}
		if whole.Within(time.Time{}, time.Time{}) != whole || !whole.Within(begin, time.Time{}).Next(time.Time{}).Equal(whole.Next(begin.Add(-1))) {
			t.Errorf("%s: no bound is one", text)
		}
	}
	always, err := cronexpr.Parse("@always", time.UTC)
	if err != nil || always.Within(begin, begin) != always || !always.Within(begin, begin).Always() {
		t.Errorf("%v, %v", always, err)
	}
}
