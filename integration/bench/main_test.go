package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/swjobs/singleworker/integration/zkserver"
)

// rivalEnv is set in a process that is to be gocron alone: the number of its jobs, and the period
// of their ticks.
const rivalEnv = "SINGLEWORKER_BENCH_RIVAL"

func TestMain(m *testing.M) {
	if what, ok := os.LookupEnv(rivalEnv); ok {
		if err := rival(what); err != nil {
			fmt.Fprintln(os.Stderr, "gocron:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(zkserver.Main(m.Run))
}

// startRival starts gocron alone with jobs of that period, or, if that is longer than a minute,
// with jobs that are not due.
func startRival(t *testing.T, jobs int, period time.Duration) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // ourselves
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", rivalEnv, jobs, int64(period.Seconds())))
	return start(t, nil, cmd)
}

// rival runs gocron with as many jobs as it says, as the test started it.
func rival(what string) error {
	var jobs int
	var seconds int64
	if _, err := fmt.Sscanf(what, "%d %d", &jobs, &seconds); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	speaker := NewSpeaker(os.Stdout)
	runs := make(chan Ran, 10*jobs+1)
	go func() { // ends with the process
		speaker.Listen(os.Stdin, func() (r Report) {
			for {
				select {
				case ran := <-runs:
					r.Runs = append(r.Runs, ran)
				default:
					return r
				}
			}
		})
		stop()
	}()
	select {
	case <-speaker.Begin:
	case <-ctx.Done():
		return nil
	}
	scheduler, err := gocron.NewScheduler()
	if err != nil {
		return err
	}
	period := time.Duration(seconds) * time.Second
	schedule := "*/" + strconv.FormatInt(seconds, 10) + " * * * * *"
	if period > time.Minute {
		schedule = "0 0 12 1 1 *"
	}
	for k := range jobs {
		task := func() { runs <- Begun(JobName(k), time.Now().Round(period), 1) }
		if _, err := scheduler.NewJob(gocron.CronJob(schedule, true), gocron.NewTask(task)); err != nil {
			return err
		}
	}
	scheduler.Start()
	<-ctx.Done()
	return scheduler.Shutdown()
}
