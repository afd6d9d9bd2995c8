package election_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
)

// TestElectionUnderFaults makes contenders start, stop, die, stall, lose connections and replies,
// and have their clocks set at random, and checks these properties:
//
//	(1) At no instant do two of them report that they lead.
//	(2) No term has a lower token than an earlier one, or the token of another contender.
//	(3) A contender that begins a term has the oldest of all nodes.
//	(4) No contender begins a term while it serves another.
//	(5) When Run has returned nil, the contender has no node, even if its session is alive.
//	(6) After the faults, every contender has one node, and the first leads. A session timeout
//	    and 500 ms after a leader was killed, or 50 ms after it left, the next leads.
//
// A breach of (1) starts with a term, so all contenders are checked whenever a term begins. They
// are also checked every few milliseconds, in case one leads without a term.
func TestElectionUnderFaults(t *testing.T) {
	t.Parallel()
	simkit.Search(simkit.Seeds(seeds), func(seed uint64) bool {
		found := simulate(t, seed, stale)
		if found != "" {
			t.Errorf("seed %d:\n%s", seed, found)
		}
		return found != ""
	})
}

const (
	seeds   = 120
	minutes = 4 // virtual, of each seed
)

// simulate runs one seed. It returns the violations and the history, or "".
func simulate(t *testing.T, seed uint64, with func(*world, string) setup) (found string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := &chaos{world: w, rng: rand.New(rand.NewPCG(seed, 0))}
		c.setup = func(name string) setup { return with(w, name) }
		stop := make(chan struct{})
		go func() {
			rng := rand.New(rand.NewPCG(seed, 1))
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(rng.Int64N(int64(40 * time.Millisecond)))):
					w.judge()
				}
			}
		}()
		for range 1 + c.rng.IntN(4) {
			c.oneMore()
		}
		for time.Since(w.began) < minutes*time.Minute && !w.broken() {
			time.Sleep(c.upTo(8 * time.Second))
			c.fault()
		}
		if !w.broken() {
			c.drill()
		}
		close(stop)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.violations) > 0 {
			found = strings.Join(w.violations, "\n") + "\n" + strings.Join(w.history, "\n")
		}
	})
	return found
}

func (w *world) broken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.violations) > 0
}

// drill checks property (6) after the faults.
func (c *chaos) drill() {
	c.notef("drill")
	time.Sleep(30 * time.Second) // the last faults end
	// Replace all contenders by three that serve until their terms end.
	for _, old := range c.live() {
		if err := old.stop(); err != nil {
			c.violatef("(6) Run of %s: %v", old.name, err)
		}
	}
	for k := range 3 {
		c.start(fmt.Sprintf("d%d", k), c.setup("d"))
		time.Sleep(100 * time.Millisecond)
	}
	c.wantQueue(3)
	c.live()[0].kill()
	time.Sleep(sessionTimeout + 500*time.Millisecond)
	c.wantQueue(2)
	c.live()[0].leave()
	time.Sleep(50 * time.Millisecond)
	c.wantQueue(1)
}

// wantQueue expects one node of each of n live contenders, of which the first leads.
func (c *chaos) wantQueue(n int) {
	leaders, queued, live := c.leaders(), c.queued(), c.live()
	if len(queued) != n || len(live) != n || len(leaders) != 1 || leaders[0] != live[0].name || queued[0] != leaders[0] {
		c.violatef("(6) live %d, queue %v, leaders %v; want %d, of which the first leads", len(live), queued, leaders, n)
	}
}

// The random faults detect these breaches of the protocol within a bounded number of seeds, about
// ten times as many as needed.
func TestBreachesAreFound(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		want   string
		within int
		with   func(*world, string) setup
	}{
		"a lease that outlives the session": {"(1)", 40, longLease},
		"nobody is ahead":                   {"(1)", 10, blind},
		"numbers that go back as tokens":    {"(2)", 10, backwards},
		"a node is left behind":             {"(5)", 20, messy},
		"no watch":                          {"(6)", 10, deaf},
		"a lost creation is not looked for": {"(5)", 200, careless},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed, caught := simkit.Search(tt.within, func(seed uint64) bool {
				return strings.Contains(simulate(t, seed, tt.with), tt.want)
			})
			if !caught {
				t.Errorf("no breach of %s within %d seeds", tt.want, tt.within)
			}
			t.Logf("seed %d", seed)
		})
	}
}
