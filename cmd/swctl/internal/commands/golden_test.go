package commands

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

func TestHelpGolden(t *testing.T) {
	t.Parallel()
	topics := []string{"", "exit-codes", "schedule", "help"}
	for _, cmd := range newHarness(t).Commands {
		topics = append(topics, cmd.Name)
	}
	for _, topic := range topics {
		args := slices.DeleteFunc([]string{"help", topic}, func(s string) bool { return s == "" })
		t.Run("help "+topic, func(t *testing.T) {
			t.Parallel()
			golden(t, strings.ReplaceAll(strings.TrimSuffix("help-"+topic, "-"), " ", "-"), newHarness(t).transcript(args...))
		})
	}
}

// Every command's help has an example that is a command line of that command.
func TestHelpHasExamples(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, cmd := range h.Commands {
		if !strings.HasPrefix(cmd.Examples, "swctl "+cmd.Name) {
			t.Errorf("%s: the first example is %q", cmd.Name, cmd.Examples)
		}
	}
}

// The help of list names all that STATE can be.
func TestHelpNamesEveryState(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec("help", "list")
	said, _, _ := strings.Cut(h.out.String(), "The column REASON")
	for _, state := range words.States() {
		if !regexp.MustCompile(`\b` + state + `\b`).MatchString(said) {
			t.Errorf("%s is not in %q", state, said)
		}
	}
}

func TestHelpAnywhere(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, cmd := range h.Commands {
		h.exec("help", cmd.Name)
		want := h.out.String()
		for _, args := range [][]string{
			{cmd.Name, "-h"}, {cmd.Name, "--help"}, {"-h", cmd.Name}, {"--zk", "z", cmd.Name, "a", "-h", "b"},
			{cmd.Name, "--bogus", "--help"}, {cmd.Name, "--output", "-h"},
		} {
			if code := h.exec(args...); code != cmdline.ExitOK || h.out.String() != want || h.errs.Len() > 0 {
				t.Errorf("swctl %q: exit %d, stderr %q, stdout\n%s", args, code, h.errs.String(), h.out.String())
			}
		}
	}
	if len(h.fake.calls) > 0 {
		t.Errorf("help called the server: %q", h.fake.calls)
	}
	for _, args := range [][]string{nil, {"-h"}, {"--help"}, {"help", "-o", "bad"}} {
		if code := h.exec(args...); code != cmdline.ExitOK || !strings.HasPrefix(h.out.String(), "swctl ") {
			t.Errorf("swctl %q: exit %d, stdout\n%s", args, code, h.out.String())
		}
	}
}

// Each file is one command's output in its forms; a line is a command line.
func TestOutputGolden(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][][]string{
		"list":           {{"list"}, {"ls", "-o", "json"}},
		"show":           {{"show", "nightly"}, {"show", "レポート"}, {"show", "orphan"}, {"show", "broken"}, {"show", "nightly", "-o", "json"}, {"show", "orphan", "-o", "json"}},
		"instances":      {{"instances"}, {"instances", "-o", "json"}, {"instances", "--gone"}, {"instances", "--gone", "-o", "json"}},
		"instances-show": {{"instances", "show", "app-1"}, {"instances", "show", "app-1", "-o", "json"}, {"instances", "show"}},
		"requests": {
			{"requests", "nightly"}, {"show", "nightly"}, {"requests", "nightly", "-o", "json"},
			{"requests", "cancel", "nightly", "0198c602"}, {"requests", "cancel", "nightly", "-o", "json"},
			{"requests", "cancel", "nightly"}, {"requests", "cancel", "nightly", "0198c602"}, {"requests", "orphan"},
			{"requests", "nope"}, {"requests", "cancel", "nope"}, {"requests"}, {"requests", "cancel"}, {"requests", "cancel", "a", ""},
			{"requests", "cancl", "nightly"}, {"withdraw", "nightly"},
		},
		"backfill": {
			{"backfill", "nightly", "--from", "2026-11-01", "--dry-run"},
			{"backfill", "nightly", "--from", "2026-11-01", "--to", "2026-11-20 03:00", "--reason", "the disk was full"},
			{"backfill", "nightly", "--from", "2026-11-01", "--only", "missed,failed", "-o", "json"},
			{"backfill", "nightly"}, {"backfill", "nightly", "--from", "yesterday"}, {"backfill", "nobody", "--from", "03:00"}, {"backfill"},
		},
		"version": {{"version"}, {"version", "-o", "json"}, {"--version"}},
		"config":  {{"config", "view"}, {"config", "view", "--timeout", "3s", "-o", "json"}, {"config"}, {"config", "edit"}},
		"next": {
			{"next", "nightly", "-n", "2"},
			{"next", "nightly", "-n", "2", "-o", "json"},
			{"next", "nightly", "-n", "1", "--from", "2026-12-24 03:00"},
			{"next", "--cron", "*/20 * * * *", "-n", "3"},
			{"next", "--cron", "@at 2026-12-24T18:00:00+01:00", "--tz", "Europe/Berlin"},
			{"next", "--cron", "@every 12h", "-n", "1", "-o", "json"},
			{"next", "--cron", "@manually"}, {"next", "--cron", "@always"},
		},
		"history": {
			{"history", "nightly"}, {"history", "nightly", "--failed", "-n", "2"}, {"history", "orphan"},
			{"history", "nobody"}, {"history", "nightly", "-n", "4", "-o", "json"}, {"history", "orphan", "-o", "json"},
		},
		"why": {
			{"why", "nightly"}, {"why", "nightly", "--at", "03:00", "-o", "json"}, {"why", "nobody"},
			{"why", "nobody", "--at", "03:00"}, {"why", "nightly", "--at", "2026-11-21 03:00:00 PST"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			if name == "requests" {
				h.fake.requests = map[string][]admin.Request{"nightly": nightlyRequests()}
			}
			day := func(d int) time.Time { return time.Date(2026, 11, d, 2, 0, 0, 0, time.UTC) }
			h.fake.pastTicks = admin.BackfillTicks{
				Slot: "nightly", Ticks: []admin.BackfillTick{{Tick: day(3), Past: "missed", Attempt: 1}, {Tick: day(5), Past: "failed", Attempt: 3}},
				LeftOut: map[string]int{"again": 15, "forgotten": 2},
			}
			var texts []string
			for _, args := range lines {
				texts = append(texts, h.transcript(args...))
			}
			golden(t, name, strings.Join(texts, "\n"))
		})
	}
}

func TestEmptyGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.jobs, h.fake.instances = nil, nil
	golden(t, "empty", strings.Join([]string{
		h.transcript("list"), h.transcript("list", "-o", "json"),
		h.transcript("instances"), h.transcript("instances", "-o", "json"),
	}, "\n"))
}

func TestLogGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.log = []admin.LogEntry{
		{At: testNow.Add(-time.Minute), Kind: admin.LogCancel, Jobs: []string{"nightly", "gone"}, By: "alice", From: "root@vm", Reason: "no longer needed"},
		{At: testNow.Add(-time.Hour), Kind: "disable", Jobs: []string{"report"}, Where: "host db8", By: "root@vm", From: "root@vm"},
		{At: testNow.Add(-26 * time.Hour), Kind: "drain", Jobs: []string{}, Where: "app-2", By: "bob\x1b[31m", From: "bob@vm"},
		{At: testNow.Add(-50 * time.Hour), Kind: "submit", Jobs: []string{"a", "b"}, More: 7, By: "app-1 (v1.2.0)", From: "app-1 (v1.2.0)"},
	}
	var texts []string
	for _, args := range [][]string{
		{"log"}, {"log", "nightly"}, {"log", "-n", "2", "-o", "json"}, {"log", "nobody"}, {"log", "nobody", "-o", "json"},
		{"log", "import[3]"}, {"log", "a", "b"}, {"log", "-n", "0"},
		{"why", "gone"}, {"history", "gone[3]", "-o", "json"}, {"cancel", "--yes", "gone"}, {"show", "never"}, {"cancel", "--yes", "nightly", "nightli"},
	} {
		texts = append(texts, h.transcript(args...))
	}
	golden(t, "log", strings.Join(texts, "\n"))
}

// Without an owner, submit says why.
func TestSubmitUnownedGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.adopter = ""
	texts := []string{h.transcript("submit", "weekly", "@weekly")}
	h.fake.fail["AwaitOwner monthly"] = fmt.Errorf("read owner: %w", admin.ErrUnavailable)
	texts = append(texts, h.transcript("submit", "monthly", "@monthly"))
	gone := h.fake.jobs["nightly"] // its owner is recorded, but lives no more
	gone.State = admin.StateUnowned
	h.fake.jobs["nightly"] = gone
	texts = append(texts, h.transcript("submit", "nightly", "@daily", "--replace"))
	golden(t, "submit-unowned", strings.Join(texts, "\n"))
}

// Each error in both forms.
func TestErrorGolden(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, err := range []error{
		admin.ErrNotFound, admin.ErrConflict, admin.ErrUnavailable, admin.ErrDenied,
		job.Invalid("Name", "a/b", errors.New("contains '/'")),
		errors.New("one\ntwo\n\x1b[31mred"),
	} {
		h := newHarness(t)
		h.fake.fail["Get nightly"] = fmt.Errorf("job \"nightly\": %w", err)
		texts = append(texts, h.transcript("show", "nightly"), h.transcript("show", "nightly", "-o", "json"))
	}
	golden(t, "errors", strings.Join(texts, "\n"))
}

// Whatever is printed under -o json is one JSON document, on both streams.
func TestJSONIsJSON(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"list"}, {"show", "nightly"}, {"instances"}, {"version"}, {"next", "nightly"},
		{"submit", "new", "@daily"}, {"set", "nightly", "--retries", "1"}, {"pause", "nightly"}, {"resume", "nightly"}, {"history", "nightly"}, {"why", "nightly"}, {"trigger", "nightly"}, {"trigger", "orphan"}, {"stop-run", "レポート"}, {"stop-run", "nightly"}, {"cancel", "nightly", "--yes"},
		{"show", "nobody"}, {"bogus"}, {"list", "--bogus"}, {"show"}, {"next", "--cron", "x"}, {"list", "--timeout", "x"},
	} {
		h := newHarness(t)
		code := h.exec(append(args, "-o", "json")...)
		text := h.out.Bytes()
		if code != cmdline.ExitOK {
			text = h.errs.Bytes()
		}
		var document map[string]any
		if err := json.Unmarshal(text, &document); err != nil {
			t.Errorf("swctl %q: %v in %q", args, err, text)
			continue
		}
		want := "apiVersion"
		if code != cmdline.ExitOK {
			want = "error"
		}
		if _, ok := document[want]; !ok || h.out.Len() > 0 && h.errs.Len() > 0 {
			t.Errorf("swctl %q: stdout %q, stderr %q", args, h.out.String(), h.errs.String())
		}
	}
}

// What cannot be read is shown as that.
func TestUnreadableGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	job := h.fake.jobs["orphan"]
	job.LastRun = &history.Run{State: "unreadable", Error: `tick record "zzz": invalid character 'z'`}
	h.fake.jobs = map[string]admin.JobStatus{"orphan": job}
	h.fake.instances = []admin.Instance{{ID: "app-3", State: "unreadable"}}
	golden(t, "unreadable", strings.Join([]string{
		h.transcript("list"), h.transcript("show", "orphan"), h.transcript("show", "orphan", "-o", "json"), h.transcript("instances"),
	}, "\n"))
}

// Texts that an operator must not overlook.
func TestTroubleGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	hours := func(n int) time.Time { return testNow.Add(time.Duration(n) * time.Hour) }
	pause := &admin.Pause{Since: hours(-5), Until: hours(19), By: "alice@host", Reason: "db migration", Missed: "once"}
	change := func(name string, change func(*admin.JobStatus)) {
		job := h.fake.jobs[name]
		change(&job)
		h.fake.jobs[name] = job
	}
	change("nightly", func(j *admin.JobStatus) { j.Paused, j.NextRun = pause, hours(42) })
	change("orphan", func(j *admin.JobStatus) {
		j.Overdue = hours(-2)
		j.Paused = &admin.Pause{Since: hours(-1)}
		j.Watermark = hours(2)
		j.HeldRun = &history.Run{Tick: hours(-2), State: "interrupted", NextAttempt: "rerun", NextAttemptAt: hours(-1)}
	})
	change("レポート", func(j *admin.JobStatus) {
		j.Watermark, j.Overdue = hours(-50), hours(-26)
		j.Alarm = &admin.Alarm{Tick: hours(-26), InstanceID: "app-2", At: hours(-26).Add(time.Minute)}
		j.LastRun.Manual, j.LastRun.State, j.LastRun.Ended = "0198c600", "timed_out", testNow
		j.LastRun.NextAttempt, j.LastRun.NextAttemptAt = "retry", hours(1)
	})
	behind, ahead := -5*time.Second, 3*time.Hour+90*time.Second
	h.fake.instances[0].ClockOffset, h.fake.instances[1].ClockOffset = &behind, &ahead
	h.fake.instances[1].Withdrawn = true
	h.fake.instances[1].State, h.fake.instances[1].ClockBound = admin.InstanceWrongClock, 2*time.Millisecond
	h.fake.instances[0].Order = &admin.Order{InstanceID: "app-1", Incarnation: "1", By: "alice@host", Reason: "disk\nfull", At: hours(-1)}
	h.fake.orders = []admin.Order{{InstanceID: "app-9", By: "bob", At: hours(-50)}}
	texts := []string{h.transcript("list"), h.transcript("instances"), h.transcript("instances", "-o", "json")}
	for _, name := range []string{"nightly", "orphan", "レポート"} {
		texts = append(texts, h.transcript("show", name))
	}
	golden(t, "trouble", strings.Join(append(texts, h.transcript("show", "レポート", "-o", "json")), "\n"))
}

// A job that was accepted and could not be read afterwards was accepted.
func TestSubmitUnreadable(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.fail["AwaitOwner weekly"] = fmt.Errorf("job %q: %w", "weekly", admin.ErrUnavailable)
	code := h.exec("submit", "weekly", "@weekly")
	if want := "created weekly v1  owner unknown: job \"weekly\": ZooKeeper did not answer  next 2026-11-21 09:24:05 UTC (in 1h)\n"; code != cmdline.ExitOK || h.out.String() != want {
		t.Errorf("exit %d, stdout %q, stderr %q", code, h.out.String(), h.errs.String())
	}
}
