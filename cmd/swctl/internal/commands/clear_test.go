package commands

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
)

// Clear refuses and deletes as package admin does.
func (f *fakeClient) Clear(ctx context.Context, opts admin.ClearOptions) (done admin.Cleared, err error) {
	if err := f.begin(ctx, fmt.Sprintf("Clear %d %v", opts.Jobs, opts.DryRun)); err != nil {
		return done, err
	}
	if done.Instances, done.Left = []string{}, []string{}; f.live {
		done.Instances = append(done.Instances, "app-1")
	}
	switch {
	case opts.DryRun:
		done.Jobs = len(f.jobs)
		return done, nil
	case f.live && !opts.DespiteInstances:
		return done, fmt.Errorf("clear: %w: app-1", admin.ErrInstancesLive)
	case opts.Jobs != len(f.jobs):
		return done, fmt.Errorf("clear: %w: there are %d jobs, not %d", admin.ErrConflict, len(f.jobs), opts.Jobs)
	}
	done.Jobs, done.Left = len(f.jobs), []string{"_of-others"}
	clear(f.jobs)
	return done, nil
}

// Answers, and the deletions that follow.
func TestClearAsks(t *testing.T) {
	t.Parallel()
	const deleted, asked = "Clear 4 false", "Clear 0 true"
	for _, c := range []struct {
		line, answer string // no answer: there is no terminal
		live         bool
		want         cmdline.ExitCode
		calls        []string
	}{
		{"clear", "4\n", false, cmdline.ExitOK, []string{asked, deleted}},
		{"clear", "3\n", false, cmdline.ExitUnconfirmed, []string{asked}},
		{"clear", "y\n", false, cmdline.ExitUnconfirmed, []string{asked}},
		{"clear", "", false, cmdline.ExitUnconfirmed, nil},
		{"clear", "4\n", true, cmdline.ExitConflict, []string{asked}},
		{"clear --despite-instances", "4\n", true, cmdline.ExitOK, []string{asked, deleted}},
		{"clear --confirm 4", "", false, cmdline.ExitOK, []string{deleted}},
		{"clear --confirm 4", "", true, cmdline.ExitConflict, []string{deleted}},
		{"clear --confirm 5", "", false, cmdline.ExitConflict, []string{"Clear 5 false"}},
		{"clear --confirm all", "", false, cmdline.ExitUsage, nil},
		{"clear --confirm -4", "", false, cmdline.ExitUsage, nil},
		{"clear --dry-run", "", true, cmdline.ExitOK, []string{asked}},
		{"clear nightly", "4\n", false, cmdline.ExitUsage, nil},
	} {
		h := newHarness(t)
		h.fake.live = c.live
		if c.answer != "" {
			h.atTerminal(c.answer)
		}
		code := h.exec(strings.Fields(c.line)...)
		calls := slices.DeleteFunc(slices.Clone(h.fake.calls), func(call string) bool { return !strings.HasPrefix(call, "Clear") })
		if code != c.want || !slices.Equal(calls, c.calls) {
			t.Errorf("%s, answer %q: exit %d, calls %q, stderr %q", c.line, c.answer, code, calls, h.errs.String())
		}
	}
}

func TestClearGolden(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	h := newHarness(t)
	for _, line := range []string{"clear", "clear --dry-run", "clear --dry-run -o json", "clear --confirm 3"} {
		text.WriteString(h.transcript(strings.Fields(line)...))
	}
	h.fake.live = true
	text.WriteString(h.transcript("clear", "--confirm", "4"))
	h.atTerminal("4\n")
	text.WriteString(h.transcript("clear", "--despite-instances"))
	text.WriteString(h.transcript("clear", "--confirm", "0", "--despite-instances", "-o", "json"))
	golden(t, "clear", text.String())
}
