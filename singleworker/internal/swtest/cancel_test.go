package swtest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// TestLateCancelLeavesTheNextJobAlone has a Cancel that is slow on its way to the server. Its
// caller gives up, the job is canceled in another way, and submitted again. Then the first Cancel
// arrives.
func TestLateCancelLeavesTheNextJobAlone(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		c.Start("i0", sharing(t, c, 1, "*/10 * * * * ?", working(time.Millisecond)))
		time.Sleep(settled)
		c.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool { return op.Op == zkdev.OpDelete && strings.HasSuffix(op.Path, "/job0") }) {
				return zkdev.Delay(5 * time.Second)
			}
			return zkdev.Pass()
		})
		operate(t, c, func(a *admin.Client) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := a.Cancel(ctx, "job0"); err == nil {
				t.Error("the first Cancel was not slow")
			}
			if err := c.Cancel(t.Context(), "job0"); err != nil {
				return err
			}
			if err := c.Submit(t.Context(), singleworker.Job{Name: "job0", Schedule: "*/10 * * * * ?"}); err != nil {
				return err
			}
			time.Sleep(10 * time.Second) // the first Cancel has arrived
			if jobs, err := c.List(t.Context()); err != nil || len(jobs) != 1 {
				t.Errorf("the job that was submitted after the second Cancel: %v, %v", jobs, err)
			}
			return nil
		})
	})
}
