package commands

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

// choosable has a job of each kind: a to i.
func choosable(h *harness) {
	hours := func(n int) time.Time { return testNow.Add(time.Duration(n) * time.Hour) }
	app := func(n string) *admin.Owner { return &admin.Owner{InstanceID: "app-" + n} }
	shard := admin.JobStatus{State: admin.StateOwned, Owner: app("3"), LastRun: &history.Run{Tick: hours(-9)}}
	h.fake.jobs = map[string]admin.JobStatus{
		"a": {State: admin.StateOwned, Owner: app("2"), NextRun: hours(3), LastRun: &history.Run{Tick: hours(-1)}},
		"b": {State: admin.StateOwned, Owner: app("1"), NextRun: hours(1), Failing: &admin.Failing{Runs: 12}, LastRun: &history.Run{Tick: hours(-3)}},
		"c": {State: admin.StateOwned, Owner: app("1"), Overdue: hours(-1), NextRun: hours(2)},
		"d": {State: admin.StateUnowned, Reason: reason.Reason{Code: reason.NoHandler}},
		"e": {State: admin.StateOwned, Paused: &admin.Pause{Since: testNow}, Owner: app("2"), Failing: &admin.Failing{Runs: 1}},
		"f": {State: admin.StateOwned, Paused: &admin.Pause{Since: hours(-30)}, Owner: app("2")},
		"g": {State: admin.StateInvalid, Reason: reason.Reason{Code: reason.BadSpec}},
		"h": {State: admin.StateOwned, Slots: []admin.JobStatus{shard, {State: admin.StateOwned, Owner: app("1")}}},
		"i": {State: admin.StateOwned, Owner: app("2"), Failing: &admin.Failing{Runs: 20, More: true}, Job: job.Job{Labels: map[string]string{"team": "x"}}},
	}
	for name, status := range h.fake.jobs {
		status.Name, status.Job.Name = name, name
		h.fake.jobs[name] = status
	}
}

func TestListChoice(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                              "abcdefghi",
		"[a-c] h":                       "abch",
		"z*":                            "",
		"--failing":                     "bcdfgi",
		"--failing b*":                  "b",
		"--state late,nobody":           "cd",
		"--state failing -l team=x":     "i",
		"--state ok":                    "ah",
		"--state paused":                "ef",
		"--owner app-1":                 "bch",
		"--owner app-9":                 "",
		"--sort state":                  "gdcbifeah",
		"--sort next":                   "bcadefghi",
		"--sort last":                   "abhcdefgi",
		"--sort owner":                  "hbcaefidg",
		"--sort name --owner app-2":     "aefi",
		"--sort state --state hung,ok ": "ah",
	} {
		h := newHarness(t)
		choosable(h)
		if code := h.exec(append([]string{"list", "-o", "name"}, strings.Fields(line)...)...); code != cmdline.ExitOK || strings.ReplaceAll(h.out.String(), "\n", "") != want {
			t.Errorf("list %s: exit %d, %q; want %q; %s", line, code, h.out.String(), want, h.errs.String())
		}
	}
	h := newHarness(t)
	choosable(h)
	if h.exec("list", "--state", "nobody may run it"); !strings.Contains(h.out.String(), "\nd ") {
		t.Errorf("by the word for people: %s", h.out.String())
	}
	if h.exec("list"); !strings.Contains(h.out.String(), " failing x12 ") || !strings.Contains(h.out.String(), " failing x20+ ") {
		t.Errorf("no streaks in\n%s", h.out.String())
	}
	if code := h.exec("list", "z*"); code != cmdline.ExitOK || !strings.Contains(h.errs.String(), "shows all 9") {
		t.Errorf("exit %d, %s", code, h.errs.String())
	}
}

// The whole group is on one screen, the worst first. In a pipe it is printed once, and for people
// only.
func TestTop(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	report := h.fake.jobs["レポート"]
	run := *report.LastRun
	run.State, run.InstanceID, run.Ended = history.StateRunning, "app-1", time.Time{}
	report.LastRun = &run
	h.fake.jobs["レポート"] = report
	texts := []string{h.transcript("top"), h.transcript("top", "-o", "json"), h.transcript("top", "nightly")}
	h.fake.jobs, h.fake.instances = nil, nil
	golden(t, "top", strings.Join(append(texts, h.transcript("top")), "\n"))
}

// A list that is watched is printed again when something has changed, until a signal ends it well:
// in a pipe below the one before, on a terminal in its place, where times count on. top does so on
// a terminal only.
func TestListWatch(t *testing.T) {
	t.Parallel()
	onGroup(t, func(t *testing.T, h *harness) {
		t.Helper()
		pipe, screen, wholes := &stream{}, &stream{}, &stream{}
		ctx, cancel := context.WithCancelCause(context.Background())
		ended := make(chan cmdline.ExitCode)
		for out, size := range map[*stream]func() (int, int){pipe: nil, screen: func() (int, int) { return 80, 7 }} {
			watcher := *h.App
			watcher.Stdout, watcher.Stderr, watcher.Terminal = out, out, size
			go func() { ended <- watcher.Run(ctx, []string{"list", "--watch"}) }()
		}
		whole := *h.App
		whole.Stdout, whole.Terminal = wholes, func() (int, int) { return 100, 40 }
		go func() { ended <- whole.Run(ctx, []string{"top"}) }()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		first := len(pipe.lines())
		h.exec("pause", "nightly")
		time.Sleep(20 * time.Second)
		synctest.Wait()
		lines := pipe.lines()
		if first == 0 || len(lines) <= first || lines[first-1] != "" {
			t.Errorf("%d lines at first, then\n%s", first, strings.Join(lines, "\n"))
		}
		if !slices.ContainsFunc(lines[first:], func(line string) bool {
			return strings.HasPrefix(line, "nightly") && strings.Contains(line, " paused ")
		}) {
			t.Errorf("no pause in\n%s", strings.Join(lines[first:], "\n"))
		}
		screens := strings.Split(strings.Join(screen.lines(), "\n"), "\x1b[H\x1b[J")
		last := screens[len(screens)-1]
		if len(screens) < 20 || strings.Count(last, "\n") > 6 || !strings.Contains(last, "nightly") || !strings.Contains(last, " more lines") {
			t.Errorf("%d screens, the last\n%s", len(screens), last)
		}
		screens = strings.Split(strings.Join(wholes.lines(), "\n"), "\x1b[H\x1b[J")
		if last := screens[len(screens)-1]; len(screens) < 20 || !strings.Contains(last, "INSTANCE ") || !regexp.MustCompile(`\nnightly .*paused`).MatchString(last) {
			t.Errorf("%d screens of top, the last\n%s", len(screens), last)
		}
		cancel(&cmdline.SignalError{Signal: syscall.SIGINT})
		for range 3 {
			if code := <-ended; code != cmdline.ExitOK {
				t.Errorf("exit %d", code)
			}
		}
	})
}

// The command ends with the watching.
func TestListWatchFails(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.events = watched()[:1]
	h.fake.fail["Watch [] since 0"] = admin.ErrDenied
	if code := h.exec("list", "--watch"); code != cmdline.ExitDenied {
		t.Errorf("exit %d, %s", code, h.errs.String())
	}
}
