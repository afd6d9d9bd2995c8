// Command worker is one of several equal processes that run the same jobs, with one of the systems
// that package compare compares. Its jobs do nothing but append a line to a file.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// work is a system's task.
type work struct {
	addr   string // of its server
	id     string // of this process
	jobs   int
	period time.Duration
	length time.Duration // of a run
	// session is the session timeout of singleworker.
	session time.Duration
	ledger  *os.File
}

// systems run the work until the context ends.
var systems = map[string]func(context.Context, work) error{
	"singleworker": runSingleworker,
	"gocron":       runGocron,
	"river":        runRiver,
}

func run() error {
	var w work
	flag.StringVar(&w.addr, "addr", "", "address of the server")
	flag.StringVar(&w.id, "id", "", "name of this process")
	flag.IntVar(&w.jobs, "jobs", 0, "number of jobs")
	flag.DurationVar(&w.period, "period", time.Second, "how often each is due, in whole seconds")
	flag.DurationVar(&w.length, "length", 0, "how long a run takes")
	flag.DurationVar(&w.session, "session", 4*time.Second, "session timeout of singleworker")
	system := flag.String("system", "", "singleworker, gocron or river")
	path := flag.String("ledger", "", "`file` to append to")
	flag.Parse()
	start := systems[*system]
	if start == nil {
		return fmt.Errorf("there is no system %q", *system)
	}
	var err error
	if w.ledger, err = os.OpenFile(*path, os.O_APPEND|os.O_WRONLY, 0); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return start(ctx, w)
}

// name is a job's.
func (w work) name(k int) string { return fmt.Sprintf("job-%04d", k) }

// cron is the schedule, with seconds.
func (w work) cron() string { return fmt.Sprintf("0/%d * * * * ", int(w.period.Seconds())) }

// tick is a run. Its line is written at its end: one that is cut off by a kill has not run. One
// write is one line, also when several processes write.
func (w work) tick(job string, tick time.Time) error {
	begun := time.Now()
	<-time.After(w.length)
	_, err := fmt.Fprintf(w.ledger, "%s %d %d\n", job, tick.UnixMilli(), begun.UnixMilli())
	return err
}
