package commands

import (
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/history"
)

// On the days when clocks change.
func TestNextGoldenDST(t *testing.T) {
	t.Parallel()
	newYork := []string{"--tz", "America/New_York", "-n", "6"}
	var texts []string
	for _, c := range []struct{ now, cron string }{
		{"2026-03-07T12:00:00Z", "0 30 2 * * ?"},
		{"2026-11-01T04:30:00Z", "0 */20 * * * ?"},
		{"2026-10-31T12:00:00Z", "30 1 * * *"},
	} {
		h := newHarness(t)
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		h.Now = func() time.Time { return now }
		h.vars = nil // and no server type is needed
		texts = append(texts, h.transcript(append([]string{"next", "--cron", c.cron}, newYork...)...))
		if len(h.fake.calls) > 0 {
			t.Errorf("next --cron called the server: %q", h.fake.calls)
		}
	}
	golden(t, "next-dst", strings.Join(texts, "\n"))
}

// Each document is to be had as YAML and as names, and one without names says so.
func TestFormatsGolden(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, args := range [][]string{
		{"list", "-o", "name"}, {"show", "nightly", "-o", "yaml"}, {"instances", "-o", "name"}, {"history", "nightly", "-o", "name"},
		{"pause", "nightly", "orphan", "-o", "name"}, {"requests", "nightly", "-o", "name"}, {"version", "-o", "name"}, {"version", "-o", "yaml"},
		{"show", "nobody", "-o", "yaml"}, {"show", "nobody", "-o", "name"}, {"watch", "-o", "yaml"}, {"watch", "-o", "name"},
	} {
		h := newHarness(t)
		h.fake.requests = map[string][]admin.Request{"nightly": nightlyRequests()}
		h.fake.events = watched()[1:3]
		h.fake.fail["Watch [] since 0"] = admin.ErrDenied
		texts = append(texts, h.transcript(args...))
	}
	golden(t, "formats", strings.Join(texts, "\n"))
}

// On a terminal, tables are as wide as it is, and lose nothing; in a pipe they have one line a row.
func TestTerminalGolden(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, args := range [][]string{{"list"}, {"history", "nightly"}, {"instances"}, {"list", "-o", "wide"}, {"requests", "nightly"}} {
		h := newHarness(t)
		h.fake.requests = map[string][]admin.Request{"nightly": nightlyRequests()}
		h.fake.entries["nightly"][1].RunID = "0198c5e2-7b1e-4000-8000-3c5e1f2a9d04"
		h.exec(args...)
		_, rows, _ := strings.Cut(h.out.String(), "\n")
		h.Terminal = func() (int, int) { return 80, 24 }
		h.vars["NO_COLOR"] = "1"
		texts = append(texts, h.transcript(args...))
		for line := range strings.Lines(h.out.String()) {
			if len([]rune(line)) > 81 {
				t.Errorf("%v: too long: %s", args, line)
			}
		}
		narrow := strings.ReplaceAll(h.out.String(), ",", "")
		for word := range strings.FieldsSeq(rows) {
			if !strings.Contains(narrow, strings.ReplaceAll(word, ",", "")) {
				t.Errorf("%v: %s is lost", args, word)
			}
		}
	}
	golden(t, "terminal", strings.Join(texts, "\n"))
}

func TestColors(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec("list")
	if strings.Contains(h.out.String(), "\x1b") {
		t.Errorf("colors in a pipe: %q", h.out.String())
	}
	h.Terminal = func() (int, int) { return 200, 24 }
	for _, args := range [][]string{{"list"}, {"history", "nightly"}, {"instances"}} {
		if h.exec(args...); !strings.Contains(h.out.String(), "\x1b[3") && !strings.Contains(h.out.String(), "\x1b[1;31m") {
			t.Errorf("%v: no colors: %q", args, h.out.String())
		}
	}
	if h.exec("list"); !strings.Contains(h.out.String(), "\x1b[1;31mnobody may run it\x1b[0m") || !strings.Contains(h.out.String(), "\x1b[32mok\x1b[0m") {
		t.Errorf("%q", h.out.String())
	}
	for name, value := range map[string]string{"NO_COLOR": "1", "TERM": "dumb"} {
		h.vars = map[string]string{cmdline.EnvServerType: "billing", name: value}
		if h.exec("list"); strings.Contains(h.out.String(), "\x1b") {
			t.Errorf("%s=%s: %q", name, value, h.out.String())
		}
	}
}

// The beginning of the ID of a run that is in progress is enough.
func TestStopRunByBeginning(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	job := h.fake.jobs["レポート"]
	job.LastRun.RunID = "0198c5ff-7b1e-4000-8000-3c5e1f2a9d04"
	for given, want := range map[string]string{"0198": job.LastRun.RunID, job.LastRun.RunID: job.LastRun.RunID, "0199": "0199", "": ""} {
		args := []string{"stop-run", "レポート", given}
		if given == "" {
			args = args[:2]
		}
		if code := h.exec(args...); code != cmdline.ExitOK || h.fake.stopped.RunID != want {
			t.Errorf("%q: exit %d, %q stopped, want %q", given, code, h.fake.stopped.RunID, want)
		}
	}
	job.Slots = []admin.JobStatus{{LastRun: job.LastRun}, {LastRun: &history.Run{State: history.StateRunning, RunID: "0198c5aa"}}}
	h.fake.jobs["レポート"] = job
	if code := h.exec("stop-run", "レポート", "0198"); code != cmdline.ExitUsage || !strings.Contains(h.errs.String(), "more than one") {
		t.Errorf("exit %d, %s", code, h.errs.String())
	}
}

// Times are shown as a reader wants them.
func TestTimesGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.sharded()
	var texts []string
	for _, args := range [][]string{
		{"list", "--time", "utc"}, {"history", "nightly", "--time", "relative", "-n", "3"}, {"history", "nightly", "--time", "utc", "-n", "3"},
		{"instances", "--time", "utc"}, {"show", "nightly", "--time", "utc"}, {"list", "--time", "local"},
	} {
		texts = append(texts, h.transcript(args...))
	}
	local := texts[len(texts)-1]
	if want := plain.Absolute(h.fake.jobs["nightly"].NextRun, time.Local); !strings.Contains(local, want) { //nolint:gosmopolitan // --time local
		t.Errorf("no %q in %s", want, local)
	}
	golden(t, "times", strings.Join(texts[:len(texts)-1], "\n"))
}
