package commands

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
)

// ended is a run of a trigger that took 41 s.
func ended(state history.State, text string) []history.Entry {
	return []history.Entry{{Count: 1, To: testNow, Run: history.Run{
		Tick: testNow, State: state, InstanceID: "app-2", Token: 4294967313, RunID: "0198c601", Attempt: 1,
		Started: testNow.Add(40 * time.Millisecond), Ended: testNow.Add(41040 * time.Millisecond), Error: text,
	}}}
}

func TestTriggerGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	texts := []string{
		h.transcript("trigger", "nightly"),
		h.transcript("trigger", "nightly", "-o", "json"),
		h.transcript("trigger", "orphan"),
		h.transcript("trigger", "nobody"),
	}
	h.fake.ended = ended("ok", "")
	texts = append(texts, h.transcript("trigger", "nightly", "--wait"), h.transcript("trigger", "orphan", "--wait"))
	h.fake.ended = ended("failed", "no route to host\nstack")
	texts = append(texts, h.transcript("trigger", "nightly", "--wait"), h.transcript("trigger", "nightly", "--wait", "-o", "json"))
	h.fake.fail["Trigger nightly"] = fmt.Errorf("trigger nightly: %w: 10, at most 10 are allowed", admin.ErrBusy)
	texts = append(texts, h.transcript("trigger", "nightly"))
	golden(t, "trigger", strings.Join(texts, "\n"))
}

// Only a run that ended well is a success.
func TestTriggerWaits(t *testing.T) {
	t.Parallel()
	for state, want := range map[history.State]cmdline.ExitCode{
		"ok": cmdline.ExitOK, "failed": cmdline.ExitNo, "timed_out": cmdline.ExitNo, "interrupted": cmdline.ExitNo, "lost": cmdline.ExitNo,
		"skipped": cmdline.ExitNo, "missed": cmdline.ExitNo, "unknown": cmdline.ExitNo,
	} {
		h := newHarness(t)
		h.fake.ended = ended(state, "")
		if code := h.exec("trigger", "nightly", "--wait"); code != want || !strings.Contains(h.out.String(), string(state)) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", state, code, h.out.String(), h.errs.String())
		}
	}
}

// On timeout the request stays queued, and the message says so.
func TestTriggerTimeout(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"trigger nightly --wait": "the request stays: swctl requests nightly shows it",
		"stop-run レポート":          "restart app-1 if the handler ignores its context; swctl show レポート",
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t)
			h.fake.block["AwaitRun nightly"], h.fake.block["StopRun レポート"] = true, true
			begin := time.Now()
			code := h.exec(append(strings.Fields(line), "--timeout", "1m")...)
			if code != cmdline.ExitTimeout || time.Since(begin) != time.Minute || !strings.Contains(h.errs.String(), "not done within 1m0s") ||
				!strings.Contains(h.errs.String(), says) || strings.HasPrefix(line, "trigger") != strings.HasPrefix(h.out.String(), "triggered nightly") {
				t.Errorf("%s: exit %d after %v, stdout %q, stderr %q", line, code, time.Since(begin), h.out.String(), h.errs.String())
			}
		})
	}
}

func TestTriggerPassesOn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec("trigger", "nightly", "--arg", "a=1,2", "--args-json", "[1]", "--reason", "why", "--wait")
	want := admin.TriggerOptions{
		Args: map[string]string{"a": "1,2"}, Payload: []byte("[1]"), By: "alice@host", Reason: "why", WaitForHandler: true,
	}
	if !reflect.DeepEqual(h.fake.triggered, want) {
		t.Errorf("got %+v, want %+v, stderr %q", h.fake.triggered, want, h.errs.String())
	}
	h.exec("stop-run", "レポート", "0198c5ff", "--by", "bob", "--reason", "why")
	if want := (admin.StopOptions{RunID: "0198c5ff", By: "bob", Reason: "why"}); h.fake.stopped != want {
		t.Errorf("got %+v, want %+v, stderr %q", h.fake.stopped, want, h.errs.String())
	}
}

func TestStopRunGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	golden(t, "stop-run", strings.Join([]string{
		h.transcript("stop-run", "レポート", "--reason", "wrong day"),
		h.transcript("stop-run", "レポート", "-o", "json"),
		h.transcript("stop-run", "orphan"),
	}, "\n"))
}
