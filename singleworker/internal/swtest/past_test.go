package swtest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
)

// A tick that failed is run again by name, although later ones have been run since: once, as its
// next attempt, also if its first owner is killed meanwhile. The schedule goes on as before.
func TestPastTickIsRunByName(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		var mu sync.Mutex
		var named []singleworker.Run
		failed := time.Time{}
		handler := func(ctx context.Context, run *singleworker.Run) error {
			mu.Lock()
			first := failed.IsZero()
			if first {
				failed = run.Tick
			}
			if run.Past != "" {
				named = append(named, *run)
			}
			mu.Unlock()
			if first {
				return errors.New("the disk is full")
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(3 * time.Second):
				return nil
			}
		}
		for _, name := range []string{"i0", "i1"} {
			c.Start(name, swtest.Setup{Handlers: map[string]singleworker.Handler{"job": handler}})
		}
		time.Sleep(settled)
		if err := c.Submit(t.Context(), job.Job{Name: "job", Schedule: "0 * * * * ?"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(3*time.Minute + 10*time.Second)))
		ask := func(want error) {
			operate(t, c, func(client *admin.Client) (err error) {
				if _, err = client.Trigger(t.Context(), "job", admin.TriggerOptions{Tick: failed, By: "ann"}); !errors.Is(err, want) {
					t.Errorf("asked: %v, want %v", err, want)
				}
				return nil
			})
		}
		ask(nil)
		ask(admin.ErrTickOpen)
		time.Sleep(time.Second)
		owner := status(t, c, "job").Owner
		if owner == nil {
			t.Fatal("nobody owns the job")
		}
		for _, i := range c.Live() {
			if i.Name == owner.InstanceID {
				i.Kill()
			}
		}
		time.Sleep(time.Minute)
		ask(admin.ErrTickDone)
		var past admin.History
		operate(t, c, func(client *admin.Client) (err error) {
			past, err = client.History(t.Context(), "job")
			return err
		})
		attempts := make(map[int]history.State)
		for _, e := range past.Entries {
			if e.Tick.Equal(failed) {
				attempts[e.Attempt] = e.State
				if by := e.Attempt > 1; by != (e.Past == history.PastFailed) || by != (e.AskedBy == "ann") {
					t.Errorf("attempt %d: %+v", e.Attempt, e.Asked)
				}
			}
		}
		if len(attempts) != 3 || attempts[1] != history.StateFailed || attempts[2] != history.StateInterrupted || attempts[3] != history.StateOK {
			t.Errorf("attempts %v", attempts)
		}
		mu.Lock()
		defer mu.Unlock()
		for i, run := range named {
			if !run.Tick.Equal(failed) || run.Attempt != i+2 || run.Past != history.PastFailed || !run.Manual {
				t.Errorf("run %d: %+v", i, run)
			}
		}
		if last := status(t, c, "job").LastRun; last == nil || time.Since(last.Tick) > time.Minute+10*time.Second {
			t.Errorf("the schedule stands still: %+v", last)
		}
	})
}
