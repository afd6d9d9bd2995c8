package lease

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestPast: bounds of the time at which a transaction was applied.
func TestPast(t *testing.T) {
	t.Parallel()
	const apart, keep = 10, 100
	hear := func(p *past, mono time.Duration, zxid int64) { p.hear(mono, zxid, apart, keep) }
	for name, tt := range map[string]struct {
		heard     [][2]int // when, and what
		zxid, now int
		want      time.Duration
	}{
		"nothing heard":                               {nil, 5, 50, 50},
		"heard of itself":                             {[][2]int{{20, 5}}, 5, 50, 20},
		"heard of a later one":                        {[][2]int{{20, 7}}, 5, 50, 20},
		"heard of an earlier one only":                {[][2]int{{20, 4}}, 5, 50, 50},
		"the first later one counts":                  {[][2]int{{20, 4}, {30, 6}, {40, 9}}, 5, 50, 30},
		"an old reading says nothing new":             {[][2]int{{20, 7}, {40, 5}}, 5, 50, 20},
		"moments close together are left out":         {[][2]int{{20, 4}, {29, 6}, {40, 9}}, 5, 50, 40},
		"what is kept is enough for long ago":         {[][2]int{{20, 4}, {40, 6}, {60, 8}, {161, 9}}, 5, 170, 60},
		"numbers that come back later are not so old": {[][2]int{{20, 9}, {-1, 0}, {30, 3}}, 5, 50, 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p past
			for _, at := range tt.heard {
				if at[0] < 0 {
					p.forget()
					continue
				}
				hear(&p, time.Duration(at[0]), int64(at[1]))
			}
			if got := p.before(time.Duration(tt.now), int64(tt.zxid)); got != tt.want {
				t.Errorf("applied before %d, want %d", got, tt.want)
			}
		})
	}
}

// TestPastNeverOverestimatesAge: whatever is heard in any order, no transaction counts as older
// than the first moment at which it or a later one was heard of, and the memory is bounded.
func TestPastNeverOverestimatesAge(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var p past
		first := make(map[int64]time.Duration) // what an unbounded memory would return
		now, zxid := time.Duration(0), int64(0)
		for range 300 {
			now += time.Duration(r.IntN(8))
			zxid += r.Int64N(3)
			old := max(0, zxid-r.Int64N(20))
			p.hear(now, old, 10, 100)
			for z := old; z >= 0; z-- {
				if _, known := first[z]; known {
					break
				}
				first[z] = now
			}
			asked := r.Int64N(zxid + 1)
			truth, known := first[asked]
			if !known {
				truth = now
			}
			if got := p.before(now, asked); got < truth || got > now {
				t.Fatalf("at %d: %d applied before %d, it was heard of at %d", now, asked, got, truth)
			}
			if n := len(p.moments); n > 13 {
				t.Fatalf("%d moments for 10 periods", n)
			}
		}
	}
}

// TestRecoveredOwnerIsNotFree: a slot whose owner was silent but has recovered does not count as
// having been free.
func TestRecoveredOwnerIsNotFree(t *testing.T) {
	t.Parallel()
	p := newPeers(Config{Self: Member{"me", "me1"}})
	p.session, p.live = 4*time.Second, map[string]Peer{"b": {Incarnation: "b1"}}
	s := &slot{
		known: true, freeSince: never,
		rec: Record{Exists: true, Owner: Member{"b", "b1"}, Beats: []Beat{{SID: "b"}}},
	}
	looks := func(at, since time.Duration, silent bool, free time.Duration) {
		t.Helper()
		s.readMono, s.beatSince = at, beatTimes{sid: "b", at: since, known: true}
		p.signs[s.rec.Owner] = &life{Life: Life{Exists: true}, since: since, readMono: at}
		if got := s.takeable(Instant{Mono: at}, p); got != silent || s.freeSince != free {
			t.Errorf("at %v, its heartbeat of %v: takeable %v, free since %v; want %v, %v", at, since, got, s.freeSince, silent, free)
		}
	}
	looks(7*time.Second, 0, true, 7*time.Second)
	looks(8*time.Second, 0, true, 7*time.Second)
	looks(9*time.Second, 8*time.Second, false, never)
	looks(20*time.Second, 8*time.Second, true, 20*time.Second)
}

// TestObserveAllocatesNothing is not parallel, to count its own allocations only: there are
// thousands of slots, and nearly all have one heartbeat.
func TestObserveAllocatesNothing(t *testing.T) {
	p := newPeers(Config{Self: Member{"me", "me1"}})
	p.session = 4 * time.Second
	s := &slot{freeSince: never}
	rec := Record{Exists: true, Version: 1, Mzxid: 7, Owner: Member{"b", "b1"}, Beats: []Beat{{SID: "b", Version: 3, Mzxid: 9}}}
	s.observe(Instant{Mono: time.Second}, 1, p, rec)
	if n := testing.AllocsPerRun(100, func() { s.observe(Instant{Mono: time.Second}, 1, p, rec) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if at, known := s.beatSince.of("b"); at != time.Second || !known {
		t.Errorf("its heartbeat: since %v, known %v", at, known)
	}
}
