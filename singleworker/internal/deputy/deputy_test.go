package deputy_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Each slot's tick record is read by its first deputy alone once per tick, with all others that are
// due then. The next deputy of a group of three reads it a few times a minute.
func TestLooksOncePerTick(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Grace = grace
				const slots, seconds = 50, 30
				submit(g, slots, "* * * * * ?")
				for k := range n {
					start(g, fmt.Sprint("i", k), nil)
				}
				until(time.Minute - time.Millisecond)
				zxid := g.Server.Zxid()
				r := countReads(g)
				until(time.Minute + seconds*time.Second - time.Millisecond)
				wantTakes(g, zxid)
				for slot := range slots {
					job := fmt.Sprintf("job%02d", slot)
					first, others := 0, 0
					for _, slots := range r.by {
						sum := 0
						for second, n := range slots[job] {
							if sum += n; n > 1 {
								g.T.Errorf("%s is read %d times by one instance in second %d", job, n, second)
							}
						}
						first, others = max(first, sum), others+sum
					}
					if others -= first; first != seconds || others > (n-2)*3 {
						g.T.Errorf("%s is read %d times by its first deputy and %d times by others, want %d and at most %d", job, first, others, seconds, (n-2)*3)
					}
				}
				for client, seconds := range r.requests {
					for second, n := range seconds {
						if n > 2 {
							g.T.Errorf("%s makes %d requests in second %d", client, n, second)
						}
					}
				}
			})
		})
	}
}

// Looks at many slots cost few requests: one for each 256 of them.
func TestLooksAtManySlotsInFewRequests(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Grace = grace
		const slots = 300
		submit(g, slots, "0 * * * * ?")
		start(g, "a", nil)
		start(g, "b", nil)
		until(119 * time.Second)
		r := countReads(g)
		until(122 * time.Second)
		requests, read := 0, 0
		for _, seconds := range r.requests {
			for _, n := range seconds {
				requests += n
			}
		}
		for _, slots := range r.by {
			read += len(slots)
		}
		if read != slots || requests > 2 || r.largest > 256 {
			g.T.Errorf("%d slots are read in %d requests of up to %d, want %d in 2 of up to 256", read, requests, r.largest, slots)
		}
	})
}

// An instance that is cut off loses its jobs to their first deputies, a grace after their next
// tick.
func TestJobsOfADeadOwnerAreTaken(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Grace = grace
		submit(g, 12, "0 * * * * ?")
		a := start(g, "a", nil)
		start(g, "b", nil)
		start(g, "c", nil)
		until(119 * time.Second)
		lost := a.Slots()
		zxid := g.Server.Zxid()
		a.die()
		until(122 * time.Second)
		found := takes(g, zxid)
		wantTaken(g, found, lost, 2*time.Minute+grace)
		by := make(map[string]int)
		for _, take := range found {
			if by[take.by]++; take.from != "a" {
				g.T.Errorf("%+v, want it taken from a", take)
			}
			record := recordOf(g, take.slot)
			if record.Tick != roomtest.Midnight.Add(2*time.Minute).UnixMilli() || record.SID != take.by || record.TakenFrom != "a" {
				g.T.Errorf("%s: last run %+v, want that of 00:02, by %s", take.slot, record.Run, take.by)
			}
		}
		if len(lost) != 4 || by["b"] == 0 || by["c"] == 0 {
			g.T.Errorf("of %q, taken by %v: want some by each of the others", lost, by)
		}
	})
}

// Hundreds of jobs, which are looked at 256 at a time and taken in several transactions, lose a
// dead owner in the same moment: the takes that are under way do not hold back the next ones.
func TestCrowdOfADeadOwnerIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Grace = grace
		lag := func() time.Duration { return time.Millisecond }
		submit(g, 600, "0 * * * * ?")
		a := start(g, "a", nil)
		for _, name := range []string{"b", "c"} {
			i := newInstance(g, name, nil)
			i.Client.SetLatency(func() zkdev.Latency { return zkdev.Latency{There: lag, Back: lag} })
			i.Start()
		}
		until(119 * time.Second)
		lost, zxid := a.Slots(), g.Server.Zxid()
		a.die()
		readings := make(map[string]int)
		g.Server.ControlKeep(zkdev.OpMultiRead, func(req *zkdev.Request) zkdev.Action {
			if !strings.HasSuffix(req.Ops[0].Path, "/tick") {
				return zkdev.Pass()
			}
			if readings[req.Client]++; readings[req.Client] == 2 { // the takes after the first one are under way then
				return zkdev.DelayReply(time.Millisecond)
			}
			return zkdev.Pass()
		})
		until(122 * time.Second)
		found := takes(g, zxid)
		for _, take := range found {
			if late := take.at - 2*time.Minute - grace; late > 100*time.Millisecond {
				g.T.Errorf("%s was taken %v after the grace", take.slot, late)
			}
		}
		if len(found) != len(lost) || len(lost) != 200 {
			g.T.Errorf("%d of %d slots were taken, want 200", len(found), len(lost))
		}
	})
}

// A deputy whose reading fails repeats it after a grace, and does not wait for the next tick.
func TestDeputyReadsAgain(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		fail func(g *roomtest.Group)
		want time.Duration // after the tick
	}{
		"the connection breaks": {func(g *roomtest.Group) {
			g.Server.Control(zkdev.OpMultiRead, func(*zkdev.Request) zkdev.Action { return zkdev.CutBefore() })
		}, grace}, // the next connection reads again
		"the nodes cannot be read": {func(g *roomtest.Group) {
			refused := make(map[string]bool)
			g.Server.ControlKeep(zkdev.OpGetData, func(req *zkdev.Request) zkdev.Action {
				if !strings.HasSuffix(req.Path, "/tick") || refused[req.Path] {
					return zkdev.Pass()
				}
				refused[req.Path] = true
				return zkdev.Refuse(zkdev.NoAuth)
			})
		}, 2 * grace},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Grace = grace
				submit(g, 8, "0 * * * * ?")
				a := start(g, "a", nil)
				start(g, "b", nil)
				until(119 * time.Second)
				lost, zxid := a.Slots(), g.Server.Zxid()
				a.die()
				test.fail(g)
				until(123 * time.Second)
				wantTaken(g, takes(g, zxid), lost, 2*time.Minute+test.want)
			})
		})
	}
}

// wantTaken expects that slots were taken once each, at a time after midnight.
func wantTaken(g *roomtest.Group, found []taken, slots []string, at time.Duration) {
	g.T.Helper()
	var got []string
	for _, take := range found {
		got = append(got, take.slot)
		if late := take.at - at; late < 0 || late > 10*time.Millisecond {
			g.T.Errorf("%s was taken at %v, want %v", take.slot, take.at, at)
		}
	}
	if slices.Sort(got); !slices.Equal(got, slots) {
		g.T.Errorf("taken %q, want %q", got, slots)
	}
}

func recordOf(g *roomtest.Group, slot string) zkrec.Tick {
	g.T.Helper()
	data, stat, _ := g.Get(g.Tree.Tick(slot))
	record, err := zkrec.ParseTick(data, stat.Mtime)
	if err != nil {
		g.T.Error(err)
	}
	return record
}

// The next deputy follows when the first has died together with the owner, a grace later, however
// seldom it looks while the owner lives.
func TestSecondDeputyFollows(t *testing.T) {
	t.Parallel()
	for _, schedule := range []string{"0 * * * * ?", "0/10 * * * * ?"} {
		roomtest.InGroup(t, func(g *roomtest.Group) {
			g.Grace = grace
			submit(g, 12, schedule)
			a, b := start(g, "a", nil), start(g, "b", nil)
			c := start(g, "c", nil)
			until(119 * time.Second)
			zxid := g.Server.Zxid()
			var first, second []string // of what the dead own
			c.Do(func() {
				for _, slot := range append(a.Slots(), b.Slots()...) {
					if _, rank, is := c.Owner.Deputy(slot); is && rank == 0 {
						first = append(first, slot)
					} else if is {
						second = append(second, slot)
					}
				}
			})
			slices.Sort(first)
			slices.Sort(second)
			if len(first) == 0 || len(second) == 0 {
				g.T.Fatalf("c is the first deputy of %q and the second of %q", first, second)
			}
			a.die()
			b.die()
			until(122 * time.Second)
			var soon, later []taken
			for _, take := range takes(g, zxid) {
				if slices.Contains(first, take.slot) {
					soon = append(soon, take)
				} else {
					later = append(later, take)
				}
			}
			wantTaken(g, soon, first, 2*time.Minute+grace)
			wantTaken(g, later, second, 2*time.Minute+2*grace)
		})
	}
}

// An instance that joins after a crash reads who was relieved, and does not count on the dead one
// as the first deputy of the slots that the next one loses.
func TestNewcomerKnowsWhoWasRelieved(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Grace = grace
		submit(g, 60, "* * * * * ?")
		a, b, c := start(g, "a", nil), start(g, "b", nil), start(g, "c", nil)
		until(60*time.Second + 900*time.Millisecond)
		a.die()
		until(61*time.Second + 300*time.Millisecond)
		d := start(g, "d", nil)
		until(62*time.Second + 900*time.Millisecond)
		zxid, lost := g.Server.Zxid(), b.Slots()
		isFirst := func(i *instance, slot string) (first bool) {
			i.Do(func() {
				_, rank, is := i.Owner.Deputy(slot)
				first = is && rank == 0
			})
			return first
		}
		for _, slot := range lost {
			if isFirst(c, slot) == isFirst(d, slot) {
				g.T.Errorf("%s has none or two first deputies", slot)
			}
		}
		b.die()
		until(63*time.Second + 900*time.Millisecond)
		wantTaken(g, takes(g, zxid), lost, 63*time.Second+grace)
	})
}

// Owners that are well lose nothing, nor do those that need not run anything.
func TestNothingIsTakenWithoutNeed(t *testing.T) {
	t.Parallel()
	lazy := func(string) time.Duration { return never }
	for what, test := range map[string]struct {
		late  func(string) time.Duration // of a, the owner
		spec  zkrec.Spec
		ahead time.Duration // the clock of b, its deputy
	}{
		"claimed in time":        {nil, zkrec.Spec{Job: jobs.Job{Schedule: "* * * * * ?"}}, 0},
		"claimed within a grace": {func(string) time.Duration { return grace - 50*time.Millisecond }, zkrec.Spec{Job: jobs.Job{Schedule: "* * * * * ?"}}, 0},
		"paused":                 {lazy, zkrec.Spec{Job: jobs.Job{Schedule: "* * * * * ?"}, Switch: zkrec.Switch{Paused: &zkrec.Pause{Since: 1}}}, 0},
		"the deputy's clock is ahead by less than the period": {nil, zkrec.Spec{Job: jobs.Job{Schedule: "*/5 * * * * ?"}}, time.Second},
		"the deputy's clock is ahead by a minute":             {nil, zkrec.Spec{Job: jobs.Job{Schedule: "* * * * * ?"}}, time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Grace = grace
				g.Walls = map[string]wall.Clock{"b": func() time.Duration { return test.ahead }}
				test.spec.Since = time.Now().UnixMilli()
				for _, slot := range []string{"job", "other", "third", "fourth"} {
					g.SubmitSpec(slot, test.spec)
				}
				a := start(g, "a", test.late)
				until(29 * time.Second)
				b := start(g, "b", nil)
				until(time.Minute)
				zxid := g.Server.Zxid()
				if len(a.Slots()) == 0 || len(b.Slots()) == 0 {
					g.T.Fatalf("owned %q and %q", a.Slots(), b.Slots())
				}
				const seconds = 60
				until((60 + seconds) * time.Second)
				wantTakes(g, zxid)
				proofs := 0
				for _, txn := range g.Server.LogAfter(zxid) {
					if txn.Op == zkdev.OpCreate && txn.Code == zkdev.OK {
						proofs++
					}
				}
				if proofs > 2*seconds {
					g.T.Errorf("%d proofs in %d s", proofs, seconds)
				}
			})
		})
	}
}

// An owner that has claimed something since is late, and not dead: it gets another grace.
func TestLateOwnerGetsAnotherGrace(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		others time.Duration // how late the owner claims other runs
		want   time.Duration // after the tick
	}{
		"it claims others": {0, 2 * grace},
		"it claims none":   {never, grace},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Grace = grace
				submit(g, 8, "0 * * * * ?")
				var dead atomic.Pointer[string]
				a := start(g, "a", func(slot string) time.Duration {
					if of := dead.Load(); of == nil || *of != slot {
						return test.others
					}
					return never
				})
				start(g, "b", nil)
				until(119 * time.Second)
				zxid := g.Server.Zxid()
				slots := a.Slots()
				dead.Store(&slots[0])
				if test.others < never {
					slots = slots[:1]
				}
				until(122 * time.Second)
				wantTaken(g, takes(g, zxid), slots, 2*time.Minute+test.want)
			})
		})
	}
}

// An instance that is late itself, may start no run, or has claims that wait for long, takes
// nothing from others.
func TestLateDeputyTakesNothing(t *testing.T) {
	t.Parallel()
	for what, busy := range map[string]func(g *roomtest.Group, b *instance, on *atomic.Bool){
		"its runs are unclaimed": func(_ *roomtest.Group, b *instance, on *atomic.Bool) {
			b.late = func(string) time.Duration {
				if on.Load() {
					return never
				}
				return 0
			}
		},
		"as many runs as may are in progress": func(_ *roomtest.Group, b *instance, on *atomic.Bool) {
			b.Add(roomtest.Room{Turn: func() {
				b.Lock()
				defer b.Unlock()
				b.AtLimit = on.Load()
			}})
		},
		"claims wait for longer than a grace": func(g *roomtest.Group, b *instance, on *atomic.Bool) {
			lag := func() time.Duration { return 50 * time.Millisecond }
			b.Client.SetLatency(func() zkdev.Latency { return zkdev.Latency{There: lag, Back: lag} })
			g.Create("/busy", "")
			large := make([]byte, 300<<10) // one in a transaction, two of which are under way: the last one waits for 400 ms
			pending := 0
			b.Add(roomtest.Room{Turn: func() {
				for ; on.Load() && b.Joined() && pending < 8; pending++ {
					b.Write(session.Claims, []zkconn.Op{zkconn.SetOp("/busy", large, zkconn.AnyVersion)}, func(session.Result) { pending-- })
				}
			}})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Grace = grace
				submit(g, 8, "0 * * * * ?")
				var dead, on atomic.Bool
				start(g, "a", func(string) time.Duration {
					if dead.Load() {
						return never
					}
					return 0
				})
				b := newInstance(g, "b", nil)
				busy(g, b, &on)
				b.Start()
				until(119 * time.Second)
				zxid := g.Server.Zxid()
				dead.Store(true)
				on.Store(true)
				until(124 * time.Second)
				wantTakes(g, zxid)
				on.Store(false)
				until(140 * time.Second) // it has been 5 s late, and waits for longer
				if n := len(takes(g, zxid)); n != 4 {
					g.T.Errorf("%d slots are taken when the deputy is in time again, want 4", n)
				}
			})
		})
	}
}

// A deputy that has been away continues where it would be, and does not take its absence for
// lateness.
func TestDeputyIsBack(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Grace = grace
		submit(g, 8, "0 * * * * ?")
		a, b := start(g, "a", nil), start(g, "b", nil)
		until(119 * time.Second)
		b.Client.Partition()
		until(121 * time.Second)
		b.Client.Heal()
		until(179 * time.Second)
		zxid, slots := g.Server.Zxid(), a.Slots()
		a.die()
		until(182 * time.Second)
		wantTaken(g, takes(g, zxid), slots, 3*time.Minute+grace)
	})
}

// While the group shows that it is late, deputies wait for longer; also jobs that are due more
// often than that lose a dead owner.
func TestGraceGrowsWithLateness(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Grace = grace
		submit(g, 8, "* * * * * ?")
		const late = 400 * time.Millisecond
		var dead atomic.Bool
		a := start(g, "a", func(string) time.Duration {
			if dead.Load() {
				return never
			}
			return late
		})
		start(g, "b", func(string) time.Duration { return late })
		until(59*time.Second + 900*time.Millisecond)
		zxid, slots := g.Server.Zxid(), a.Slots()
		dead.Store(true)
		until(70 * time.Second)
		found := takes(g, zxid)
		var got []string
		for _, take := range found {
			got = append(got, take.slot)
			if after := take.at - time.Minute; after < time.Second || after > 4*late+400*time.Millisecond {
				g.T.Errorf("%s is taken %v after its tick, want more than a second, and at most %v", take.slot, after, 4*late)
			}
		}
		if slices.Sort(got); !slices.Equal(got, slots) {
			g.T.Errorf("taken %q, want %q", got, slots)
		}
	})
}

// A deputy has begun while its clock and ZooKeeper's were an hour ahead, when the tick of one
// o'clock was over by both. They are set back: it looks whether the owner claims that tick.
func TestTickIsLookedAtAgainWhenClocksAreSetBack(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Grace = grace
		submit(g, 4, "0 0 * * * ?")
		a := start(g, "a", func(string) time.Duration { return never })
		until(10 * time.Minute)
		slots := a.Slots()
		var ahead atomic.Int64
		set := func(d time.Duration) {
			ahead.Store(int64(d))
			g.Server.SetClock(d)
		}
		set(time.Hour)
		g.Walls = map[string]wall.Clock{"b": func() time.Duration { return time.Duration(ahead.Load()) }}
		start(g, "b", nil)
		until(20 * time.Minute)
		set(0)
		var theirs []string
		for _, slot := range slots { // some may have been handed over to b
			if slices.Contains(a.Slots(), slot) {
				theirs = append(theirs, slot)
			}
		}
		zxid := g.Server.Zxid()
		until(time.Hour + 5*time.Second)
		wantTaken(g, takes(g, zxid), theirs, time.Hour+grace)
	})
}
