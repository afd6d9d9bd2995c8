package swtest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
)

// A crash costs an idle job nothing: whatever becomes of its owner, the next tick runs elsewhere,
// long before the owner's session is over.
func TestIdleJobsOfAnOwnerThatIsGone(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(i *swtest.Instance){
		"killed":  (*swtest.Instance).Kill,
		"cut off": (*swtest.Instance).Partition,
		"stopped": (*swtest.Instance).Stall,
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				instances := group(t, c, 3, 30, "* * * * * *", working(10*time.Millisecond))
				time.Sleep(500 * time.Millisecond) // no run is in progress
				at := time.Now()
				end(instances[0])
				time.Sleep(session + settled)
				runs := make(map[string]map[int64]time.Duration) // lateness by job and tick
				for _, r := range c.Runs() {
					if runs[r.Job] == nil {
						runs[r.Job] = make(map[int64]time.Duration)
					}
					runs[r.Job][r.Tick.Unix()] = r.Started.Sub(r.Tick)
				}
				var latest time.Duration
				for k := range 30 {
					job := fmt.Sprintf("job%d", k)
					for tick := at.Unix() + 1; tick < at.Unix()+20; tick++ {
						late, ran := runs[job][tick]
						if !ran {
							t.Errorf("%s did not run at %v, %d s after its owner's end", job, time.Unix(tick, 0), tick-at.Unix())
						}
						latest = max(latest, late)
					}
				}
				if latest > 500*time.Millisecond {
					t.Errorf("the latest run began %v late", latest)
				}
				pass(t, c)
			})
		})
	}
}

// A manual run does not wait for the session of an owner that is gone, either.
func TestManualRunOfAnOwnerThatIsGone(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		instances := group(t, c, 3, 9, "0 0 0 1 1 ?", working(10*time.Millisecond))
		owners := c.Owners()
		instances[0].Kill()
		at := time.Now()
		for job, owner := range owners {
			if owner == "i0" {
				err := c.Operate(t.Context(), func(client *admin.Client) error {
					_, err := client.Trigger(t.Context(), job, admin.TriggerOptions{})
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(session / 2)
		if n := len(c.Runs()); n != 3 {
			t.Errorf("%d runs of the dead instance's jobs half a session after they were requested, want 3", n)
		}
		for _, run := range c.Runs() {
			if late := run.Started.Sub(at); late > 500*time.Millisecond {
				t.Errorf("%s began %v after it was requested", run.Job, late)
			}
		}
		pass(t, c)
	})
}
