package swtest_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// slow is a cluster with 5 ms from anybody to the server and 5 ms back.
func slow(t *testing.T, test func(t *testing.T, c *swtest.Cluster)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lag := func() time.Duration { return 5 * time.Millisecond }
		test(t, swtest.New(t, swtest.Config{
			Latency: func(string) func() zkdev.Latency {
				return func() zkdev.Latency { return zkdev.Latency{There: lag, Back: lag} }
			},
		}))
	})
}

// Twenty idle jobs are owned elsewhere within 300 ms of the order, and come back when it is taken
// back.
func TestDrainIsSwift(t *testing.T) {
	slow(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		group(t, c, 3, 60, "@yearly", working(time.Second))
		all := map[string]int{"i0": 20, "i1": 20, "i2": 20}
		if got := c.Shares(); !maps.Equal(got, all) {
			t.Fatalf("shares %v, want %v", got, all)
		}
		operate := func(f func(*admin.Client) error) {
			t.Helper()
			if err := c.Operate(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		var ordered, drained time.Time
		operate(func(client *admin.Client) error {
			ordered = time.Now()
			_, err := client.Drain(t.Context(), "i0", admin.OrderOptions{})
			if err == nil {
				_, _, err = client.AwaitDrained(t.Context(), "i0")
			}
			drained = time.Now()
			return err
		})
		begun := ordered
		time.Sleep(time.Second)
		c.View(func(m *swtest.Model) {
			for name, job := range m.Jobs {
				if job.Since.After(begun) {
					begun = job.Since
				}
				if job.Owner.SID == "i0" || job.Owner.SID == "" {
					t.Errorf("%s is owned by %q", name, job.Owner.SID)
				}
			}
		})
		t.Logf("owned elsewhere after %v, and known to be after %v", begun.Sub(ordered), drained.Sub(ordered))
		if begun.Sub(ordered) > 300*time.Millisecond || drained.Sub(ordered) > 2*time.Second {
			t.Errorf("owned elsewhere after %v, known to be after %v", begun.Sub(ordered), drained.Sub(ordered))
		}
		if got, want := c.Shares(), map[string]int{"i0": 0, "i1": 30, "i2": 30}; !maps.Equal(got, want) {
			t.Errorf("shares %v, want %v", got, want)
		}
		operate(func(client *admin.Client) error { _, err := client.Enable(t.Context(), "i0"); return err })
		if !c.Await(10*time.Second, func() bool { return maps.Equal(c.Shares(), all) }) {
			t.Errorf("10 s after it was enabled: shares %v", c.Shares())
		}
	})
}

// A disabled instance owns nothing after a restart; a drained one does.
func TestRestartOfTheDisabledAndTheDrained(t *testing.T) {
	slow(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		instances := group(t, c, 3, 6, "*/5 * * * * ?", working(time.Second))
		order := func(f func(*admin.Client, context.Context, string, admin.OrderOptions) (admin.OrderResult, error), sid string) {
			t.Helper()
			if err := c.Operate(t.Context(), func(client *admin.Client) error {
				_, err := f(client, t.Context(), sid, admin.OrderOptions{By: "test"})
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		order((*admin.Client).Disable, "i0")
		order((*admin.Client).Drain, "i1")
		time.Sleep(settled)
		if got, want := c.Shares(), map[string]int{"i0": 0, "i1": 0, "i2": 6}; !maps.Equal(got, want) {
			t.Errorf("shares %v, want %v", got, want)
		}
		for _, i := range instances[:2] {
			if err := i.Stop(); err != nil {
				t.Error(err)
			}
			c.Start(i.Name, i.Setup())
		}
		time.Sleep(settled)
		if got, want := c.Shares(), map[string]int{"i0": 0, "i1": 3, "i2": 3}; !maps.Equal(got, want) {
			t.Errorf("after a restart: shares %v, want %v", got, want)
		}
		states := make(map[string]string)
		c.View(func(m *swtest.Model) {
			for sid, member := range m.Instances {
				states[sid] = member.State
			}
			if len(m.Orders) != 1 {
				t.Errorf("orders %v, want that for i0", m.Orders)
			}
		})
		if want := map[string]string{"i0": "disabled", "i1": "active", "i2": "active"}; !maps.Equal(states, want) {
			t.Errorf("states %v, want %v", states, want)
		}
	})
}

func TestManagerDrains(t *testing.T) {
	slow(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		i := group(t, c, 2, 4, "* * * * * ?", working(2500*time.Millisecond))[0]
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := i.Drain(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drain = %v, want the end of its context", err)
		}
		begun := time.Now()
		if err := i.Drain(t.Context()); err != nil {
			t.Errorf("Drain = %v", err)
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("Drain took %v, want no longer than the runs", took)
		}
		time.Sleep(time.Second)
		if got, want := c.Shares(), map[string]int{"i0": 0, "i1": 4}; !maps.Equal(got, want) {
			t.Errorf("shares %v, want %v", got, want)
		}
		for _, r := range c.Runs() {
			if r.Instance == i && (r.Started.After(begun) || r.Ended.IsZero() || r.Err != nil) {
				t.Errorf("%s of %v: started %v after the drain, ended %v, %v", r.Job, r.Tick, r.Started.Sub(begun), r.Ended, r.Err)
			}
		}
		time.Sleep(time.Minute)
		if got := c.Shares()["i0"]; got != 0 || i.State() != swtest.Running {
			t.Errorf("a minute later it owns %d jobs and is %v", got, i.State())
		}
		if err := i.Stop(); err != nil {
			t.Error(err)
		}
		if err := i.Drain(t.Context()); err != nil {
			t.Errorf("Drain after Run = %v", err)
		}
	})
}
