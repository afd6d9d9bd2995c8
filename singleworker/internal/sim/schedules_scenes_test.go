package sim

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

const (
	everySecond = "* * * * * ?"
	everyFive   = "*/5 * * * * ?"
	hourly      = "0 0 * * * ?"
)

// TestReplacedSchedules replaces a job's schedule while its slots have ticks of earlier or later
// times than the server's clock says: each tick is accounted for, and the checker must ask for no
// others.
func TestReplacedSchedules(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		scene    func(*scene)
		schedule string
		clocks   bool // some are wrong
	}{
		{"a shard that leaves the layout and comes back", shardThatComesBack, hourly, false},
		{"again and again under a clock ahead", replacedAhead, everySecond, true},
		{"before a layout that a clock ahead has decided on begins", replacedBeforeItsLayout, everySecond, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &scene{Cluster: swtest.New(t, swtest.Config{SessionTimeout: session}), t: t, schedule: tt.schedule, brief: true}
				tt.scene(s)
				e := s.end()
				e.clocksOff = tt.clocks
				if found, _ := check(e); len(found) > 0 {
					t.Errorf("found %d: %v", len(found), found)
				}
			})
		})
	}
}

// shardThatComesBack replaces the schedule twice after the end of the layout is decided and before
// the next one begins, which has no second shard. That shard's nodes are still there when a third
// layout has it again. The ticks in between are not its own.
func shardThatComesBack(s *scene) {
	keeper, _ := s.beginDivided(&breach{})
	var decided, begins atomic.Bool
	s.onMulti(keeper, func(r *zkdev.Request) zkdev.Action {
		begin := has(r, zkdev.OpSetData, "/"+job) && decided.Swap(true) && !begins.Load()
		if begin || has(r, zkdev.OpDelete, "/shards/1") {
			return zkdev.Refuse(zkdev.BadArguments) // it asks again at the next sync
		}
		return zkdev.Pass()
	})
	s.divide(1)
	time.Sleep(time.Second)
	s.reschedule(everySecond)
	time.Sleep(5 * time.Second)
	s.reschedule(hourly)
	begins.Store(true)
	time.Sleep(session)
	s.wantLayout(1)
	s.divide(2)
	time.Sleep(session)
	s.wantLayout(2)
	s.reschedule(everySecond)
	time.Sleep(5 * time.Second)
}

// wantLayout fails unless the job has so many shards now, and the second shard's nodes are there.
func (s *scene) wantLayout(shards int) {
	s.View(func(m *swtest.Model) {
		if layout := m.Jobs[job].Spec.ActiveLayout(); layout.Shards != shards || m.Jobs[zkrec.ShardSlot(job, 1)] == nil {
			s.t.Fatalf("not what this is about: the layout is %+v", layout)
		}
	})
}

const ahead = time.Minute

func aheadClock() time.Duration { return ahead }

// replacedAhead replaces the schedule several times while the ticks that the owner has claimed are
// in the future: each schedule begins after them.
func replacedAhead(s *scene) {
	s.clock, s.limit = aheadClock, singleworker.NoClockLimit
	s.begin(&breach{}, &breach{})
	for _, schedule := range []string{everyFive, everySecond, everyFive} {
		s.reschedule(schedule)
		time.Sleep(8 * time.Second)
	}
}

// replacedBeforeItsLayout reshards a job of which one shard has claimed ticks that are in the
// future, so that the next layout begins after them, and replaces the schedule before that: its
// first tick is one of that layout.
func replacedBeforeItsLayout(s *scene) {
	if err := s.Submit(s.t.Context(), singleworker.Job{Name: job, Schedule: s.schedule, Shards: 2}); err != nil {
		s.t.Fatal(err)
	}
	s.clock, s.limit = aheadClock, singleworker.NoClockLimit
	s.start("a", &breach{})
	s.clock = nil
	s.start("b", &breach{})
	time.Sleep(2 * session)
	s.reschedule(hourly)
	s.divide(3)
	time.Sleep(session)
	s.wantLayout(3)
	s.reschedule(everySecond)
	time.Sleep(2 * ahead)
}
