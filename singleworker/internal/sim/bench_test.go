package sim

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
)

// application is the schedules of a usual application: few jobs every some seconds, most every some
// minutes.
var application = []string{
	"*/5 * * * * ?", "*/15 * * * * ?", "*/30 * * * * ?", "0 * * * * ?", "@every 90s",
	"0 */5 * * * ?", "20 */5 * * * ?", "0 */15 * * * ?", "@hourly", "0 30 4 * * ?",
}

// BenchmarkVirtualHour measures an hour of a group on which nothing bad happens: the production
// code of 6 instances with the defaults of Config, from the Manager down, 30 jobs whose handlers
// return at once, the server, and the record of it all; messages take no time. It reports real
// seconds per virtual hour, once with an application's schedules and once with the simulation's,
// which are much denser: 7 ticks per second.
func BenchmarkVirtualHour(b *testing.B) {
	for _, load := range []struct {
		name      string
		schedules []string
	}{{"application", application}, {"simulation", schedules}} {
		b.Run(load.name, func(b *testing.B) {
			hours, runs := 0, 0
			for b.Loop() {
				inBubble(b, func(t *testing.T) {
					runs += quietHour(t, 6, 30, load.schedules)
					hours++
				})
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(hours), "s/virtual-hour")
			b.ReportMetric(float64(runs)/float64(hours), "runs/virtual-hour")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// inBubble runs f in a bubble, which only a test can have: at least once, and more often when the
// command line asks for it.
func inBubble(b *testing.B, f func(t *testing.T)) {
	b.Helper()
	all := func(string, string) (bool, error) { return true, nil }
	test := func(t *testing.T) { synctest.Test(t, f) }
	if !testing.RunTests(all, []testing.InternalTest{{Name: b.Name(), F: test}}) {
		b.Fatal("the group did not do what it should")
	}
}

// quietHour is one virtual hour without faults. It returns how many runs there were.
func quietHour(t *testing.T, instances, jobs int, schedules []string) (runs int) {
	t.Helper()
	c := swtest.New(t, swtest.Config{})
	setup := swtest.Setup{Handlers: make(map[string]singleworker.Handler)}
	for k := range jobs {
		setup.Handlers[jobName(k)] = func(context.Context, *singleworker.Run) error { return nil }
		job := singleworker.Job{Name: jobName(k), Schedule: schedules[k%len(schedules)]}
		if err := c.Submit(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	for k := range instances {
		c.Start(fmt.Sprintf("i%d", k), setup)
	}
	time.Sleep(time.Hour)
	return len(c.Runs())
}
