package swtest_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
)

// The hook is called in the moment from which the list says that the run hangs, once for each run,
// on an instance that has taken the job over and has seen none of the runs before.
func TestHookTellsOfHungRunsAsTheListDoes(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(j *singleworker.Job){
		"ten times the usual": func(*singleworker.Job) {},
		"as the job says":     func(j *singleworker.Job) { j.HungAfter = 17 * time.Minute },
		"in every shard":      func(j *singleworker.Job) { j.Shards = 2 },
		"two ticks skipped":   func(j *singleworker.Job) { j.Schedule = "0 * * * * ?" },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				j := singleworker.Job{Name: "job", Schedule: "0 */10 * * * ?"}
				change(&j)
				type told struct {
					singleworker.HungRun

					at time.Time
				}
				hung := make(chan told, 10)
				setup := swtest.Setup{
					Jobs: []singleworker.Job{j},
					Handlers: map[string]singleworker.Handler{"job": func(ctx context.Context, run *singleworker.Run) error {
						if run.InstanceID == "a" {
							return working(20*time.Second)(ctx, run)
						}
						<-ctx.Done()
						return ctx.Err()
					}},
					Configure: func(cfg *singleworker.Config) {
						cfg.Hooks.OnRunHung = func(r singleworker.HungRun) { hung <- told{r, time.Now()} }
					},
				}
				a := c.Start("a", setup)
				time.Sleep(time.Until(c.Begun().Truncate(time.Hour).Add(30*time.Minute + 30*time.Second)))
				b := c.Start("b", setup)
				if err := a.Stop(); err != nil {
					t.Error(err)
				}
				const step = 10 * time.Second
				listed := func(job admin.JobStatus) bool { return job.Hung != nil }
				for status := onlyJob(t, c); !listed(status) && !slices.ContainsFunc(status.Slots, listed); status = onlyJob(t, c) {
					time.Sleep(step)
				}
				saw, first := time.Now(), <-hung
				if late := saw.Sub(first.at); late < -time.Second || late > step+time.Second {
					t.Errorf("told at %v, %v before it was listed", first.at, late)
				}
				if first.Usual != 20*time.Second || first.Job != "job" || first.at.Sub(first.Started) < time.Minute {
					t.Errorf("told of %+v", first.HungRun)
				}
				time.Sleep(5 * time.Minute)
				if more := len(hung); more != max(1, j.Shards)-1 {
					t.Errorf("told %d times more of %d slots", more, max(1, j.Shards))
				}
				if counted := b.Manager().Stats().Hung; counted != max(1, j.Shards) {
					t.Errorf("%d runs hang, by the counts", counted)
				}
				if err := b.Stop(); err != nil || b.Manager().Stats().Hung != 0 {
					t.Errorf("%v; %d runs hang after a stop", err, b.Manager().Stats().Hung)
				}
			})
		})
	}
}

// onlyJob is the status of the only job.
func onlyJob(t *testing.T, c *swtest.Cluster) admin.JobStatus {
	t.Helper()
	list, err := c.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%d jobs, %v", len(list), err)
	}
	return list[0]
}
