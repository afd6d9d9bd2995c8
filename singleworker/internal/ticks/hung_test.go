package ticks

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// When a run hangs that began a second after midnight, after runs of so many seconds.
func TestHangsFrom(t *testing.T) {
	t.Parallel()
	midnight := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, schedule string
		before         []int
		policy         Policy
		pausedFrom     time.Duration
		want           time.Duration // since it began; 0 is never
	}{
		{name: "ten times the usual", schedule: "0 0 * * * ?", before: []int{9, 7, 8}, want: 90 * time.Second},
		{name: "not within a minute", schedule: "0 0 * * * ?", before: []int{5}, want: time.Minute},
		{name: "two ticks", schedule: "0 * * * * ?", before: []int{20}, want: 119 * time.Second},
		{name: "two ticks, and longer than twice the longest", schedule: "0 * * * * ?", before: []int{90}, want: 180*time.Second + time.Millisecond},
		{name: "a pause covers the first of them", schedule: "0 * * * * ?", before: []int{90}, pausedFrom: 50 * time.Second, want: 900 * time.Second},
		{name: "a pause, and no history", schedule: "0 * * * * ?", pausedFrom: 50 * time.Second},
		{name: "one tick more", schedule: "0 1 0 22 11 ? 2026"},
		{name: "a job that always runs", schedule: "@always", before: []int{1, 1, 1}},
		{name: "as the job says", schedule: "0 * * * * ?", before: []int{20}, policy: Policy{HungAfter: time.Second}, want: time.Second},
		{name: "never, as the job says", schedule: "0 * * * * ?", before: []int{20}, policy: Policy{HungAfter: -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			schedule, err := cronexpr.Parse(c.schedule, time.UTC)
			if err != nil {
				t.Fatal(err)
			}
			j := Job{Schedule: schedule, Policy: &c.policy}
			if c.pausedFrom > 0 {
				j.Paused = &zkrec.Pause{Since: midnight.Add(c.pausedFrom).UnixMilli()}
			}
			began := midnight.Add(time.Second)
			entries := []Entry{{Run: zkrec.Run{State: history.StateInterrupted, Started: 1, Ended: 2}}, {Run: zkrec.Run{State: history.StateMissed}}}
			for _, s := range c.before {
				ended := began.Add(-time.Hour)
				entries = append(entries, Entry{Run: zkrec.Run{
					State: history.StateOK, Started: ended.Add(-time.Duration(s) * time.Second).UnixMilli(), Ended: ended.UnixMilli(),
				}})
			}
			from, _ := HangsFrom(j, zkrec.Run{Tick: midnight.UnixMilli(), Started: began.UnixMilli()}, entries)
			if got := from.Sub(began); c.want == 0 && !from.IsZero() || c.want != 0 && got != c.want {
				t.Errorf("it hangs after %v, %v; want %v", got, from, c.want)
			}
		})
	}
}
