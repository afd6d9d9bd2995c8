package swtest_test

import (
	"path"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// ZooKeeper's clock leaps, and instances notice it one after the other. What was written before has its right time: the watchers must not
// write that it was written now, whichever way the clock has leapt.
func TestWhatWasWrittenBeforeALeapIsNotDatedAgain(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{104 * time.Second, -196 * time.Second} {
		t.Run(off.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				unlimited := func(cfg *singleworker.Config) { cfg.MaxClockOffset = singleworker.NoClockLimit }
				c.Start("guest", swtest.Setup{Configure: unlimited}) // which owns nothing, and notices late
				machines(t, c, 6, "*/5 * * * * ?", unlimited, 0, 0, 0)
				zxid := c.Server.Zxid()
				c.Server.SetClock(off)
				time.Sleep(5 * time.Minute)
				c.Server.SetClock(0)
				time.Sleep(5 * time.Minute)
				for _, txn := range c.Server.LogAfter(zxid) {
					if strings.HasPrefix(path.Base(txn.Path), "job") && txn.Op == zkdev.OpSetData && txn.Code == zkdev.OK {
						t.Errorf("%v: %s is dated again: %s", txn.Time, txn.Path, txn.Data)
					}
				}
				wantNoTickTwice(t, c)
			})
		})
	}
}
