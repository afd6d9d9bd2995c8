package sim

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// beginDivided submits the job with two shards, and returns their owners.
func (s *scene) beginDivided(b *breach) (first, second *swtest.Instance) {
	if err := s.Submit(s.t.Context(), singleworker.Job{Name: job, Schedule: s.schedule, Shards: 2}); err != nil {
		s.t.Fatal(err)
	}
	instances := map[string]*swtest.Instance{"a": s.start("a", b), "b": s.start("b", b)}
	time.Sleep(2*session + time.Second) // between two ticks
	owners := s.Owners()
	first, second = instances[owners[zkrec.ShardSlot(job, 0)]], instances[owners[zkrec.ShardSlot(job, 1)]]
	if first == nil || second == nil || first == second {
		s.t.Fatalf("the owners are %v, want one shard each", owners)
	}
	return first, second
}

func (s *scene) divide(shards int) { s.edit(func(j *jobs.Job) { j.Shards = shards }) }

func (s *scene) reschedule(schedule string) { s.edit(func(j *jobs.Job) { j.Schedule = schedule }) }

// edit changes the job, as an operator does.
func (s *scene) edit(change func(j *jobs.Job)) {
	if err := s.Operate(s.t.Context(), func(c *admin.Client) error {
		_, err := c.Edit(s.t.Context(), job, func(j *jobs.Job) error {
			change(j)
			return nil
		}, admin.EditOptions{})
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
}

// lateClaimOfAShard keeps a claim of the second shard in flight during resharding; the first shard
// claims nothing before, so the new layout has this tick: the claim must be refused because of the
// spec's version.
func lateClaimOfAShard(s *scene, b *breach) {
	s.brief = true
	first, second := s.beginDivided(b)
	var held atomic.Bool
	claiming := make(chan struct{})
	var once sync.Once
	claims := func(r *zkdev.Request) bool { return has(r, zkdev.OpSetData, "/tick") && has(r, zkdev.OpCheck, "/"+job) }
	held.Store(true)
	s.onMulti(first, func(r *zkdev.Request) zkdev.Action {
		if held.Load() && claims(r) {
			return zkdev.Refuse(zkdev.BadArguments) // it asks again in a second
		}
		return zkdev.Pass()
	})
	s.onMulti(second, func(r *zkdev.Request) (action zkdev.Action) {
		if claims(r) {
			once.Do(func() {
				action = zkdev.Delay(session / 5)
				close(claiming)
			})
		}
		return action
	})
	s.await(claiming)
	s.divide(3)
	held.Store(false)
	time.Sleep(2 * session)
}

// runsOfTwoLayouts reshards a job during its runs: the new layout must wait until they end.
func runsOfTwoLayouts(s *scene, b *breach) {
	s.beginDivided(b)
	s.divide(3)
	time.Sleep(2 * session)
}

// unspecified makes claims not check the version of the job's spec.
func unspecified(op zkdev.Op, path string, version int32) (string, int32) {
	if op == zkdev.OpCheck && strings.Count(path, "/") == 2 { // below the server type
		return path, -1
	}
	return path, version
}
