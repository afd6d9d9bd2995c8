package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Six instances with sixty jobs that tick every second are restarted one after the other, as in a
// rolling deploy: no tick is lost or runs twice. An audit of the server's log says so, too.
func TestRollingRestart(t *testing.T) { //nolint:paralleltest // it measures
	const jobs, size = 60, 6
	c := newCluster(t, sharedServer.get(t))
	names := make([]string, jobs)
	for k := range names {
		names[k] = fmt.Sprintf("job-%03d", k)
		// A machine that is busy makes ticks late, and by default only the last of late ticks is run.
		c.submitJob(job.Job{Name: names[k], Schedule: everySecond, Handler: work, Misfire: job.MisfireAll}, admin.SubmitOptions{})
	}
	var instances []*instance
	for range size {
		instances = append(instances, c.start(options{}))
	}
	c.awaitEven(jobs, size)
	for _, name := range names {
		c.awaitRun(name, time.Time{})
	}
	from := time.Now()
	var stops []time.Duration
	for _, i := range instances {
		at := time.Now()
		c.must(c.stop(i))
		stops = append(stops, time.Since(at).Round(time.Millisecond))
		c.start(options{ID: i.id})
		time.Sleep(1700 * time.Millisecond)
	}
	to := time.Now()
	c.awaitEven(jobs, size)
	for _, name := range names {
		c.awaitRun(name, to, func(r run) bool { return r.Tick.After(to) })
	}
	t.Logf("FIGURE clean stops of a rolling restart: %v", stops)

	late := time.Duration(0)
	for _, name := range names {
		seen := make(map[int64]bool) // of two runs of one tick, the check at the end tells
		for _, r := range c.runs(name) {
			seen[r.Tick.Unix()] = true
			if r.Tick.After(from) {
				late = max(late, r.At.Sub(r.Tick))
			}
		}
		var lost []string
		for tick := from.Unix() + 1; tick <= to.Unix(); tick++ {
			if !seen[tick] {
				lost = append(lost, time.Unix(tick, 0).Format(time.TimeOnly))
			}
		}
		if slices.Sort(lost); len(lost) > 0 {
			t.Errorf("%s: the ticks of %v were not run", name, lost)
		}
	}
	if report := c.audit(); !report.OK || report.Counts.Claims < jobs || report.Counts.OwnerChanges < jobs || report.Counts.Unjudged > 0 {
		t.Errorf("audit: %+v", report)
	}
	t.Logf("FIGURE the latest run of the rolling restart began %v after its tick", late.Round(time.Millisecond))
}
