package ticks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// at reads a time of the day that the tables are about: "10:00:30", "10:00" or
// "10:00:30.250".
func at(t *testing.T, text string) time.Time {
	t.Helper()
	if strings.Count(text, ":") == 1 {
		text += ":00"
	}
	parsed, err := time.Parse("2006-01-02 15:04:05", "2026-03-03 "+text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func rfc(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// ms is at in a record; no text is no time.
func ms(t *testing.T, text string) int64 {
	t.Helper()
	if text == "" {
		return 0
	}
	return at(t, text).UnixMilli()
}

func schedule(tb testing.TB, text string) *cronexpr.Schedule {
	tb.Helper()
	s, err := cronexpr.Parse(text, time.UTC)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// clock is the time of day, as short as at would read it.
func clock(ms int64) string {
	text := time.UnixMilli(ms).UTC().Format("15:04:05.999")
	if strings.Count(text, ":") == 2 {
		text = strings.TrimSuffix(text, ":00")
	}
	return text
}

// say is a plan as the tables write it, one string for each thing that it does
// to before.
func say(before ticks.Record, p ticks.Plan) string {
	var did []string
	add := func(format string, args ...any) { did = append(did, fmt.Sprintf(format, args...)) }
	for _, e := range p.Entries {
		what := string(e.State)
		if e.Reason != "" {
			what += "(" + string(e.Reason) + ")"
		}
		switch {
		case e.RunID != "":
			add("%s %s#%d", what, subject(e.Run), e.Attempt)
		case e.Count > 0:
			add("%s %s to %s, %d", what, clock(e.Tick), clock(e.To), e.Count)
		default:
			add("%s %s", what, clock(e.Tick))
		}
	}
	if p.Opens {
		add("run %s#%d", subject(p.Record.Run), p.Record.Attempt)
	}
	if p.Change {
		if p.Record.Watermark != before.Watermark {
			add("through %s", clock(p.Record.Watermark))
		}
		if p.Record.NextAttempt != before.NextAttempt || p.Record.NextAttempt != "" {
			add("again %q at %s", p.Record.NextAttempt, clock(p.Record.NextAttemptAt))
		}
	}
	if p.Change && p.Record.Held.NextAttempt != "" {
		add("holds %s#%d", subject(p.Record.Held.Run), p.Record.Held.Attempt)
	}
	if p.Request != "" {
		add("done %s", p.Request)
	}
	if !p.Wake.IsZero() {
		add("wake %s", clock(p.Wake.UnixMilli()))
	}
	if p.Change && len(did) == 0 {
		add("an empty change")
	}
	return strings.Join(did, "; ")
}

func subject(r zkrec.Run) string {
	if r.Manual != "" {
		return r.Manual
	}
	return clock(r.Tick)
}

// The deciding owner in the tables, and the previous one.
const (
	me    = "me"
	other = "other"
)

var tokens = map[string]int64{other: 1, me: 2}

// run is the record's run: of a tick, by an owner, from one time to another.
func run(t *testing.T, state history.State, tick, sid, started, ended string) zkrec.Run {
	t.Helper()
	return zkrec.Run{
		Tick: ms(t, tick), RunID: "r1", SID: sid, Token: tokens[sid], Attempt: 1,
		State: state, Started: ms(t, started), Ended: ms(t, ended),
	}
}
