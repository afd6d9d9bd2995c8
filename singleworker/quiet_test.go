package singleworker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// A job that skips every other tick warns once in ten minutes; missed ticks are warned of each
// time.
func TestSkippedTicksWarnOnceInAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelWarn}))
		q := quiet{}
		row := func(state history.State, reason history.Reason) ticks.Entry {
			return ticks.Entry{Run: zkrec.Run{Tick: time.Now().UnixMilli(), State: state}, Count: 2, Reason: reason}
		}
		for range 60 * 60 / 2 {
			q.notRun(log, "slow", row(history.StateSkipped, history.ReasonOverlap))
			time.Sleep(2 * time.Second)
		}
		if n := strings.Count(text.String(), "\n"); n != 6 || !strings.Contains(text.String(), "since_last_warning=598") {
			t.Errorf("%d lines in an hour, want 6 with what they leave out:\n%s", n, &text)
		}
		text.Reset()
		q.notRun(log, "slow", row(history.StateSkipped, history.ReasonPaused))
		q.notRun(log, "other", row(history.StateSkipped, history.ReasonOverlap))
		for range 3 {
			q.notRun(log, "slow", row(history.StateMissed, history.ReasonStalled))
		}
		if n := strings.Count(text.String(), "\n"); n != 5 {
			t.Errorf("%d lines, want one for each other reason, other job and missed row:\n%s", n, &text)
		}
	})
}
