package commands

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/swtest"
)

// start runs an instance with one handler, and a limit on the slots that it may own.
func start(t *testing.T, cluster *swtest.Cluster, name string, maxSlots int, handler string, run singleworker.Handler) {
	t.Helper()
	cfg := cluster.ManagerConfig(name)
	cfg.MaxSlots = maxSlots
	m, err := singleworker.New(cfg)
	if err == nil {
		err = m.Handle(handler, run)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// want runs a line and looks for texts in its output.
func (h *harness) want(t *testing.T, line string, texts ...string) {
	t.Helper()
	h.exec(strings.Fields(line)...)
	for _, text := range texts {
		if !strings.Contains(h.out.String()+h.errs.String(), text) {
			t.Errorf("swctl %s: want %q in\n%s%s", line, text, h.out.String(), h.errs.String())
		}
	}
}

// Nobody can take a job because every instance is full: that is why, and not that it waits.
func TestFullInstancesAreNamed(t *testing.T) {
	t.Parallel()
	onCluster(t, func(t *testing.T, h *harness, cluster *swtest.Cluster) {
		t.Helper()
		done := func(context.Context, *singleworker.Run) error { return nil }
		start(t, cluster, "app-1", 1, "report", done)
		start(t, cluster, "app-2", 1, "report", done)
		for _, name := range []string{"a", "b", "c"} {
			cluster.Submit(job.Job{Name: name, Schedule: "@daily", Handler: "report"})
		}
		time.Sleep(time.Minute)
		h.want(t, "list", `every instance with handler "report" is full: app-1 owns 1 of at most 1 slots, app-2 owns 1 of at most 1 slots; start another, or raise MaxSlots`)
		h.want(t, "instances", "1/1")
	})
}

// A run that hangs, and a job that fails each time, are seen in the list, and since when.
func TestHungAndFailingJobsAreSeen(t *testing.T) {
	t.Parallel()
	onCluster(t, func(t *testing.T, h *harness, cluster *swtest.Cluster) {
		t.Helper()
		begin := time.Now() // 08:19:05
		cluster.Start("app-1", map[string]singleworker.Handler{
			"hangs": func(ctx context.Context, _ *singleworker.Run) error { <-ctx.Done(); return ctx.Err() },
			"fails": func(context.Context, *singleworker.Run) error {
				if time.Since(begin) > time.Minute {
					return errors.New("no route to host")
				}
				return nil
			},
		})
		cluster.Submit(job.Job{Name: "skips", Schedule: "*/10 * * * * *", Handler: "hangs"})
		cluster.Submit(job.Job{Name: "queues", Schedule: "*/10 * * * * *", Handler: "hangs", Overlap: job.OverlapQueue})
		cluster.Submit(job.Job{Name: "fails", Schedule: "30 * * * * *"})
		cluster.Submit(job.Job{Name: "split", Schedule: "30 * * * * *", Handler: "fails", Shards: 2})
		time.Sleep(4 * time.Minute)
		skipped := "hangs: it has been running for 3m55s; ticks since 2026-11-21 08:19:20 UTC are skipped"
		failed := "failed 3 times in a row, last success 3m35s ago"
		h.want(t, "list", skipped, "ticks since 2026-11-21 08:19:20 UTC wait", failed, "2 of 2 shards fail; split[0] "+failed)
		h.want(t, "list -o json", `"overrun_tick": "2026-11-21T08:19:20Z"`, `"last_ok_tick": "2026-11-21T08:19:30Z"`)
		h.want(t, "show skips", "Hung        hangs: it has been running for 3m55s", "Overrun     ticks since 2026-11-21 08:19:20 UTC are skipped")
		h.want(t, "show fails", "Failing     "+failed)
		time.Sleep(time.Hour)
		h.want(t, "show fails", "Failing     failed at least 24 times in a row, no success on record")
	})
}

// A typo in a name is answered with the name that was probably meant.
func TestDidYouMean(t *testing.T) {
	t.Parallel()
	onGroup(t, func(t *testing.T, h *harness) {
		t.Helper()
		h.want(t, "show nightyl", "try: nightly, if you mean that; swctl list shows all jobs")
		h.want(t, "pause orphn", "try: orphan, if you mean that")
		h.want(t, "submit new @daily --handler reprot", "do you mean handler report? swctl set new --handler report")
		h.want(t, "stop nightly", "try: swctl pause NAME, or swctl stop-run NAME")
		for _, line := range []string{"list", "instances", "show nightly", "why nightly"} {
			line += " --server-type biling"
			h.want(t, line, "no instance of biling has ever run at 127.0.0.1:2181; do you mean billing?")
			if code := h.exec(strings.Fields(line)...); code != cmdline.ExitNotFound {
				t.Errorf("%s: exit %d, want 3", line, code)
			}
		}
		h.want(t, "list --server-type x", "no such server type: x", "those of billing have")
	})
}
