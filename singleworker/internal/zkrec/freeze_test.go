package zkrec_test

import (
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// TestFreezeOfJobs: a job is frozen in those spans of which it is not excepted.
func TestFreezeOfJobs(t *testing.T) {
	t.Parallel()
	pause := func(since int64) zkrec.Pause { return zkrec.Pause{Since: since, Until: since + 5} }
	record := zkrec.Freeze{Spans: []zkrec.Span{
		{Pause: pause(10)}, {Pause: pause(20), Except: []string{"a", "b"}}, {Pause: pause(30), Except: []string{"b"}},
	}}
	read := zkrec.NewFreeze(record.Encode(), 3, time.UnixMilli(40), nil)
	for job, want := range map[string][]int64{"a": {10, 30}, "b": {10}, "c": {10, 20, 30}} {
		var since []int64
		for _, p := range read.Of(job) {
			since = append(since, p.Since)
		}
		if !slices.Equal(since, want) || read.Err != nil || read.Version != 3 {
			t.Errorf("%s is frozen since %d, want %d: %v", job, since, want, read.Err)
		}
	}
}
