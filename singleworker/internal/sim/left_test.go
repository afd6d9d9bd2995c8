package sim

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A dead instance's heartbeats stay where no other one may take them: in the slots of a job that is
// done, until that is removed, and in its own part of a job that runs on every instance, as long as
// it is disabled.
func TestWhatTheDeadHaveLeft(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		job  func() singleworker.Job
		die  func(w *world)
	}{
		{"shards of a one-shot", func() singleworker.Job {
			return singleworker.Job{Schedule: "@at " + time.Now().Add(10*time.Second).UTC().Format(time.RFC3339), Shards: 2}
		}, func(w *world) {
			w.cluster.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
				if has(r, zkdev.OpSetData, "/requests") {
					return zkdev.Delay(time.Second) // that the job is done
				}
				return zkdev.Pass()
			})
			time.Sleep(time.Until(w.begun.Add(10*time.Second + 500*time.Millisecond)))
			w.processOf(w.cluster.Owners()[zkrec.ShardSlot(jobName(0), 1)]).Kill()
			time.Sleep(2 * w.Session)
			w.start("i2")
		}},
		{"a part of a disabled instance", func() singleworker.Job {
			return singleworker.Job{Schedule: "*/2 * * * * ?", Everywhere: true}
		}, func(w *world) {
			time.Sleep(2 * w.Session)
			first := w.processOf("i1")
			first.Stall()
			w.operate("disable i1", func(ctx context.Context) error {
				return w.cluster.Operate(ctx, func(c *admin.Client) error {
					_, err := c.Disable(ctx, "i1", admin.OrderOptions{By: "sim"})
					return err
				})
			})
			w.start("i1")
			time.Sleep(2 * w.Session)
			first.Resume()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorldLike(t, 1, 0, func(p *profile) {
					*p = profile{Instances: 2, Slots: 2, Session: 4 * time.Second, Sync: time.Second, FaultEvery: time.Second, Alike: true, Names: 1}
				})
				job := tt.job()
				job.Name = jobName(0)
				w.shards, w.everywhere, w.jobs[job.Name] = []int{job.Shards}, []bool{job.Everywhere}, true
				if err := w.cluster.Submit(t.Context(), job); err != nil {
					t.Fatal(err)
				}
				w.start("")
				w.start("")
				tt.die(w)
				w.judge()
				if len(w.found) > 0 {
					t.Errorf("%s", w.report())
				}
			})
		})
	}
}
