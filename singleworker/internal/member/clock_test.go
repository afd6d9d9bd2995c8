package member_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// clocked starts a member whose clock is that far ahead, and which may be a minute off.
func clocked(g *roomtest.Group, ahead time.Duration) (r *roomtest.Rooms, off *atomic.Int64) {
	off = new(atomic.Int64)
	off.Store(int64(ahead))
	g.Walls = map[string]wall.Clock{"a": func() time.Duration { return time.Duration(off.Load()) }}
	r = g.NewMember(member.Config{ID: "a", Handlers: []string{"job"}, MaxClockOffset: time.Minute})
	r.OnSettled = func() (bool, error) {
		r.Member.SetLoad(0, true)
		r.Member.Clock.Check()
		r.Member.TellState()
		return false, nil
	}
	r.Add(roomtest.Room{Sync: func() {
		r.Member.Clock.Sync()
		r.Member.Publish()
	}})
	r.Start()
	r.Do(func() {})
	return r, off
}

// A member that owns nothing notices soon when its wrong clock is right again, or when ZooKeeper's
// is, although nothing tells that it was set.
func TestWrongClockIsComparedOften(t *testing.T) {
	t.Parallel()
	for _, its := range []bool{true, false} {
		roomtest.InGroup(t, func(g *roomtest.Group) {
			a, off := clocked(g, 0)
			setTo := func(ahead time.Duration) {
				if its {
					off.Store(int64(ahead))
				} else {
					g.Server.SetClock(-ahead)
				}
			}
			setTo(time.Hour)
			a.Do(a.Member.Clock.Compare)
			roomtest.Pass(roomtest.SyncPeriod)
			if r := record(g, "a"); r.State != zkrec.InstanceWrongClock || !r.Closed() {
				g.T.Errorf("its clock is an hour ahead: %+v", r)
			}
			setTo(0)
			roomtest.Pass(3 * roomtest.SyncPeriod)
			if r := record(g, "a"); r.State != zkrec.InstanceActive {
				g.T.Errorf("its clock is right: %+v", r)
			}
			told := roomtest.ToldA[member.ClockChanged](a.Loop)
			if len(told) != 2 || !told[0].Wrong || told[1].Wrong || told[0].Offset.Mid().Round(time.Minute) != time.Hour {
				g.T.Errorf("told %+v, want that it is wrong, and that it is right", told)
			}
		})
	}
}

// A member that may create nodes below the group's nodes, and not change these, compares its clock
// by its own node. It does so as seldom as others if the clock is right.
func TestClockIsComparedWithoutRights(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ahead time.Duration
		state string
	}{{time.Hour, zkrec.InstanceWrongClock}, {0, zkrec.InstanceActive}} {
		roomtest.InGroup(t, func(g *roomtest.Group) {
			g.Remove(g.Tree.Instances())
			cfg := g.Conn(g.Server.Client("admin"))
			cfg.ACL = "world:anyone:crd"
			admin, err := zkconn.Open(cfg, func(zkconn.Event) {})
			if err != nil {
				g.T.Fatal(err)
			}
			defer admin.Close()
			for _, path := range []string{g.Tree.Instances(), g.Tree.Handlers()} {
				if err := admin.EnsureRoot(g.T.Context(), path); err != nil {
					g.T.Fatal(err)
				}
			}
			r, _ := clocked(g, c.ahead)
			roomtest.Pass(2 * roomtest.SyncPeriod)
			r.Do(func() {
				if _, known := r.Server.Offset(); !known {
					g.T.Errorf("%v ahead: nothing is known of it", c.ahead)
				}
			})
			if r := record(g, "a"); r.State != c.state {
				g.T.Errorf("%v ahead: %q, want %q", c.ahead, r.State, c.state)
			}
			_, before, _ := g.Get(g.Tree.Instance("a"))
			roomtest.Pass(10 * 60 * roomtest.SyncPeriod)
			_, after, _ := g.Get(g.Tree.Instance("a"))
			if n := after.Version - before.Version; c.ahead == 0 && (n < 8 || n > 12) {
				g.T.Errorf("written %d times, want ten times", n)
			}
		})
	}
}

// A member that owns nothing and whose clock is right writes once in 60 sync periods, and nothing
// that the others read.
func TestRightClockIsComparedSeldom(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		clocked(g, 90*time.Millisecond)
		writes := make(map[string]int)
		from := len(g.Server.Log())
		roomtest.Pass(10 * 60 * roomtest.SyncPeriod)
		for _, txn := range g.Server.Log()[from:] {
			if txn.Op == zkdev.OpSetData {
				writes[txn.Path]++
			}
		}
		if n := writes[g.Tree.Handlers()]; len(writes) != 1 || n < 8 || n > 12 {
			g.T.Errorf("written: %v; want ten times %s", writes, g.Tree.Handlers())
		}
	})
}

// A published offset changes seldom, however the clock does.
func TestOffsetIsPublishedSeldom(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a, off := clocked(g, 2*time.Second)
		roomtest.Pass(roomtest.SyncPeriod)
		if r := record(g, "a"); time.Duration(r.ClockOffset).Round(100*time.Millisecond) != 2*time.Second || r.ClockBound <= 0 {
			g.T.Errorf("published: %v, give or take %v", time.Duration(r.ClockOffset), time.Duration(r.ClockBound))
		}
		published := func(step time.Duration) int32 { // in 60 sync periods, in each of which it changes so
			_, before, _ := g.Get(g.Tree.Instance("a"))
			for n := range 60 {
				off.Store(int64(2*time.Second + time.Duration(n%2)*step))
				a.Do(a.Member.Clock.Compare)
				roomtest.Pass(roomtest.SyncPeriod)
			}
			_, after, _ := g.Get(g.Tree.Instance("a"))
			return after.Version - before.Version
		}
		if n := published(zkrec.OffsetShown * 9 / 10); n > 0 {
			g.T.Errorf("small changes are published %d times", n)
		}
		if n := published(time.Second); n == 0 || n > 12 {
			g.T.Errorf("published %d times in 60 sync periods", n)
		}
	})
}

// When ZooKeeper's clock, which was the wrong one, is right again, no turn takes one clock's
// measured offset for the other's.
func TestCertainTimeWhileClocksAreSet(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		var members []*roomtest.Rooms
		var known atomic.Int64
		for _, sid := range []string{"a", "b", "c"} {
			r := g.NewMember(member.Config{ID: sid, Handlers: []string{"job"}, MaxClockOffset: time.Minute})
			r.OnSettled = func() (bool, error) {
				r.Member.SetLoad(0, true)
				r.Member.Clock.Check()
				r.Member.TellState()
				return false, nil
			}
			r.Add(roomtest.Room{
				Sync: func() { r.Member.Clock.Sync(); r.Member.Publish() },
				Turn: func() {
					now, is := r.Member.Clock.Certain()
					if is {
						known.Add(1)
					}
					if is && time.Since(now).Abs() > time.Minute {
						g.T.Errorf("%s: %v is certain at %v", sid, now, time.Now())
					}
				},
			})
			r.Start()
			members = append(members, r)
		}
		for _, off := range []time.Duration{0, time.Hour, 0, -time.Hour, 0} {
			g.Server.SetClock(off)
			for range 5 {
				for _, r := range members {
					r.Do(r.Member.Clock.Compare)
				}
				roomtest.Pass(2 * roomtest.SyncPeriod)
			}
		}
		if known.Load() == 0 {
			g.T.Error("nothing was ever certain")
		}
	})
}

// set sets the clock of a member, which compares it.
func set(r *roomtest.Rooms, off *atomic.Int64, ahead time.Duration) {
	off.Store(int64(ahead))
	r.Do(r.Member.Clock.Compare)
	r.Do(func() {})
}

// A clock that was wrong is right again when it is within the limit by a tenth of that, so that one
// at the limit does not close and open its instance with each comparison.
func TestClockAtTheLimitStaysWrong(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a, off := clocked(g, 0)
		for _, step := range []struct {
			ahead time.Duration
			wrong bool
		}{
			{58 * time.Second, false}, {62 * time.Second, true}, {58 * time.Second, true}, {53 * time.Second, false},
			{-58 * time.Second, false}, {-62 * time.Second, true}, {-58 * time.Second, true}, {-53 * time.Second, false},
		} {
			set(a, off, step.ahead)
			if r := record(g, "a"); (r.State == zkrec.InstanceWrongClock) != step.wrong {
				g.T.Errorf("its clock is %v ahead: %s, want it wrong: %v", step.ahead, r.State, step.wrong)
			}
		}
	})
}

// A wrong clock that leaps is right again only when a comparison has shown so: until then it may be
// anywhere between.
func TestWrongClockThatLeapsStaysWrong(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a, off := clocked(g, 0)
		set(a, off, 62*time.Second)
		off.Store(int64(-62 * time.Second))
		a.Do(func() {})
		set(a, off, -62*time.Second)
		if told := roomtest.ToldA[member.ClockChanged](a.Loop); len(told) != 1 || !told[0].Wrong {
			g.T.Errorf("told %+v, want once that it is wrong", told)
		}
	})
}

// others adds instances to a member's group whose clocks are so far ahead, as they publish.
func others(g *roomtest.Group, r *roomtest.Rooms, ahead ...time.Duration) {
	g.T.Helper()
	for i, off := range ahead {
		sid := fmt.Sprint("other", i)
		r := zkrec.Instance{
			Incarnation: sid + "-1", State: zkrec.InstanceActive, ClockOffset: zkrec.Duration(off), ClockBound: zkrec.Duration(time.Millisecond),
		}
		g.Multi(zkconn.CreateEphemeralOp(g.Tree.Instance(sid), r.Encode()))
	}
	follow(r)
}

// ZooKeeper's clock is the wrong one if more than half of the instances agree on that: half of them
// may be wrong in the same way.
func TestMostClocksAreMoreThanHalf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		others []time.Duration
		wrong  bool
	}{
		{[]time.Duration{time.Hour}, false},
		{[]time.Duration{-time.Hour}, true},
		{[]time.Duration{time.Hour, -time.Hour}, false},
		{[]time.Duration{time.Hour, -time.Hour, 3 * time.Hour}, true},
		{[]time.Duration{time.Hour, time.Hour, -time.Hour}, false},
	} {
		t.Run(fmt.Sprint(test.others), func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				a, off := clocked(g, 0)
				others(g, a, test.others...)
				set(a, off, time.Hour)
				if r := record(g, "a"); (r.State == zkrec.InstanceWrongClock) != test.wrong {
					g.T.Errorf("its clock is an hour ahead: %s, want it wrong: %v", r.State, test.wrong)
				}
			})
		})
	}
}

// While ZooKeeper's clock is the wrong one, the group goes by the earliest of the clocks that
// agree: a tick is accounted for only if it is not too early for any of them.
func TestTooEarlyForTheEarliestClock(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a, off := clocked(g, 0)
		others(g, a, time.Hour, time.Hour-50*time.Second, time.Hour+30*time.Second)
		set(a, off, time.Hour)
		a.Do(func() {
			now := a.Clock.Wall()
			for in, want := range map[time.Duration]bool{0: false, 9 * time.Second: false, 11 * time.Second: true, time.Minute: true} {
				if got := a.Member.Clock.TooEarly(now.Add(in)); got != want {
					g.T.Errorf("a tick in %v is too early: %v, want %v", in, got, want)
				}
			}
		})
	})
}

// An owner whose clock is behind by more than clocks may differ is closed for that: it gets no more
// time to claim than the limit.
func TestClockBehindIsLimited(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a, _ := clocked(g, 0)
		others(g, a, time.Second, -2*time.Second, -time.Hour)
		a.Do(func() {
			for sid, want := range map[string]time.Duration{"other0": 0, "other1": 2 * time.Second, "other2": time.Minute, "nobody": 0} {
				if got := a.Member.Clock.Behind(sid); got != want {
					g.T.Errorf("%s is behind by %v, want %v", sid, got, want)
				}
			}
		})
	})
}

// An offset that is uncertain, because the answer was long on its way, is not published: the clock
// may be right.
func TestUncertainOffsetIsNotPublished(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]time.Duration{0: 0, 20 * time.Second: 20500 * time.Millisecond} {
		roomtest.InGroup(t, func(g *roomtest.Group) {
			g.Server.ControlKeep(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return zkdev.DelayReply(time.Second) })
			clocked(g, ahead)
			roomtest.Pass(4 * roomtest.SyncPeriod)
			if r := record(g, "a"); time.Duration(r.ClockOffset).Round(100*time.Millisecond) != want {
				g.T.Errorf("the clock is %v ahead, and published as %v ahead, give or take %v; want %v",
					ahead, time.Duration(r.ClockOffset), time.Duration(r.ClockBound), want)
			}
		})
	}
}

// Watchers are chosen anew when another instance's clock becomes wrong, and when it is right again.
func TestOthersWhoseClocksAreWrongAreFollowed(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a, _ := clocked(g, 0)
		others(g, a, 0, 0)
		changes := func() (n int) {
			a.Do(func() { n = a.Member.Clock.Changes() })
			return n
		}
		for _, state := range []string{zkrec.InstanceWrongClock, zkrec.InstanceActive} {
			before := changes()
			r := record(g, "other0")
			r.State = state
			g.Set(g.Tree.Instance("other0"), r.Encode())
			follow(a)
			if after := changes(); after != before+1 {
				g.T.Errorf("another instance is %s: %d changes, want one", state, after-before)
			}
			r.ClockOffset += zkrec.Duration(time.Second)
			g.Set(g.Tree.Instance("other0"), r.Encode())
			follow(a)
			if after := changes(); after != before+1 {
				g.T.Errorf("its offset has changed, but not that it is %s: %d changes, want none", state, after-before-1)
			}
		}
	})
}

// Jobs are watched by the instances whose clocks are right, however many others there are.
func TestWrongClocksDoNotWatch(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a, _ := clocked(g, 0)
		others(g, a, 0, 0)
		const jobs = 30
		watched := func() (n int) {
			a.Do(func() {
				for k := range jobs {
					if a.Member.Clock.Watches(fmt.Sprintf("job-%d-daily", k), zkrec.Schema, 1) {
						n++
					}
				}
			})
			return n
		}
		if n := watched(); n == 0 || n == jobs {
			g.T.Errorf("one of three watches %d of %d jobs", n, jobs)
		}
		for _, sid := range []string{"other0", "other1"} {
			r := record(g, sid)
			r.State = zkrec.InstanceWrongClock
			g.Set(g.Tree.Instance(sid), r.Encode())
		}
		follow(a)
		if n := watched(); n != jobs {
			g.T.Errorf("the only one whose clock is right watches %d of %d jobs", n, jobs)
		}
	})
}
