package commands

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
)

// Who answers what, and what becomes of the jobs.
func TestCancelAsks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line, answer string
		want         cmdline.ExitCode
		canceled     []string
	}{
		{"cancel nightly", "y\n", cmdline.ExitOK, []string{"nightly"}},
		{"cancel nightly", "YES\n", cmdline.ExitOK, []string{"nightly"}},
		{"cancel nightly", " y \n", cmdline.ExitOK, []string{"nightly"}},
		{"cancel nightly", "y", cmdline.ExitOK, []string{"nightly"}},
		{"cancel nightly", "n\n", cmdline.ExitUnconfirmed, nil},
		{"cancel nightly", "\n", cmdline.ExitUnconfirmed, nil},
		{"cancel nightly", "", cmdline.ExitUnconfirmed, nil},
		{"cancel nightly", "nightly\n", cmdline.ExitUnconfirmed, nil},
		{"cancel orphan nightly orphan", "y\n", cmdline.ExitOK, []string{"nightly", "orphan"}},
		{"cancel --all", "4\n", cmdline.ExitOK, []string{"broken", "nightly", "orphan", "レポート"}},
		{"cancel --all", "y\n", cmdline.ExitUnconfirmed, nil},
		{"cancel --all", "3\n", cmdline.ExitUnconfirmed, nil},
		{"cancel nobody", "y\n", cmdline.ExitNotFound, nil},
		{"cancel nobody nightly", "y\n", cmdline.ExitNotFound, nil},
		{"cancel nobody nightly --ignore-missing", "y\n", cmdline.ExitOK, []string{"nightly"}},
		{"cancel nobody --ignore-missing", "", cmdline.ExitOK, nil},
		{"cancel nightly --yes", "n\n", cmdline.ExitOK, []string{"nightly"}},
	} {
		h := newHarness(t)
		h.atTerminal(c.answer)
		code := h.exec(strings.Fields(c.line)...)
		if got := h.canceled(); code != c.want || !slices.Equal(got, c.canceled) {
			t.Errorf("%s, answer %q: exit %d, canceled %q, stderr %q", c.line, c.answer, code, got, h.errs.String())
		}
	}
}

// canceled lists the jobs that Cancel was called for.
func (h *harness) canceled() []string {
	var names []string
	for _, call := range h.fake.calls {
		if name, ok := strings.CutPrefix(call, "Cancel "); ok {
			names = append(names, name)
		}
	}
	return names
}

func TestCancelQuestionsGolden(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, line := range []string{"cancel nightly", "cancel orphan nightly", "cancel --all"} {
		h := newHarness(t)
		h.atTerminal("no\n")
		texts = append(texts, h.transcript(strings.Fields(line)...))
	}
	golden(t, "cancel-questions", strings.Join(texts, "\n"))
}

// Jobs that run after those which are canceled are named before and after, but for those that are
// canceled, too.
func TestCancelNamesChildren(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"cancel nightly":               "invalid without what is canceled, which they run after: a, b",
		"cancel nightly a":             "invalid without what is canceled, which they run after: b",
		"cancel nightly a b":           "",
		"cancel orphan":                "",
		"cancel nightly --yes -o json": "invalid without what is canceled, which they run after: a, b: swctl set NAME --after, or swctl undelete",
	} {
		h := newHarness(t)
		for _, name := range []string{"a", "b"} {
			child := h.fake.jobs["nightly"]
			child.Name, child.Job.Name, child.Job.Schedule, child.Job.After = name, name, "@after", []string{"nightly"}
			h.fake.jobs[name] = child
		}
		h.atTerminal("y\n")
		code := h.exec(strings.Fields(line)...)
		said := h.errs.String()
		if code != cmdline.ExitOK || !strings.Contains(said, want) || want == "" && strings.Contains(said, "invalid") {
			t.Errorf("%s: exit %d, %q", line, code, said)
		}
	}
}

// Without a terminal nothing is asked, of a person or of a server.
func TestCancelWithoutTerminal(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"cancel nightly", "cancel --all", "cancel a b --ignore-missing -o json"} {
		h := newHarness(t)
		h.Stdin = strings.NewReader("y\n")
		if code := h.exec(strings.Fields(line)...); code != cmdline.ExitUnconfirmed || len(h.fake.calls) > 0 || h.out.Len() > 0 {
			t.Errorf("%s: exit %d, calls %q, stdout %q", line, code, h.fake.calls, h.out.String())
		}
	}
}

// Nothing is kept open while a person thinks, and thinking is not timed.
func TestCancelThinkingTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.Interactive = true
		h.Stdin = readerFunc(func(p []byte) (int, error) {
			<-time.After(time.Hour)
			return copy(p, "y\n"), nil
		})
		if code := h.exec("cancel", "nightly", "--timeout", "1s"); code != cmdline.ExitOK {
			t.Errorf("exit %d, stderr %q", code, h.errs.String())
		}
		want := []string{"Dial", "Get nightly", "Close", "Dial", "Cancel nightly", "Close"}
		if !slices.Equal(h.fake.calls, want) {
			t.Errorf("calls %q, want %q", h.fake.calls, want)
		}
	})
}

// A failure halfway tells which jobs are gone, failed and were not tried.
func TestCancelHalfwayGolden(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, format := range []string{"table", "json"} {
		h := newHarness(t)
		h.fake.fail["Cancel nightly"] = fmt.Errorf("cancel nightly: %w in time", admin.ErrUnavailable)
		texts = append(texts, h.transcript("cancel", "--all", "--yes", "-o", format))
	}
	golden(t, "cancel-halfway", strings.Join(texts, "\n"))
}

// A job that somebody else cancels meanwhile is an error only where it was
// named and missing jobs are errors.
func TestCancelRace(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]cmdline.ExitCode{
		"cancel --all --yes":                           cmdline.ExitOK,
		"cancel nightly orphan --yes":                  cmdline.ExitNotFound,
		"cancel nightly orphan --yes --ignore-missing": cmdline.ExitOK,
	} {
		h := newHarness(t)
		h.fake.fail["Cancel orphan"] = admin.ErrNotFound
		if code := h.exec(strings.Fields(line)...); code != want || !strings.Contains(h.out.String(), "canceled nightly") {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", line, code, h.out.String(), h.errs.String())
		}
	}
}
