package swtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
)

// inPause pauses job0 for as long as f takes, in which it may be run when asked.
func inPause(t *testing.T, c *swtest.Cluster, f func(*admin.Client)) {
	t.Helper()
	operate(t, c, func(a *admin.Client) error {
		if _, err := a.Pause(t.Context(), "job0", admin.PauseOptions{}); err != nil {
			return err
		}
		f(a)
		_, err := a.Resume(t.Context(), "job0", admin.ResumeOptions{})
		return err
	})
}

// trigger asks for a run of job0, which is given a minute.
func trigger(t *testing.T, a *admin.Client) {
	t.Helper()
	if _, err := a.Trigger(t.Context(), "job0", admin.TriggerOptions{}); err != nil {
		t.Error(err)
	}
	time.Sleep(time.Minute)
}

// ends tells how the runs of job0 ended, the oldest first.
func ends(t *testing.T, c *swtest.Cluster) (all []string) {
	t.Helper()
	for _, e := range entriesOf(t, c, "job0") {
		what := e.Tick.UTC().Format(time.TimeOnly)
		if e.Manual != "" {
			what = "manual"
		}
		all = append(all, fmt.Sprintf("%s#%d %s", what, e.Attempt, e.State))
	}
	slices.Reverse(all)
	return all
}

// TestManualRunKeepsTheRerunThatAPauseHolds has a run that its owner's death interrupted repeated
// when the pause is over, whatever was run in the pause when asked.
func TestManualRunKeepsTheRerunThatAPauseHolds(t *testing.T) {
	t.Parallel()
	for _, manual := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(manual, " manual runs"), func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				setup := sharing(t, c, 1, "0 0 * * * ?", working(30*time.Second))
				byName := make(map[string]*swtest.Instance)
				for _, n := range []string{"i0", "i1"} {
					byName[n] = c.Start(n, setup)
				}
				time.Sleep(time.Hour + 10*time.Second - time.Since(c.Begun()))
				byName[c.Owners()["job0"]].Kill() // in mid-run
				want := []string{"01:00:00#1 interrupted"}
				inPause(t, c, func(a *admin.Client) {
					time.Sleep(time.Minute)
					for range manual {
						trigger(t, a)
						want = append(want, "manual#1 ok")
					}
				})
				time.Sleep(10 * time.Minute)
				if got := ends(t, c); !slices.Equal(got, append(want, "01:00:00#2 ok")) {
					t.Errorf("the runs: %q", got)
				}
			})
		})
	}
}

// TestManualRunKeepsTheRetryThatAPauseHolds is the same for a run that failed.
func TestManualRunKeepsTheRetryThatAPauseHolds(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		setup := swtest.Setup{Handlers: map[string]singleworker.Handler{"job0": func(_ context.Context, run *singleworker.Run) error {
			if run.Attempt == 1 && !run.Manual {
				return errors.New("no route")
			}
			return nil
		}}}
		job := singleworker.Job{Name: "job0", Schedule: "0 0 * * * ?", Retries: 2, Backoff: 2 * time.Minute}
		if err := c.Submit(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		c.Start("i0", setup)
		time.Sleep(time.Hour + 30*time.Second - time.Since(c.Begun()))
		inPause(t, c, func(a *admin.Client) {
			time.Sleep(3 * time.Minute)
			trigger(t, a)
		})
		time.Sleep(10 * time.Minute)
		if got, want := ends(t, c), []string{"01:00:00#1 failed", "manual#1 ok", "01:00:00#2 ok"}; !slices.Equal(got, want) {
			t.Errorf("the runs: %q, want %q", got, want)
		}
	})
}
