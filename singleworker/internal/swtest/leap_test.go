package swtest_test

import (
	"path"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// ZooKeeper's clock leaps, and instances notice it one after the other. Records that were written
// before have their right time: the watchers must not write that they were written now, whichever
// way the clock has leapt.
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

// ZooKeeper's clock leaps by two hours. Hourly jobs are due by it then, and their owners have not
// said yet that they go by another time: nobody may take a job from its owner.
func TestLeapOfZooKeepersClockRelievesNobody(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		machines(t, c, 12, "0 0 * * * ?", nil, 0, 0, 0, 0)
		time.Sleep(time.Minute)
		zxid := c.Server.Zxid()
		c.Server.SetClock(2 * time.Hour)
		time.Sleep(2 * time.Minute)
		for _, txn := range c.Server.LogAfter(zxid) {
			if owner, err := zkrec.ParseOwner(txn.Data); path.Base(txn.Path) == "alive" && err == nil && owner.Relieved != (zkrec.Member{}) {
				t.Errorf("%v: %s takes a job from %s, of which nothing is due", txn.Time, owner.SID, owner.Relieved.SID)
			}
		}
	})
}

// One instance has nothing to write, and does not notice that ZooKeeper's clock is wrong. As long
// as it says that its own agrees with that, the others take theirs for wrong: it must ask as soon
// as they say so.
func TestIdleInstanceNoticesThatZooKeepersClockIsWrong(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{time.Minute, -time.Minute} {
		t.Run(off.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				c.Start("guest", swtest.Setup{})
				machines(t, c, 6, "* * * * * ?", nil, 0, 0, 0)
				time.Sleep(10 * time.Second)
				c.Server.SetClock(off)
				time.Sleep(15 * time.Second)
				before := len(c.Runs())
				time.Sleep(10 * time.Second)
				if n := len(c.Runs()) - before; n < 6*10-6 {
					t.Errorf("%d runs in ten seconds, want six jobs to run each second", n)
				}
			})
		})
	}
}

// A job is submitted while ZooKeeper's clock is a day ahead. When another server leads, whose clock
// is right, all connect to it, and owners do not know their records for a moment: the job runs
// nevertheless as soon as the group knows the time.
func TestNewLeadersClockIsRight(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		machines(t, c, 4, "* * * * * ?", nil, 0, 0, 0)
		c.Server.SetClock(24 * time.Hour)
		time.Sleep(20 * time.Second)
		if err := c.Cancel(t.Context(), "job0"); err != nil {
			t.Fatal(err)
		}
		if err := c.Submit(t.Context(), singleworker.Job{Name: "job0", Schedule: "* * * * * ?"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond) // for it to be owned
		c.Server.SetClock(0)
		for _, i := range c.Instances() {
			i.Client.Disconnect()
		}
		time.Sleep(20 * time.Second)
		from, n := time.Now(), 0
		time.Sleep(10 * time.Second)
		for _, r := range c.Runs() {
			if r.Job == "job0" && r.Started.After(from) {
				n++
			}
		}
		if n < 9 {
			t.Errorf("%d runs in ten seconds", n)
		}
	})
}
