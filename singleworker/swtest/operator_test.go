package swtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/swtest"
)

// What operators do has its effect on the group, and what fails is the test's failure.
func TestOperators(t *testing.T) {
	bubble(t, func(t *strict, c *swtest.Cluster) {
		c.Start("one", handlers, singleworker.Job{Name: "report", Schedule: "@hourly"})
		c.AwaitOwner("report", "one")
		c.Trigger("report")
		if runs := c.AwaitRuns("report", 1); runs[0].Attempt != 1 {
			t.T.Errorf("a manual run: %v", runs[0])
		}
		c.Pause("report")
		time.Sleep(2 * time.Hour)
		if n := len(c.Runs("report")); n != 1 {
			t.T.Errorf("%d runs in a pause", n)
		}
		c.Resume("report")
		time.Sleep(time.Hour)
		c.AwaitRuns("report", 2)
		c.Start("two", handlers)
		c.Drain("one")
		c.AwaitOwner("report", "two")
		var state admin.State
		c.Admin(func(ctx context.Context, client *admin.Client) error {
			status, err := client.Get(ctx, "report")
			state = status.State
			return err
		})
		if state != admin.StateOwned {
			t.T.Errorf("the job is %s", state)
		}
		c.Trigger("none")
		t.told("swtest: trigger none: ")
	})
}

// A failure says how the job stands, and which runs there were.
func TestFailuresHaveReasons(t *testing.T) {
	bubble(t, func(t *strict, c *swtest.Cluster) {
		c.Submit(singleworker.Job{Name: "report", Schedule: everySecond})
		c.AwaitOwned("report")
		if told := strings.Join(t.failures, ""); !strings.Contains(told, "handler") {
			t.T.Errorf("nobody has the handler, and the failure says %s", told)
		}
		t.told(`swtest: after 20s nobody owns ["report"]`)
		failing := map[string]singleworker.Handler{"report": func(context.Context, *singleworker.Run) error { return errors.New("no paper") }}
		c.Start("one", failing)
		c.AwaitRuns("report", 1000)
		if told := strings.Join(t.failures, ""); strings.Count(told, "\n\treport 0") != 20 || !strings.Contains(told, "#1 on one, token ") || !strings.Contains(told, ": no paper after 0s") {
			t.T.Errorf("the runs are not told: %s", told)
		}
		t.told("swtest: after 20s report has 2")
	})
}

// A run is a line.
func TestRunIsALine(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	run := swtest.Run{Job: "rows", Shard: singleworker.Shard{Index: 3, Total: 4}, Tick: at, Attempt: 2, Token: 7, Instance: "app-1", Started: at.Add(9 * time.Second)}
	for want, change := range map[string]func(*swtest.Run){
		"in progress":      func(*swtest.Run) {},
		"ok after 1s":      func(r *swtest.Run) { r.Ended = r.Started.Add(time.Second) },
		"broken after 1s":  func(r *swtest.Run) { r.Ended, r.Err = r.Started.Add(time.Second), errors.New("broken") },
		"killed after 2ms": func(r *swtest.Run) { r.Ended, r.Killed = r.Started.Add(2*time.Millisecond), true },
	} {
		r := run
		change(&r)
		if got := r.String(); got != "rows[3] 03:00:00 #2 on app-1, token 7, at 03:00:09: "+want {
			t.Errorf("%q, want %q at the end", got, want)
		}
	}
}
