package singleworker

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// Durations are counted up to the bound, in one bucket each.
func TestHistogram(t *testing.T) {
	t.Parallel()
	var h Histogram
	for _, d := range []time.Duration{-time.Second, 0, 10 * time.Millisecond, 10*time.Millisecond + 1, time.Second, time.Hour, time.Hour + 1, 48 * time.Hour} {
		h.add(d)
	}
	want := Histogram{Buckets: [15]uint64{0: 3, 1: 1, 6: 1, 13: 1, 14: 2}, Sum: 50*time.Hour + time.Second + 20*time.Millisecond + 2}
	if h != want || h.Count() != 8 {
		t.Errorf("%+v, %d in all; want %+v", h, h.Count(), want)
	}
	if got := HistogramBounds(); len(got) != len(h.Buckets)-1 || got[6] != time.Second {
		t.Errorf("bounds %v", got)
	}
}

// Jobs are forgotten an hour after this instance has had to do with them, and what all jobs have in
// common is not.
func TestJobsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCounts()
		for i := range 20_000 {
			job := fmt.Sprintf("once-%d", i)
			c.owned(job, "free", ticks.Record{})
			c.released(job, ErrJobCanceled)
			time.Sleep(5 * time.Second)
		}
		if n := len(c.jobs); n < 720 || n > 740 {
			t.Errorf("%d jobs are kept, want those of an hour, and at most of the minute before", n)
		}
		c.owned("kept", "free", ticks.Record{})
		c.started(RunInfo{Job: "runs", Run: history.Run{Attempt: 1}}, 0)
		time.Sleep(24 * time.Hour)
		s := c.snapshot()
		if len(s.Jobs) != 2 || s.Jobs["kept"].Owned != 1 || s.Jobs["runs"].Running != 1 || s.Total.Acquired["free"] != 20_001 {
			t.Errorf("%d jobs, %v, want the one that is owned and the one that runs; %v", len(s.Jobs), s.Jobs, s.Total.Acquired)
		}
	})
}

// How a job was acquired is counted for each way, whichever came first.
func TestAcquiredInSeveralWays(t *testing.T) {
	t.Parallel()
	c := newCounts()
	for _, from := range []string{"free", "offered", "free", "died", "offered", "free"} {
		c.owned("j", from, ticks.Record{})
	}
	for range 2 { // a snapshot changes nothing
		want := map[string]uint64{"free": 3, "offered": 2, "died": 1}
		if s := c.snapshot(); !maps.Equal(s.Jobs["j"].Acquired, want) || !maps.Equal(s.Total.Acquired, want) {
			t.Errorf("%v of the job, %v in all; want %v", s.Jobs["j"].Acquired, s.Total.Acquired, want)
		}
	}
}

// A snapshot is the caller's: later counts, or changes of it, are not seen on the other side.
func TestStatsAreACopy(t *testing.T) {
	t.Parallel()
	c := newCounts()
	count := func() {
		c.owned("j", "free", ticks.Record{})
		c.started(RunInfo{Job: "j", Run: history.Run{Attempt: 2}}, time.Second)
		c.refused("j", errors.New("anything"))
		c.ended(RunResult{RunInfo: RunInfo{Job: "j", Run: history.Run{State: history.StateOK}}})
		c.notRun(Recorded{"j", history.Entry{Run: history.Run{State: history.StateSkipped}, Reason: "overlap", Count: 1}})
		c.notRun(Recorded{"j", history.Entry{Run: history.Run{State: history.StateMissed}, Reason: "stalled", Count: 1}})
		c.released("j", ErrLeaseLost)
		c.session(SessionConnected)
	}
	count()
	first, again := c.snapshot(), c.snapshot()
	count()
	if !reflect.DeepEqual(first, again) {
		t.Errorf("the snapshot has changed:\n%+v\n%+v", first, again)
	}
	for _, counts := range []Counts{first.Total, first.Jobs["j"].Counts} {
		of := reflect.ValueOf(counts)
		for i := range of.NumField() {
			if f := of.Field(i); f.Kind() == reflect.Map && f.Len() != 1 {
				t.Errorf("%s: %v, want one key", of.Type().Field(i).Name, f)
			}
		}
		for key := range counts.Runs {
			counts.Runs[key] = 1000
		}
	}
	for _, counts := range []Counts{c.snapshot().Total, c.snapshot().Jobs["j"].Counts} {
		if counts.Runs[history.StateOK] != 2 || counts.Acquired["free"] != 2 {
			t.Errorf("%+v, want everything twice", counts)
		}
	}
}

// An instance that owns 10,000 idle jobs keeps some 2 MB of counts. Not parallel: it looks at all
// that is allocated.
//
//nolint:paralleltest // see above
func TestCountsOfIdleJobsAreSmall(t *testing.T) {
	const jobs, most = 10_000, 300 // bytes
	names := make([]string, jobs)
	for i := range names {
		names[i] = fmt.Sprintf("job-%d", i)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	c, before := newCounts(), heap()
	for _, job := range names {
		c.owned(job, "free", ticks.Record{})
	}
	if used := int64(heap()-before) / jobs; used > most {
		t.Errorf("%d bytes per job, want at most %d", used, most)
	} else {
		t.Logf("%d bytes per job", used)
	}
	runtime.KeepAlive(c)
}

func BenchmarkStats(b *testing.B) {
	c := newCounts()
	for i := range 1000 {
		job := fmt.Sprintf("job-%d", i)
		c.owned(job, "free", ticks.Record{})
		c.started(RunInfo{Job: job, Run: history.Run{Attempt: 1}}, 0)
		c.ended(RunResult{RunInfo: RunInfo{Job: job, Run: history.Run{State: history.StateOK}}})
	}
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			c.snapshot()
		}
	})
	b.Run("run", func(b *testing.B) {
		for b.Loop() {
			c.started(RunInfo{Job: "job-1", Run: history.Run{Attempt: 1}}, 0)
			c.ended(RunResult{RunInfo: RunInfo{Job: "job-1", Run: history.Run{State: history.StateOK}}})
		}
	})
}
