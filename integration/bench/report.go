package bench

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
)

// Report is a process's knowledge of itself.
type Report struct {
	Runs       []Ran         `json:"runs"` // since the last report
	Rows       []Row         `json:"rows"` // since the last report
	LeasesLost int           `json:"leases_lost"`
	Taken      int           `json:"taken"`  // runs of jobs that were taken from an owner that had not claimed them in time
	Gained     int           `json:"gained"` // slots, each time that it came to own one
	Pings      int           `json:"pings"`
	Silent     time.Duration `json:"silent"` // since it has sent anything to the server
	Heap       int64         `json:"heap"`   // bytes in use after a collection; 0 if it was not asked to weigh itself
	RSS        int64         `json:"rss"`    // likewise, bytes before the collection
}

// Add adds a report of the same process, or group, that is more recent.
func (r *Report) Add(next Report) {
	r.Runs, r.Rows = append(r.Runs, next.Runs...), append(r.Rows, next.Rows...)
	r.LeasesLost, r.Taken = next.LeasesLost, next.Taken
}

// Ran is a run.
type Ran struct {
	Job     string        `json:"job"`
	Tick    int64         `json:"tick"` // Unix seconds
	Attempt int           `json:"attempt"`
	Late    time.Duration `json:"late"` // from the tick to the begin
	Took    time.Duration `json:"took"` // from the begin to the end of the handler
}

// Row is a row of a job's history about ticks that were not run.
type Row struct {
	Job  string `json:"job"`
	From int64  `json:"from"` // Unix seconds
	To   int64  `json:"to"`   // the last of them
}

// ArgTakes is the argument of a job that says how long its handler takes. Without it, the handler
// does nothing.
const ArgTakes = "takes"

// JobName is the name of a job.
func JobName(k int) string { return fmt.Sprintf("job-%05d", k) }

// Begun is a run that begins now.
func Begun(job string, tick time.Time, attempt int) Ran {
	return Ran{Job: job, Tick: tick.Unix(), Attempt: attempt, Late: time.Since(tick)}
}

// weigh adds how large the process is.
func (r *Report) weigh() {
	r.RSS = rss()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r.Heap = int64(m.HeapAlloc)
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
