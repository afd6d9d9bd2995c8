package swtest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// An operator orders something while a claim is on its way, so that ZooKeeper has the order first.
// The owner hears of it before it hears of its claim, but has not read it. It does not begin the
// run, and another instance runs the tick unless the job is paused.
func TestOrderBeforeAClaimPreventsIt(t *testing.T) {
	t.Parallel()
	for what, order := range map[string]func(t *testing.T, a *admin.Client, owner string) error{
		"drain": func(t *testing.T, a *admin.Client, owner string) error {
			t.Helper()
			_, err := a.Drain(t.Context(), owner, admin.OrderOptions{})
			return err
		},
		"disable": func(t *testing.T, a *admin.Client, owner string) error {
			t.Helper()
			_, err := a.Disable(t.Context(), owner, admin.OrderOptions{})
			return err
		},
		"disable the job there": func(t *testing.T, a *admin.Client, owner string) error {
			t.Helper()
			_, err := a.DisableAt(t.Context(), admin.Target{InstanceID: owner, Job: "job0"}, admin.OrderOptions{})
			return err
		},
		"pause": func(t *testing.T, a *admin.Client, _ string) error {
			t.Helper()
			_, err := a.Pause(t.Context(), "job0", admin.PauseOptions{})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				group(t, c, 2, 1, "0 * * * * ?", working(time.Second))
				tick := time.Now().Truncate(time.Minute).Add(2 * time.Minute)
				time.Sleep(time.Until(tick.Add(-time.Second)))
				owner, sent := c.Owners()["job0"], make(chan struct{})
				c.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
					if slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool { return op.Op == zkdev.OpSetData && op.Path == c.Tree().Tick("job0") }) {
						close(sent)
						return zkdev.Delay(200 * time.Millisecond)
					}
					return zkdev.Pass()
				})
				<-sent
				operate(t, c, func(a *admin.Client) error { return order(t, a, owner) })
				ordered, elsewhere := time.Now(), 0
				time.Sleep(10 * time.Second)
				for _, r := range c.Runs() {
					switch {
					case !r.Started.After(ordered):
					case r.Instance.Name == owner:
						t.Errorf("%s began the run of %v %v after the order", owner, r.Tick, r.Started.Sub(ordered))
					case r.Tick.Equal(tick):
						elsewhere++
					}
				}
				want := 1
				if what == "pause" {
					want = 0
				}
				if elsewhere != want {
					t.Errorf("the tick ran %d times elsewhere, want %d", elsewhere, want)
				}
				pass(t, c)
			})
		})
	}
}
