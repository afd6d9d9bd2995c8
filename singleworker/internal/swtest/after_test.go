package swtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// starting starts three instances with handlers.
func starting(t *testing.T, c *swtest.Cluster, handlers map[string]singleworker.Handler) {
	t.Helper()
	for k := range 3 {
		c.Start(fmt.Sprintf("i%d", k), swtest.Setup{Handlers: handlers})
	}
	time.Sleep(settled)
}

func submit(t *testing.T, c *swtest.Cluster, jobs ...job.Job) {
	t.Helper()
	for _, j := range jobs {
		if err := c.Submit(t.Context(), j); err != nil {
			t.Fatalf("submit %s: %v", j.Name, err)
		}
	}
}

// byTick are the runs of a job by minute after start.
func byTick(c *swtest.Cluster, name string, start time.Time) map[int][]swtest.Run {
	runs := make(map[int][]swtest.Run)
	for _, r := range c.Runs() {
		if r.Job == name {
			minute := int(r.Tick.Sub(start) / time.Minute)
			runs[minute] = append(runs[minute], r)
		}
	}
	return runs
}

// A diamond of jobs runs each tick that all have in common once, parents first, also while owners
// are killed.
func TestAfterDiamond(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		work := working(3 * time.Second)
		starting(t, c, map[string]singleworker.Handler{"top": work, "left": work, "right": work, "end": work})
		start := time.Now().Truncate(time.Hour).Add(time.Hour)
		submit(t, c,
			job.Job{Name: "top", Schedule: "* * * * *", NotBefore: start},
			job.Job{Name: "left", Schedule: "@after", After: []string{"top"}},
			job.Job{Name: "right", Schedule: "*/2 * * * *", NotBefore: start},
			job.Job{Name: "end", Schedule: "@after", After: []string{"right", "left"}, Deadline: 10 * time.Minute},
		)
		time.Sleep(time.Until(start.Add(10*time.Minute + 4*time.Second)))
		for _, i := range c.Instances()[:2] {
			i.Kill()
		}
		time.Sleep(10 * time.Minute)
		top, left, right, end := byTick(c, "top", start), byTick(c, "left", start), byTick(c, "right", start), byTick(c, "end", start)
		for minute := range 20 {
			if len(left[minute]) == 0 || minute%2 == 0 && len(end[minute]) == 0 {
				t.Errorf("minute %d: left has run %d times, end %d times", minute, len(left[minute]), len(end[minute]))
			}
			if minute%2 == 1 && len(end[minute]) > 0 {
				t.Errorf("minute %d: end has run, and right has no such tick", minute)
			}
			for _, of := range []struct {
				child   []swtest.Run
				parents [][]swtest.Run
			}{{left[minute], [][]swtest.Run{top[minute]}}, {end[minute], [][]swtest.Run{left[minute], right[minute]}}} {
				for _, run := range of.child {
					for _, parent := range of.parents {
						if ended := parent[len(parent)-1].End(); ended.IsZero() || run.Started.Before(ended) {
							t.Errorf("minute %d: %s began at %v, before its parent had ended", minute, run.Job, run.Started)
						}
					}
				}
			}
		}
		pass(t, c)
	})
}

// A parent that fails, is paused, or is late makes a row of its child that says so. One that
// succeeds after a retry does not.
func TestAfterParentNotOK(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		start := time.Now().Truncate(time.Hour).Add(time.Hour)
		var tries atomic.Int32
		parent := func(_ context.Context, run *singleworker.Run) error {
			switch int(run.Tick.Sub(start) / time.Minute) {
			case 1:
				return errors.New("no source")
			case 2:
				if tries.Add(1) == 1 {
					return errors.New("once")
				}
			case 5:
				time.Sleep(90 * time.Second) // past the child's next tick
			}
			return nil
		}
		starting(t, c, map[string]singleworker.Handler{"load": parent, "report": working(time.Second)})
		submit(t, c,
			job.Job{Name: "load", Schedule: "* * * * *", NotBefore: start, Retries: 1, Backoff: 5 * time.Second, Overlap: job.OverlapQueue},
			job.Job{Name: "report", Schedule: "@after", After: []string{"load"}},
		)
		time.Sleep(time.Until(start.Add(2*time.Minute + 50*time.Second)))
		operate(t, c, func(client *admin.Client) error {
			_, err := client.Pause(t.Context(), "load", admin.PauseOptions{})
			return err
		})
		time.Sleep(time.Until(start.Add(3*time.Minute + 30*time.Second)))
		operate(t, c, func(client *admin.Client) error {
			_, err := client.Resume(t.Context(), "load", admin.ResumeOptions{})
			return err
		})
		time.Sleep(time.Until(start.Add(9*time.Minute + 50*time.Second)))
		runs := byTick(c, "report", start)
		for minute := range 10 {
			if want := minute != 1 && minute != 3 && minute != 5; (len(runs[minute]) == 1) != want {
				t.Errorf("minute %d: report has run %d times", minute, len(runs[minute]))
			}
		}
		rows := make(map[int]string)
		operate(t, c, func(client *admin.Client) error {
			past, err := client.History(t.Context(), "report")
			for _, e := range past.Entries {
				if e.RunID == "" {
					rows[int(e.Tick.Sub(start)/time.Minute)] = fmt.Sprintf("%s %s %d %s", e.State, e.Reason, e.Count, e.Error)
				}
			}
			return err
		})
		want := map[int]string{
			1: "skipped " + string(history.ReasonParent) + " 1 load: failed",
			3: "skipped " + string(history.ReasonParent) + " 1 load: skipped (paused)",
			5: "missed " + string(history.ReasonParentLate) + " 1 load had not run it by the deadline",
		}
		if fmt.Sprint(rows) != fmt.Sprint(want) {
			t.Errorf("rows %v, want %v", rows, want)
		}
		pass(t, c)
	})
}

// Submit refuses parents that are not there, or cannot be parents, jobs that wait for themselves,
// and schedules that never meet. What is submitted together may come in any order. Without its
// parent a job waits, and says so.
func TestAfterRefused(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		work := working(time.Second)
		starting(t, c, map[string]singleworker.Handler{"load": work, "report": work, "mail": work, "shards": work, "counted": work})
		refused := func(j job.Job, field, why string) {
			t.Helper()
			of, err := new(invalid.FieldError), c.Submit(t.Context(), j)
			if !errors.As(err, &of) || of.Field != field || !strings.Contains(err.Error(), why) {
				t.Errorf("%s after %v: %v, want %s: %s", j.Name, j.After, err, field, why)
			}
		}
		report := job.Job{Name: "report", Schedule: "@after", After: []string{"load"}}
		refused(report, "After", "is no job of the group")
		submit(t, c,
			job.Job{Name: "load", Schedule: "* * * * *"}, report,
			job.Job{Name: "shards", Schedule: "* * * * *", Shards: 2},
			job.Job{Name: "counted", Schedule: "* * * * *", MaxRuns: 3},
		)
		refused(job.Job{Name: "mail", Schedule: "@after", After: []string{"shards"}}, "After", "has shards")
		refused(job.Job{Name: "mail", Schedule: "@after", After: []string{"counted"}}, "After", "MaxRuns")
		refused(job.Job{Name: "mail", Schedule: "@after"}, "Schedule", "needs After")
		refused(job.Job{Name: "mail", Schedule: "@daily", After: []string{"load"}}, "After", "needs the schedule @after")
		refused(job.Job{Name: "mail", Schedule: "@after", After: []string{"load"}, BeforeTick: "load", Shards: 2}, "After", "BeforeTick")
		operate(t, c, func(client *admin.Client) error {
			_, err := client.Edit(t.Context(), "load", func(j *job.Job) error {
				j.Schedule, j.After = "@after", []string{"report"}
				return nil
			}, admin.EditOptions{})
			if err == nil || !strings.Contains(err.Error(), "load after report after load") {
				t.Errorf("a cycle: %v", err)
			}
			if _, err := client.Edit(t.Context(), "shards", func(j *job.Job) error { j.Schedule = "30 * * * * ?"; j.Shards = 3; return nil }, admin.EditOptions{}); err != nil {
				t.Error(err)
			}
			together := []admin.Submission{
				{Job: job.Job{Name: "last", Handler: "mail", Schedule: "@after", After: []string{"middle", "first"}}},
				{Job: job.Job{Name: "middle", Handler: "mail", Schedule: "@after", After: []string{"first"}}},
				{Job: job.Job{Name: "first", Handler: "mail", Schedule: "@hourly"}},
			}
			if _, err := client.SubmitAll(t.Context(), together); err != nil {
				t.Errorf("in any order: %v", err)
			}
			return nil
		})
		submit(t, c, job.Job{Name: "odd", Handler: "mail", Schedule: "15 * * * * ?"})
		refused(job.Job{Name: "mail", Schedule: "@after", After: []string{"load", "odd"}}, "After", "no time in common")
		time.Sleep(2 * time.Minute)
		if s := status(t, c, "report"); s.LastRun == nil || s.NextRun.IsZero() {
			t.Errorf("report has not run: %+v", s)
		}
		if err := c.Cancel(t.Context(), "load"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(settled)
		if s := status(t, c, "report"); s.State != admin.StateInvalid || s.Reason.Code != reason.BadParent || !strings.Contains(s.Reason.Error, "load") {
			t.Errorf("without its parent: %s, %v", s.State, s.Reason)
		}
		submit(t, c, job.Job{Name: "load", Schedule: "* * * * *"})
		ran := len(c.Runs())
		time.Sleep(3 * time.Minute)
		if s := status(t, c, "report"); s.State != admin.StateOwned || s.LastRun.Tick.Before(time.Now().Add(-2*time.Minute)) || len(c.Runs()) <= ran {
			t.Errorf("with its parent again: %s, %+v", s.State, s.LastRun)
		}
		pass(t, c)
	})
}

// A parent's new schedule is the child's from then on. Why a tick waits names the parent and who
// runs it.
func TestAfterWhy(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		starting(t, c, map[string]singleworker.Handler{"load": working(20 * time.Second), "report": working(time.Second)})
		start := time.Now().Truncate(time.Hour).Add(time.Hour)
		submit(t, c,
			job.Job{Name: "load", Schedule: "*/5 * * * *", NotBefore: start},
			job.Job{Name: "report", Schedule: "@after", After: []string{"load"}},
		)
		time.Sleep(time.Until(start.Add(5*time.Minute + 10*time.Second)))
		var why admin.Explanation
		operate(t, c, func(client *admin.Client) (err error) {
			why, err = client.Why(t.Context(), "report", time.Time{})
			return err
		})
		text := strings.Join(words.Why(why), " ")
		if why.Fate != admin.FateAfter || len(why.Job.WaitsFor) != 1 || !strings.Contains(text, "waits for load, which has been running on i") {
			t.Errorf("%s, %+v: %s", why.Fate, why.Job.WaitsFor, text)
		}
		time.Sleep(time.Until(start.Add(6 * time.Minute)))
		operate(t, c, func(client *admin.Client) error {
			_, err := client.Edit(t.Context(), "load", func(j *job.Job) error { j.Schedule = "*/2 * * * *"; return nil }, admin.EditOptions{})
			return err
		})
		time.Sleep(time.Until(start.Add(14*time.Minute + 50*time.Second)))
		for minute, runs := range byTick(c, "report", start) {
			if len(runs) != 1 || minute > 5 && minute%2 == 1 {
				t.Errorf("minute %d: %d runs", minute, len(runs))
			}
		}
		if n := len(byTick(c, "report", start)); n != 6 { // 0, 5, 8, 10, 12, 14
			t.Errorf("%d ticks were run", n)
		}
		pass(t, c)
	})
}
