package swtest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// millisecond is the latency of a network: two of them are a round trip.
func millisecond(string) func() zkdev.Latency {
	ms := func() time.Duration { return time.Millisecond }
	return func() zkdev.Latency { return zkdev.Latency{There: ms, Back: ms} }
}

var seedOf uint64

// limited runs jobs that need a place of a limit, each once, at the same time, and returns the runs,
// and how many requests there were meanwhile.
func limited(t *testing.T, instances, jobs, places int, takes time.Duration) (runs []swtest.Run, requests float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{SessionTimeout: 30 * time.Second, Latency: millisecond, Seed: seedOf})
		if err := c.SetLimit(t.Context(), "api", places); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Truncate(time.Minute).Add(3 * time.Minute)
		err := c.Operate(t.Context(), func(client *admin.Client) error {
			for k := range jobs {
				_, err := client.Submit(t.Context(), job.Job{
					Name: fmt.Sprintf("job%04d", k), Handler: "work", Schedule: fmt.Sprintf("0 %d * * * ?", at.Minute()), MisfireGrace: time.Hour, Limits: map[string]int{"api": 1},
				}, admin.SubmitOptions{})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for k := range instances {
			c.Start(fmt.Sprintf("i%02d", k), swtest.Setup{Handlers: map[string]singleworker.Handler{"work": working(takes)}})
		}
		time.Sleep(time.Until(at.Add(-time.Second)))
		count := func() (n int) {
			for _, of := range c.Server.Traffic().Requests {
				n += of
			}
			return n
		}
		minute := count()
		time.Sleep(500 * time.Millisecond)
		before := count()
		idle := float64(before-minute) / 0.5
		if !c.Await(50*time.Minute, func() bool { return len(c.Runs()) == jobs && !slices.ContainsFunc(c.Runs(), func(r swtest.Run) bool { return r.Ended.IsZero() }) }) {
			t.Fatalf("%d of %d runs after the whole time", len(c.Runs()), jobs)
		}
		took := c.Runs()[jobs-1].End().Sub(at)
		requests = float64(count()-before) - idle*took.Seconds()
		runs = c.Runs()
		pass(t, c)
	})
	return runs, requests
}

// A run with a limit costs its claim and its result, and fewer than three further requests, however
// many others wait, in however many instances.
func TestLimitCosts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ instances, jobs int }{{4, 200}, {4, 1000}, {30, 200}, {30, 1000}} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			t.Parallel()
			runs, requests := limited(t, tt.instances, tt.jobs, 40, 200*time.Millisecond)
			first, last := runs[0].Started, runs[len(runs)-1].End()
			ideal := time.Duration(tt.jobs/40) * 200 * time.Millisecond
			t.Logf("%.2f requests per run; took %s of %s: %.2f", requests/float64(tt.jobs), last.Sub(first), ideal, float64(ideal)/float64(last.Sub(first)))
		})
	}
}

func TestLimitOfOne(t *testing.T) {
	t.Parallel()
	for _, instances := range []int{1, 4} {
		t.Run(fmt.Sprint(instances), func(t *testing.T) {
			t.Parallel()
			runs, requests := limited(t, instances, 100, 1, 50*time.Millisecond)
			var gaps []time.Duration
			for k := range runs[1:] {
				gaps = append(gaps, runs[k+1].Started.Sub(runs[k].End()))
			}
			slices.Sort(gaps)
			t.Logf("%.2f requests per run; from the end of a run to the next: median %s, most %s", requests/100, gaps[len(gaps)/2], gaps[len(gaps)-1])
		})
	}
}

var _ context.Context

func TestLimitTrace(t *testing.T) {
	for seedOf = uint64(1); seedOf < 2; seedOf++ {
	runs, requests := limited(t, 30, 200, 40, 200*time.Millisecond)
	last:=runs[len(runs)-1].End()
	t.Log(seedOf, last.Sub(runs[0].Started), requests/200)
	if last.Sub(runs[0].Started)>1700*time.Millisecond {
	for k, r := range runs {
		t.Logf("%d %s %s %s", k, r.Started.Format("05.000"), r.Instance.Name, r.Job)
	}
	}
	}
}
