package swtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/task"
)

// An instance that is told to stop while ZooKeeper is away for too long ends before the results of
// its runs are written. OnRunEnd tells so of each of them, before Run returns.
func TestHooksTellOfEveryResultThatIsNotWritten(t *testing.T) {
	t.Parallel()
	for range 3 { // whether the last hooks are heard was a matter of chance
		synctest.Test(t, func(t *testing.T) {
			const jobs = 20
			c := swtest.New(t, swtest.Config{})
			unrecorded := 0
			setup := swtest.Setup{
				Handlers: make(map[string]singleworker.Handler),
				Configure: func(cfg *singleworker.Config) {
					cfg.Hooks.OnRunEnd = func(r singleworker.RunResult) {
						if r.Unrecorded != nil {
							unrecorded++
						}
					}
				},
			}
			for k := range jobs {
				name := fmt.Sprintf("job%d", k)
				setup.Handlers[name] = func(context.Context, *singleworker.Run) error { time.Sleep(3 * time.Second); return nil }
				if err := c.Submit(t.Context(), singleworker.Job{Name: name, Schedule: "@hourly"}); err != nil {
					t.Fatal(err)
				}
			}
			i := c.Start("i0", setup)
			time.Sleep(time.Hour - time.Since(time.Now().Truncate(time.Hour)) + time.Second)
			i.Partition()
			time.Sleep(time.Minute)
			err := i.Stop()
			if !errors.Is(err, singleworker.ErrNotHandedBack) || unrecorded != jobs {
				t.Errorf("%d of %d results were told not to be written; Run: %v", unrecorded, jobs, err)
			}
			i.Heal()
		})
	}
}

// A hook that panics ends its instance, and handlers that return in time have no other beside them.
func TestInstanceWhoseHookPanicsHandsOverInOrder(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		rollsBack time.Duration
		stuck     bool
	}{
		"its handler returns in time": {time.Second, false},
		"its handler is stuck":        {time.Minute, true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := swtest.New(t, swtest.Config{})
				setup := sharing(t, c, 1, "@hourly", func(ctx context.Context, run *singleworker.Run) error {
					if run.Attempt > 1 {
						return nil
					}
					<-ctx.Done()
					time.Sleep(row.rollsBack)
					return ctx.Err()
				})
				setup.Configure = func(cfg *singleworker.Config) {
					cfg.StopGrace = time.Hour // is not for this
					cfg.Hooks.OnRunStart = func(r singleworker.RunInfo) {
						if r.Attempt == 1 {
							panic("glass")
						}
					}
				}
				c.Start("i0", setup)
				c.Start("i1", setup)
				time.Sleep(time.Hour + time.Minute)
				runs := c.Runs()
				if len(runs) != 2 || runs[1].Attempt != 2 || runs[1].Instance == runs[0].Instance {
					t.Fatalf("runs %+v, want a second attempt on the other instance", runs)
				}
				first, second := runs[0], runs[1]
				if !errors.Is(first.Cause, singleworker.ErrStopping) || first.RightEnded.Sub(first.Started) > time.Second {
					t.Errorf("the run's context ended after %v, with %v; want ErrStopping at once",
						first.RightEnded.Sub(first.Started), first.Cause)
				}
				if !row.stuck && second.Started.Before(first.Ended) {
					t.Errorf("the second attempt began %v before the first had ended", first.Ended.Sub(second.Started))
				}
				time.Sleep(time.Minute)
				err := first.Instance.Stop()
				var hook *task.PanicError
				var stuck *singleworker.StuckError
				if !errors.As(err, &hook) || hook.Value != "glass" || errors.As(err, &stuck) != row.stuck {
					t.Errorf("Run = %v, want the panic of the hook, and stuck handlers: %v", err, row.stuck)
				}
			})
		})
	}
}
