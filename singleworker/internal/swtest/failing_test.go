package swtest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A job whose ticks fail in a row is paused, whoever has run them, and begins to count again when
// it is resumed. A tick that is ok at its retry, or before, ends the row.
func TestPauseAfterFailures(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		var fails atomic.Bool
		fails.Store(true)
		three(c, func(_ context.Context, run *singleworker.Run) error {
			if fails.Load() || run.Args["fail"] == "first" && run.Attempt == 1 {
				return errors.New("no disk")
			}
			return nil
		})
		time.Sleep(settled)
		if err := c.Submit(t.Context(), job.Job{Name: "once", Schedule: "0 * * * * ?", Retries: 1, PauseAfterFailures: 4}); err != nil {
			t.Fatal(err)
		}
		ticks := func() (list []time.Time) {
			for _, run := range c.Runs() {
				if !run.Manual && !slices.ContainsFunc(list, run.Tick.Equal) {
					list = append(list, run.Tick)
				}
			}
			return list
		}
		failed := func(n int) {
			t.Helper()
			time.Sleep(15 * time.Minute)
			if got := len(ticks()); got != n {
				t.Errorf("%d ticks have run, want %d", got, n)
			}
			if s := status(t, c, "once"); s.Paused == nil || !strings.Contains(s.Paused.Reason, "4 ticks in a row have failed") || s.Paused.By == "" {
				t.Errorf("it is %s, paused %+v", s.State, s.Paused)
			}
		}
		for len(ticks()) < 2 {
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		all := c.Instances()
		all[slices.IndexFunc(all, func(i *swtest.Instance) bool { return i.Name == c.Owners()["once"] })].Kill()
		failed(4)
		trigger := func() {
			operate(t, c, func(client *admin.Client) error {
				_, err := client.Trigger(t.Context(), "once", admin.TriggerOptions{})
				return err
			})
			time.Sleep(time.Minute)
		}
		trigger() // which fails, too, and counts for nothing
		resume := func() {
			operate(t, c, func(client *admin.Client) error {
				_, err := client.Resume(t.Context(), "once", admin.ResumeOptions{})
				return err
			})
		}
		resume()
		failed(8)
		operate(t, c, func(client *admin.Client) error {
			_, err := client.Edit(t.Context(), "once", func(j *job.Job) error { j.Args = map[string]string{"fail": "first"}; return nil }, admin.EditOptions{})
			return err
		})
		fails.Store(false)
		resume()
		time.Sleep(20 * time.Minute)
		if s := status(t, c, "once"); s.Paused != nil || len(ticks()) < 27 {
			t.Errorf("with ticks that are ok at the second attempt: paused %+v after %d ticks", s.Paused, len(ticks()))
		}
		fails.Store(true)
		time.Sleep(3*time.Minute - time.Second)
		n := len(ticks())
		fails.Store(false)
		time.Sleep(time.Minute)
		fails.Store(true)
		failed(n + 5)
		operate(t, c, func(client *admin.Client) error {
			log, err := client.Log(t.Context(), admin.LogOptions{})
			paused := 0
			for _, deed := range log {
				if deed.Kind == "pause" && strings.Contains(deed.Reason, "have failed") {
					paused++
				}
			}
			if paused != 3 {
				t.Errorf("the log has %d pauses, want 3: %+v", paused, log)
			}
			return err
		})
		pass(t, c)
	})
}

// A pause whose write is refused, or of which no answer comes, is written again, and no run begins
// before.
func TestPauseAfterFailuresIsWrittenAgain(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]zkdev.Action{
		"refused": zkdev.Refuse(zkdev.BadVersion), "before its answer": zkdev.CutAfter(), "not sent": zkdev.CutBefore(),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				three(c, func(context.Context, *singleworker.Run) error { return errors.New("no disk") })
				time.Sleep(settled)
				if err := c.Submit(t.Context(), job.Job{Name: "once", Schedule: "*/5 * * * * ?", PauseAfterFailures: 2}); err != nil {
					t.Fatal(err)
				}
				var first time.Time // by the server, which handles one request at a time
				c.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
					for _, op := range r.Ops {
						if op.Op != zkdev.OpSetData || op.Path != c.Tree().Register("once") {
							continue
						}
						if first.IsZero() {
							first = time.Now()
						}
						if time.Since(first) < time.Minute {
							return action
						}
					}
					return zkdev.Pass()
				})
				time.Sleep(5 * time.Minute)
				if s := status(t, c, "once"); s.Paused == nil || len(c.Runs()) != 2 || first.IsZero() {
					t.Errorf("it is %s, paused %+v, after %d runs, first at %v", s.State, s.Paused, len(c.Runs()), first)
				}
				pass(t, c)
			})
		})
	}
}
