package swtest_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

const roundTrip = 2 * time.Millisecond

// millisecond is the latency of a network.
func millisecond(string) func() zkdev.Latency {
	ms := func() time.Duration { return roundTrip / 2 }
	return func() zkdev.Latency { return zkdev.Latency{There: ms, Back: ms} }
}

// limited runs jobs that need a place of a limit, each once, at the same time, and returns the
// runs, and how many requests there were meanwhile.
func limited(t *testing.T, instances, jobs, places int, takes time.Duration) (runs []swtest.Run, requests float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{SessionTimeout: 30 * time.Second, Latency: millisecond})
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
		earlier := count()
		time.Sleep(time.Second / 2)
		before := count()
		idle := 2 * float64(before-earlier) // in a second
		if !c.Await(50*time.Minute, func() bool {
			return len(c.Runs()) == jobs && !slices.ContainsFunc(c.Runs(), func(r swtest.Run) bool { return r.Ended.IsZero() })
		}) {
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
// many others wait, in however many instances. The places are hardly ever free.
func TestLimitCosts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ instances, jobs int }{{4, 600}, {12, 600}} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			t.Parallel()
			const places, takes, most = 40, 200 * time.Millisecond, 3
			runs, requests := limited(t, tt.instances, tt.jobs, places, takes)
			if more := requests/float64(tt.jobs) - 2; more >= most {
				t.Errorf("a run takes %.2f further requests, want less than %d", more, most)
			}
			took, ideal := runs[len(runs)-1].End().Sub(runs[0].Started), time.Duration(tt.jobs/places)*takes
			if share := float64(ideal) / float64(took); share < 0.9 {
				t.Errorf("the runs take %v, want %v: %.2f", took, ideal, share)
			}
		})
	}
}

// Jobs that name no limit begin as soon beside as many that wait for the places of one.
func TestJobsBesideALimit(t *testing.T) {
	t.Parallel()
	late := func(beside bool) (at99 time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			c := swtest.New(t, swtest.Config{SessionTimeout: 30 * time.Second, Latency: millisecond})
			setLimit(t, c, 40)
			const jobs = 200
			at := time.Now().Truncate(time.Minute).Add(2 * time.Minute)
			err := c.Operate(t.Context(), func(client *admin.Client) error {
				for k := range jobs {
					for prefix, limits := range map[string]map[string]int{"free": nil, "limited": api} {
						j := job.Job{Name: fmt.Sprintf("%s%03d", prefix, k), Handler: "work", Schedule: fmt.Sprintf("0 %d * * * ?", at.Minute()), Limits: limits}
						if limits != nil && !beside {
							continue
						}
						if _, err := client.Submit(t.Context(), j, admin.SubmitOptions{}); err != nil {
							return err
						}
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for k := range 4 {
				c.Start(fmt.Sprintf("i%02d", k), swtest.Setup{Handlers: map[string]singleworker.Handler{"work": working(200 * time.Millisecond)}})
			}
			time.Sleep(time.Until(at.Add(10 * time.Second)))
			var lates []time.Duration
			for _, r := range c.Runs() {
				if strings.HasPrefix(r.Job, "free") {
					lates = append(lates, r.Started.Sub(r.Tick))
				}
			}
			if len(lates) != jobs {
				t.Fatalf("%d runs, want %d", len(lates), jobs)
			}
			slices.Sort(lates)
			at99 = lates[len(lates)*99/100]
		})
		return at99
	}
	alone, beside := late(false), late(true)
	if t.Logf("99 of 100 runs begin within %v of their tick alone, within %v beside others", alone, beside); beside > alone+2*roundTrip {
		t.Errorf("99 of 100 runs begin within %v of their tick, and within %v beside jobs that wait", alone, beside)
	}
}

// The next run begins as soon as the end of the last one is recorded, and its claim: after two
// round trips, also if another instance has ended the last one.
func TestLimitOfOne(t *testing.T) {
	t.Parallel()
	for _, instances := range []int{1, 4} {
		t.Run(strconv.Itoa(instances), func(t *testing.T) {
			t.Parallel()
			runs, _ := limited(t, instances, 100, 1, 50*time.Millisecond)
			var gaps []time.Duration
			for k := range runs[1:] {
				gaps = append(gaps, runs[k+1].Started.Sub(runs[k].End()))
			}
			slices.Sort(gaps)
			if median, most := gaps[len(gaps)/2], gaps[len(gaps)-1]; median > 2*roundTrip || most > 5*roundTrip {
				t.Errorf("from the end of a run to the next it takes %v, at most %v; want two round trips of %v", median, most, roundTrip)
			}
		})
	}
}
