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
)

// An instance that is told to stop while ZooKeeper is away for too long ends before the results of its
// runs are written. OnRunEnd tells so of each of them, before Run returns.
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
