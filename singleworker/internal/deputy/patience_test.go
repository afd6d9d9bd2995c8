package deputy_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// The jobs of a dead owner that nobody relieves are run late when its session is over. Their late
// claims do not make a deputy patient.
func TestClaimsAfterASessionMakeNobodyPatient(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Grace = grace
		submit(g, 60, "0,12 * * * * ?")
		a, b, c := start(g, "a", nil), start(g, "b", nil), start(g, "c", nil)
		limit := func(on bool) {
			for _, i := range []*instance{b, c} {
				i.Lock()
				i.AtLimit = on
				i.Unlock()
			}
		}
		until(119 * time.Second)
		limit(true) // which relieves nobody
		a.die()
		until(131*time.Second + 500*time.Millisecond)
		limit(false)
		zxid, lost := g.Server.Zxid(), b.Slots()
		if n := len(lost) + len(c.Slots()); n != 60 {
			g.T.Fatalf("%d slots are owned by b or c, want 60", n)
		}
		b.die()
		until(134 * time.Second)
		wantTaken(g, takes(g, zxid), lost, 132*time.Second+grace)
	})
}

// A single run may be late for its own reasons. It does not make the group late.
func TestOneLateRunMakesNobodyPatient(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Grace = grace
		submit(g, 8, "* * * * * ?")
		var slow atomic.Pointer[string]
		var dead atomic.Bool
		a := start(g, "a", func(slot string) time.Duration {
			switch of := slow.Load(); {
			case dead.Load():
				return never
			case of != nil && *of == slot:
				return 200 * time.Millisecond
			}
			return 0
		})
		start(g, "b", nil)
		until(30 * time.Second)
		lost := a.Slots()
		slow.Store(&lost[0])
		until(59*time.Second + 900*time.Millisecond)
		zxid := g.Server.Zxid()
		dead.Store(true)
		until(62 * time.Second)
		if len(lost) != 4 {
			g.T.Errorf("a has owned %q, want four", lost)
		}
		wantTaken(g, takes(g, zxid), lost, time.Minute+grace)
	})
}

// A run that this instance has claimed late makes it patient. One that was missed, and is run by
// the job's policy, does not.
func TestMissedRunMakesNobodyPatient(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		late time.Duration
		want bool // the owner is relieved a grace after the tick
	}{
		"missed": {11 * time.Second, true}, "late": {time.Second, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Grace = grace
				g.Submit("job")
				a := start(g, "a", nil)
				roomtest.Pass(2 * roomtest.SyncPeriod) // a takes the job
				b := start(g, "b", nil)
				until(119 * time.Second)
				lost, zxid := a.Slots(), g.Server.Zxid() // b owns nothing
				a.die()
				b.Do(func() { b.deputy.Claimed(test.late) })
				until(120*time.Second + 2*grace)
				if len(lost) != 1 {
					g.T.Errorf("a has owned %q, want the job", lost)
				}
				if !test.want {
					lost = nil
				}
				wantTaken(g, takes(g, zxid), lost, 2*time.Minute+grace)
			})
		})
	}
}

// A deputy whose readings take long knows that the owner's requests may take as long.
func TestSlowReadingsMakePatient(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Grace = grace
		g.SubmitSpec("job", zkrec.Spec{Job: jobs.Job{Schedule: "* * * * * ?"}, Since: time.Now().UnixMilli()})
		var dead atomic.Bool
		start(g, "a", func(string) time.Duration {
			if dead.Load() {
				return never
			}
			return 0
		})
		roomtest.Pass(2 * roomtest.SyncPeriod) // a takes the job
		start(g, "b", nil)
		const slow = 200 * time.Millisecond
		g.Server.ControlKeep(zkdev.OpMultiRead, func(r *zkdev.Request) zkdev.Action {
			if r.Client != "b" || !strings.HasSuffix(r.Ops[0].Path, "/tick") {
				return zkdev.Pass()
			}
			return zkdev.DelayReply(slow)
		})
		until(59*time.Second + 900*time.Millisecond)
		zxid := g.Server.Zxid()
		dead.Store(true)
		until(62 * time.Second)
		found := takes(g, zxid)
		if len(found) != 1 || found[0].at < time.Minute+3*slow || found[0].at > time.Minute+2*3*slow {
			g.T.Errorf("taken %+v, want one slot, and not before %v have passed since its tick", found, 3*slow)
		}
	})
}

// An instance that was busy when it should have looked was late itself, as others on its machine
// may have been: it gives them time.
func TestBusyDeputyIsPatient(t *testing.T) {
	t.Parallel()
	const busy, late = 600 * time.Millisecond, 900 * time.Millisecond // after the tick
	for what, test := range map[string]struct {
		claims time.Duration
		want   []taken
	}{
		"the owner was late, too": {late, nil},
		"the owner is dead":       {never, []taken{{"job", "b", "a", 2*time.Minute + 3*(busy-grace)}}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Grace = grace
				g.Submit("job")
				var on atomic.Bool
				start(g, "a", func(string) time.Duration {
					if on.Load() {
						return test.claims
					}
					return 0
				})
				roomtest.Pass(2 * roomtest.SyncPeriod) // a takes the job
				b := start(g, "b", nil)
				until(119 * time.Second)
				zxid := g.Server.Zxid()
				on.Store(true)
				until(2 * time.Minute)
				b.Post(func() { <-time.After(busy) })
				until(122 * time.Second)
				wantTakes(g, zxid, test.want...)
			})
		})
	}
}

// After a restore of ZooKeeper its transactions have numbers that were used before. What an owner
// claims then shows that it lives, as it did before.
func TestLateOwnerAfterARestore(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Grace = grace
		submit(g, 8, "0 * * * * ?")
		var prompt atomic.Pointer[string]
		a := start(g, "a", func(slot string) time.Duration {
			if of := prompt.Load(); of == nil || *of == slot {
				return 0
			}
			return grace * 3 / 2
		})
		start(g, "b", nil)
		until(30 * time.Second)
		prompt.Store(&a.Slots()[0])
		backup := g.Server.Snapshot()
		for range 1000 {
			g.Set(g.Tree.Instances(), nil)
		}
		for minute := range 2 {
			zxid := g.Server.Zxid()
			until(time.Duration(minute)*time.Minute + 70*time.Second)
			wantTaken(g, takes(g, zxid), nil, 0)
			if len(a.Slots()) < 2 {
				g.T.Errorf("a owns %q: none of it is late", a.Slots())
			}
			if err := g.Server.Reset(backup); err != nil {
				g.T.Fatal(err)
			}
		}
	})
}
