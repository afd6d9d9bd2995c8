package commands

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
)

// A past tick is read in the job's time zone, and a retry names the tick of the run.
func TestPastTickPassesOn(t *testing.T) {
	t.Parallel()
	three := time.Date(2026, 11, 21, 2, 0, 0, 0, time.UTC)
	for line, want := range map[string]admin.TriggerOptions{
		"trigger nightly --tick 2026-11-21T03:00:00+01:00 --again --reason why": {Tick: three, Again: true, Reason: "why"},
		"retry nightly --reason why --wait":                                     {Tick: three, Reason: "why", WaitForHandler: true},
		"retry nightly 0198c5e2":                                                {Tick: three},
	} {
		h := newHarness(t)
		h.fake.ended = ended("ok", "")
		want.By = "alice@host"
		code := h.exec(strings.Fields(line)...)
		got := h.fake.triggered
		got.Tick, want.Tick = got.Tick.UTC(), want.Tick.UTC()
		if code != cmdline.ExitOK || !reflect.DeepEqual(got, want) || !strings.HasPrefix(h.out.String(), "triggered nightly") {
			t.Errorf("%s: exit %d, %+v, want %+v, stdout %q, stderr %q", line, code, got, want, h.out.String(), h.errs.String())
		}
	}
	h := newHarness(t)
	if code := h.exec("retry", "nightly", "-o", "json"); code != cmdline.ExitOK || !strings.Contains(h.out.String(), `"kind": "TriggerResult"`) {
		t.Errorf("exit %d, stdout %q, stderr %q", code, h.out.String(), h.errs.String())
	}
}

// Each refusal has its exit code, and says how to go on.
func TestPastTickRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		line string
		fail error
		code cmdline.ExitCode
		says string
	}{
		{"trigger nightly --again", nil, cmdline.ExitUsage, "--again needs the --tick"},
		{"trigger nightly --tick yesterday", nil, cmdline.ExitUsage, "yesterday"},
		{"trigger nightly --tick 03:00", admin.ErrTickDone, cmdline.ExitConflict, "--again runs it again"},
		{"trigger nightly --tick 03:00", admin.ErrTickOpen, cmdline.ExitConflict, "swctl history nightly shows its attempts"},
		{"trigger nobody --tick 03:00", nil, cmdline.ExitNotFound, "no such job"},
		{"retry nightly", admin.ErrTickOpen, cmdline.ExitConflict, "swctl requests nightly"},
		{"retry nightly ffff", nil, cmdline.ExitNotFound, "no such run of a tick"},
		{"retry orphan", nil, cmdline.ExitNotFound, "swctl trigger orphan"},
		{"retry nobody", nil, cmdline.ExitNotFound, "no such job"},
	} {
		h := newHarness(t)
		if tt.fail != nil {
			h.fake.fail["Trigger nightly"] = fmt.Errorf("trigger nightly: %w", tt.fail)
		}
		if code := h.exec(strings.Fields(tt.line)...); code != tt.code || !strings.Contains(h.errs.String(), tt.says) || h.out.Len() > 0 {
			t.Errorf("%s: exit %d, want %d, stdout %q, stderr %q", tt.line, code, tt.code, h.out.String(), h.errs.String())
		}
	}
}
