package swtest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
)

// ZooKeeper does not answer for a while: two of four instances note that, it is one outage, and it
// explains the ticks of that time and no others.
func TestOutageIsNoted(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		group(t, c, 4, 3, "0/10 * * * * ?", working(time.Second))
		time.Sleep(time.Minute)
		began := time.Now()
		c.Server.Stop()
		time.Sleep(20 * time.Second)
		ended := time.Now()
		if err := c.Server.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		err := c.Operate(t.Context(), func(client *admin.Client) error {
			all, err := client.Outages(t.Context())
			if err != nil {
				return err
			}
			if len(all) != 1 || len(all[0].Instances) != 2 || all[0].Since.Sub(began).Abs() > time.Second || all[0].Until.Before(ended) || all[0].Until.Sub(ended) > session {
				t.Errorf("outages %+v, want one from %v to %v", all, began, ended)
			}
			entries, err := client.Log(t.Context(), admin.LogOptions{})
			noted := func(e admin.LogEntry) bool { return e.Kind == admin.LogOutage && !e.Since.IsZero() && e.From != "" }
			if err != nil || len(slices.DeleteFunc(entries, func(e admin.LogEntry) bool { return !noted(e) })) != 2 {
				t.Errorf("the log has %+v, %v", entries, err)
			}
			names, err := client.Names(t.Context())
			if err != nil {
				return err
			}
			for at, want := range map[time.Time]bool{began.Add(10 * time.Second): true, began.Add(-20 * time.Second): false, {}: false} {
				x, err := client.Why(t.Context(), names[0], at)
				if err != nil || (x.Outage != nil) != want || strings.Contains(strings.Join(words.Why(x), "\n"), "ZooKeeper did not answer") != want {
					t.Errorf("at %v: %v, outage %+v: %q", at, err, x.Outage, words.Why(x))
				}
			}
			_, err = client.Pause(t.Context(), names[0], admin.PauseOptions{By: "alice@host"})
			if err != nil {
				return err
			}
			x, err := client.Why(t.Context(), names[0], time.Time{})
			if text := strings.Join(words.Why(x), "\n"); !strings.Contains(text, "The job is paused by alice@host from ") {
				t.Errorf("just paused: %q", text)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		pass(t, c)
	})
}

// In latch mode it is said who leads, also if that is no instance.
func TestLeaderIsNamed(t *testing.T) {
	exact(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		latched(t, c, 2, 1, "0/10 * * * * ?", working(time.Second))
		operate(t, c, func(client *admin.Client) error {
			names, err := client.Names(t.Context())
			if err != nil {
				return err
			}
			x, err := client.Why(t.Context(), names[0], time.Time{})
			if err != nil || x.Leader == nil || x.Leader.ID != "i0" || !x.Leader.Instance || !slices.Contains(words.Why(x), "i0 leads the group (latch mode), so it owns all jobs.") {
				t.Errorf("%+v, %v: %q", x.Leader, err, words.Why(x))
			}
			x.Leader = &admin.Leader{ID: "host-1", Node: "/billing/_leader/latch-0"}
			if text := strings.Join(words.Why(x), "\n"); !strings.Contains(text, `"host-1" leads (latch mode), and is no instance of this group, but another program that contends at /billing/_leader: `) {
				t.Errorf("another program leads: %q", text)
			}
			return nil
		})
	})
}
