package commands

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
)

func TestClockTime(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{ // now is 09:24:05 in Berlin
		"2026-11-22T03:00:00Z":      "2026-11-22T03:00:00Z",
		"2026-11-22T03:00:00+09:00": "2026-11-21T18:00:00Z",
		"2026-11-22 03:00:00Z":      "2026-11-22T03:00:00Z",
		"2026-11-22 03:00:00 CET":   "2026-11-22T02:00:00Z",
		"2026-10-25 02:30:00 CEST":  "2026-10-25T00:30:00Z", // the hour that comes twice
		"2026-10-25 02:30:00 CET":   "2026-10-25T01:30:00Z",
		"2026-11-22 03:00:00 UTC":   "2026-11-22T03:00:00Z",
		"2026-11-22 03:00:00":       "2026-11-22T02:00:00Z",
		"2026-11-22 03:00":          "2026-11-22T02:00:00Z",
		"2026-11-22T03:00":          "2026-11-22T02:00:00Z",
		"2026-11-22T03:00:07":       "2026-11-22T02:00:07Z",
		"2026-07-01":                "2026-06-30T22:00:00Z",
		"03:00":                     "2026-11-21T02:00:00Z",
		"23:59:59":                  "2026-11-21T22:59:59Z",
	} {
		parsed, err := cmdline.ParseClockTime("at", text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := parsed.In(berlin, testNow); err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s: %v, %v; want %s", text, got.UTC(), err, want)
		}
	}
	for _, text := range []string{"3", "25:00", "2026-13-01", "noon"} {
		if parsed, err := cmdline.ParseClockTime("at", text); err == nil {
			t.Errorf("%s: taken as %+v", text, parsed)
		}
	}
	for _, zone := range []string{"PST", "+01"} { // swctl prints no such time for a job in Berlin
		parsed, err := cmdline.ParseClockTime("at", "2026-11-22 03:00:00 "+zone)
		if err != nil {
			t.Error(err)
			continue
		}
		if got, err := parsed.In(berlin, testNow); err == nil || !strings.Contains(err.Error(), zone+" is not a time zone of Europe/Berlin") {
			t.Errorf("%s in Berlin: %v, %v", zone, got, err)
		}
	}
}

func TestResumeTellsWhatBecomesOfTheMissed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		missed int
		policy string
		want   string
	}{
		{0, "all", "no tick came while it was paused"},
		{1, "skip", "1 tick came while it was paused, it does not run"},
		{1, "once", "1 tick came while it was paused, it runs"},
		{1, "all", "1 tick came while it was paused, it runs"},
		{3, "skip", "3 ticks came while it was paused, none of them runs"},
		{3, "once", "3 ticks came while it was paused, the latest runs"},
		{3, "all", "3 ticks came while it was paused, each of them runs"},
	} {
		h := newHarness(t)
		h.exec("pause", "nightly")
		h.fake.missed = c.missed
		want := "resumed nightly; " + c.want + "  next 2026-11-21 10:24:05 CET (in 1h)\n"
		if code := h.exec("resume", "nightly", "--missed", c.policy); code != cmdline.ExitOK || h.out.String() != want {
			t.Errorf("%d, %s: exit %d\n got %swant %s%s", c.missed, c.policy, code, h.out.String(), want, h.errs.String())
		}
	}
}

// A failure halfway tells which jobs were paused, failed and were not tried.
func TestPauseHalfway(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.fail["Pause orphan"] = fmt.Errorf("pause orphan: %w", admin.ErrUnavailable)
	code := h.exec("pause", "nightly", "orphan", "レポート")
	if code != cmdline.ExitUnavailable || !strings.HasPrefix(h.out.String(), "paused nightly until it is resumed, by alice@host") ||
		!strings.Contains(h.errs.String(), "did not answer; not tried: レポート") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, h.out.String(), h.errs.String())
	}
}

// A change that is accepted and cannot be read afterwards was accepted.
func TestPauseUnreadable(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.onGet = func() {
		if slices.Contains(h.fake.calls, "Pause nightly") {
			h.fake.fail["Get nightly"] = errors.New("lost")
		}
	}
	if code := h.exec("pause", "nightly"); code != cmdline.ExitOK || !strings.HasPrefix(h.out.String(), "paused nightly") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, h.out.String(), h.errs.String())
	}
}
