package sim

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// An owner that was away comes back with the result of a run, when the job was deleted and
// submitted again and its new owner has made as many claims: the result must not replace the claim.
func TestLateResultOfAJobThatIsThereAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{Cluster: swtest.New(t, swtest.Config{SessionTimeout: session}), t: t, schedule: "0 * * * * ?"}
		owner, _ := s.begin(&breach{}, &breach{})
		sleepUntil := func(second int) { time.Sleep(time.Until(s.Begun().Add(time.Duration(second) * time.Second))) }
		sleepUntil(61)
		owner.Partition()
		sleepUntil(80)
		if err := s.Cancel(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		if err := s.Submit(t.Context(), singleworker.Job{Name: job, Schedule: s.schedule}); err != nil {
			t.Fatal(err)
		}
		sleepUntil(125)
		s.View(func(m *swtest.Model) {
			if j := m.Jobs[job]; j.Owner.SID != "b" || j.Tick.SID != "b" {
				t.Fatalf("not what this is about: owner %+v, tick %+v", j.Owner, j.Tick)
			}
		})
		owner.Heal()
		sleepUntil(150)
		s.View(func(m *swtest.Model) {
			if last := m.Jobs[job].Tick; last.SID != "b" {
				t.Errorf("the result of %s, for the job as it was, has replaced b's claim: %+v", last.SID, last)
			}
		})
		if found, _ := check(s.end()); len(found) > 0 {
			t.Errorf("found %v", found)
		}
	})
}

// The owner of the first shard is cut off when it records that a tick is complete, for so long that
// another one owns the shard, and records and reports it: it must not report that, too, when it is
// back.
func TestLateReportOfACompleteTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lag := func() time.Duration { return 5 * time.Millisecond }
		s := &scene{Cluster: swtest.New(t, swtest.Config{SessionTimeout: session, Latency: func(string) func() zkdev.Latency {
			return func() zkdev.Latency { return zkdev.Latency{There: lag, Back: lag} }
		}}), t: t, schedule: "0 * * * * ?", brief: true}
		first, second := s.beginDivided(&breach{})
		recording := make(chan struct{})
		var once sync.Once
		s.onMulti(first, func(r *zkdev.Request) (action zkdev.Action) {
			if has(r, zkdev.OpSetData, "/shards") {
				once.Do(func() {
					action = zkdev.Delay(3 * session)
					close(recording)
				})
			}
			return action
		})
		s.await(recording)
		first.Partition()
		time.Sleep(2 * session)
		if owner := s.Owners()[zkrec.ShardSlot(job, 0)]; owner != second.Name {
			t.Fatalf("not what this is about: %q owns the first shard", owner)
		}
		first.Heal()
		time.Sleep(session)
		if found, _ := check(s.end()); len(found) > 0 || len(s.told) != 1 {
			t.Errorf("hooks were told %d times, want once; found %v", len(s.told), found)
		}
	})
}

// An operator requests a run before the shards exist: earlier ticks still belong to them.
func TestShardsCreatedByATrigger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{Cluster: swtest.New(t, swtest.Config{SessionTimeout: session}), t: t, schedule: "*/5 * * * * ?", brief: true}
		if err := s.Submit(t.Context(), singleworker.Job{Name: job, Schedule: s.schedule, Shards: 2}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * session)
		if err := s.Operate(t.Context(), func(c *admin.Client) error {
			_, err := c.Trigger(t.Context(), job, admin.TriggerOptions{WaitForHandler: true})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		s.start("a", &breach{})
		time.Sleep(session)
		if found, _ := check(s.end()); len(found) > 0 {
			t.Errorf("found %v", found)
		}
	})
}
