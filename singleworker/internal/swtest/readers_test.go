package swtest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
)

// said is the report of a reader, on a machine whose clock is that far off, about each job, and by
// how much it finds that clock ahead.
func said(t *testing.T, c *swtest.Cluster, off time.Duration) (text string, ahead time.Duration) {
	t.Helper()
	var lines []string
	line := func(of ...any) { lines = append(lines, strings.TrimSpace(fmt.Sprintln(of...))) }
	ctx := wall.Off(t.Context(), func() time.Duration { return off })
	err := c.Operate(ctx, func(client *admin.Client) error {
		list, err := client.List(ctx)
		if err != nil {
			return err
		}
		for _, job := range list {
			one, err := client.Get(ctx, job.Name)
			if err != nil {
				return err
			}
			why, err := client.Why(ctx, job.Name, time.Time{})
			if err != nil {
				return err
			}
			history, err := client.History(ctx, job.Name)
			if err != nil {
				return err
			}
			for _, status := range []admin.JobStatus{job, one, history.Job} {
				for i := range status.Conditions {
					status.Conditions[i].Detail = "" // has ages, which two readings need not agree on to the second
				}
			}
			for _, document := range []any{job, one, history} {
				data, err := json.Marshal(document)
				if err != nil {
					return err
				}
				line(string(data))
			}
			line(why.Tick.Format(time.TimeOnly), why.Fate, why.Pause != nil)
		}
		_, ahead, _ = client.Clock()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// A single reading, which begins with no estimate, says the same.
	err = c.Operate(ctx, func(client *admin.Client) error {
		why, err := client.Why(ctx, "lost", time.Time{})
		line(why.Tick.Format(time.TimeOnly), why.Fate)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n"), ahead
}

// A reader whose clock is wrong reports the same as one with a right clock, before ticks and after
// them, and knows how wrong its clock is.
func TestReadersWithWrongClocks(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]struct {
		server    time.Duration // how far ZooKeeper's clock is ahead
		instances []time.Duration
	}{
		"right clocks":                   {0, []time.Duration{0, 0}},
		"one instance":                   {0, []time.Duration{0}},
		"one instance's is wrong":        {0, []time.Duration{0, 0, -time.Hour}},
		"ZooKeeper's is wrong":           {20 * time.Minute, []time.Duration{0, 0, 0}},
		"ZooKeeper's is wrong, and late": {-20 * time.Minute, []time.Duration{0, 0, 0}},
		"one that takes jobs is behind":  {0, []time.Duration{0, -20 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				for _, job := range []singleworker.Job{
					{Name: "lost", Schedule: "0 0 * * * ?", AlarmAfter: time.Minute},
					{Name: "paused", Schedule: "0 0 * * * ?", AlarmAfter: time.Minute},
					{Name: "slow", Schedule: "0 0/20 * * * ?", AlarmAfter: time.Minute},
				} {
					if err := c.Submit(t.Context(), job); err != nil {
						t.Fatal(err)
					}
				}
				setup := sharing(t, c, 3, "0 0 * * * ?", working(time.Second))
				setup.Handlers["paused"], setup.Handlers["slow"] = working(time.Second), working(42*time.Minute)
				c.Server.SetClock(is.server)
				for k, off := range is.instances {
					setup.Wall = func() time.Duration { return off }
					c.Start(fmt.Sprintf("i%d", k), setup)
				}
				time.Sleep(time.Minute)
				err := c.Operate(t.Context(), func(client *admin.Client) error {
					_, err := client.Pause(t.Context(), "paused", admin.PauseOptions{Until: time.Now().Truncate(time.Hour).Add(time.Hour), By: "test"})
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				next := time.Now().Truncate(time.Hour).Add(time.Hour)
				for _, at := range []time.Duration{-5 * time.Minute, 5 * time.Minute, 55 * time.Minute, 65 * time.Minute} {
					time.Sleep(time.Until(next.Add(at)))
					want, none := said(t, c, 0)
					if none != 0 {
						t.Errorf("%v: a right clock is %v ahead", at, none)
					}
					if late := strings.Contains(want, " late"); late != (at > 0) {
						t.Errorf("%v: late: %v\n%s", at, late, want)
					}
					for _, off := range []time.Duration{-10 * time.Minute, 10 * time.Minute, is.server} {
						got, ahead := said(t, c, off)
						for k, line := range strings.Split(want, "\n") {
							if other := strings.Split(got, "\n")[k]; other != line {
								t.Fatalf("%v: a reader whose clock is off by %v says\n%s\nand one whose clock is right\n%s", at, off, other, line)
							}
						}
						if (ahead - off).Abs() > 3*time.Second {
							t.Errorf("%v: a clock that is off by %v is found to be ahead by %v", at, off, ahead)
						}
					}
				}
			})
		})
	}
}

// The parts of a job that runs on every instance are enough to tell the time by.
func TestReaderOfGroupWithNothingButParts(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		for _, job := range []singleworker.Job{{Name: "lost", Schedule: "0 0 * * * ?"}, {Name: "sweep", Schedule: "0 0 * * * ?", Everywhere: true}} {
			if err := c.Submit(t.Context(), job); err != nil {
				t.Fatal(err)
			}
		}
		for k := range 2 {
			c.Start(fmt.Sprintf("i%d", k), swtest.Setup{Handlers: map[string]singleworker.Handler{"sweep": working(time.Second)}})
		}
		time.Sleep(55 * time.Minute)
		for _, off := range []time.Duration{-10 * time.Minute, 0, 10 * time.Minute} {
			if text, ahead := said(t, c, off); strings.Contains(text, "late") || (ahead-off).Abs() > 3*time.Second {
				t.Errorf("a clock that is off by %v is found to be ahead by %v:\n%s", off, ahead, text)
			}
		}
	})
}
