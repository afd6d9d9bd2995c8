package bench

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// Report is what a process knows of itself.
type Report struct {
	Runs       []Ran // since the last report
	Rows       []Row // since the last report
	LeasesLost int
	Pings      int
	Heap       int64 // bytes in use after a collection
	RSS        int64 // bytes before it
	CPU        time.Duration
}

// Ran is the begin of a run.
type Ran struct {
	Job     string
	Tick    int64 // Unix seconds
	Attempt int
	Late    time.Duration // from the tick to the begin
}

// Row is a row of a job's history about ticks that were not run.
type Row struct {
	Job      string
	From, To int64 // Unix seconds
}

// JobName is the name of a job.
func JobName(k int) string { return fmt.Sprintf("job-%05d", k) }

// Begun is a run that begins now.
func Begun(job string, tick time.Time, attempt int) Ran {
	return Ran{Job: job, Tick: tick.Unix(), Attempt: attempt, Late: time.Since(tick)}
}

// measure adds what the process costs.
func (r *Report) measure() {
	r.RSS = rss()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r.Heap = int64(m.HeapAlloc)
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		r.CPU = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
}

// rss returns the size of the process's resident set, 0 where there is no /proc.
func rss() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if fields := bytes.Fields(text); err == nil && len(fields) > 1 {
		if pages, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
			return pages * int64(os.Getpagesize())
		}
	}
	return 0
}
