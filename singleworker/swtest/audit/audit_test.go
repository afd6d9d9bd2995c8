package audit_test

import (
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/swtest/audit"
)

func at(second float64) time.Time {
	return time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC).Add(time.Duration(second * float64(time.Second)))
}

// ran is a run of job "j"; it never ends if end is 0.
func ran(instance string, token int64, tick, start, end float64) audit.Run {
	r := audit.Run{Job: "j", Instance: instance, Token: token, Tick: at(tick), Attempt: 1, Start: at(start)}
	if end != 0 {
		r.End = at(end)
	}
	return r
}

// attempt is a later attempt at a tick.
func attempt(n int, r audit.Run) audit.Run {
	r.Attempt = n
	return r
}

func manual(r audit.Run) audit.Run {
	r.Tick = time.Time{}
	return r
}

func of(job string, r audit.Run) audit.Run {
	r.Job = job
	return r
}

// TestRuns gives false evidence, which must be found, and true evidence, in which nothing may be
// found.
func TestRuns(t *testing.T) {
	t.Parallel()
	type rules = []audit.Rule
	first, second := ran("a", 1, 1, 1, 2), ran("b", 2, 2, 2, 3)
	for _, tt := range []struct {
		name string
		runs []audit.Run
		want rules
	}{
		{"nothing", nil, nil},
		{"in turn", []audit.Run{first, ran("a", 1, 2, 2, 3), ran("b", 2, 3, 3, 4)}, nil},
		{"in any order", []audit.Run{second, first}, nil},
		{"of two jobs at once", []audit.Run{first, of("k", first)}, nil},
		{"the last one is in progress", []audit.Run{first, ran("b", 2, 2, 2, 0)}, nil},

		{"a second before its tick", []audit.Run{ran("a", 1, 2, 1, 3)}, rules{audit.Early}},
		{"a manual run has no tick", []audit.Run{manual(ran("a", 1, 2, 1, 3))}, nil},

		{"a tick on two instances", []audit.Run{first, ran("b", 2, 1, 3, 4)}, rules{audit.Twice}},
		{"a tick on one instance", []audit.Run{first, ran("a", 1, 1, 3, 4)}, rules{audit.Twice}},
		{"a tick of two jobs", []audit.Run{first, of("k", ran("b", 2, 1, 3, 4))}, nil},
		{"two manual runs", []audit.Run{manual(first), manual(ran("a", 1, 1, 3, 4))}, nil},
		{"a second attempt", []audit.Run{first, attempt(2, ran("b", 2, 1, 3, 4))}, nil},
		{"a second attempt twice", []audit.Run{attempt(2, first), attempt(2, ran("b", 2, 1, 3, 4))}, rules{audit.Twice}},
		{"the first attempt again", []audit.Run{attempt(2, first), ran("b", 2, 1, 3, 4)}, rules{audit.Twice}},
		{"a third attempt after the first", []audit.Run{first, attempt(3, ran("b", 2, 1, 3, 4))}, rules{audit.Skipped}},

		{"a tick goes back", []audit.Run{ran("a", 1, 2, 2, 3), ran("a", 1, 1, 4, 5)}, rules{audit.Order}},
		{"a manual run in between", []audit.Run{ran("a", 1, 2, 2, 3), manual(ran("a", 1, 1, 4, 5)), ran("a", 1, 6, 6, 7)}, nil},

		{"side by side", []audit.Run{ran("a", 1, 1, 1, 3), second}, rules{audit.Overlap}},
		{"one never ends", []audit.Run{ran("a", 1, 1, 1, 0), second}, rules{audit.Overlap}},
		{"one ends as the next one starts", []audit.Run{ran("a", 1, 1, 1, 2), second}, nil},
		{"one outlasts two", []audit.Run{ran("a", 1, 1, 1, 9), second, ran("b", 2, 4, 4, 5)}, rules{audit.Overlap, audit.Overlap}},
		{"manual runs side by side", []audit.Run{manual(ran("a", 1, 1, 1, 3)), manual(second)}, rules{audit.Overlap}},

		{"one token of two", []audit.Run{first, ran("b", 1, 2, 2, 3)}, rules{audit.Token}},
		{"a token goes back", []audit.Run{ran("a", 2, 1, 1, 2), ran("a", 1, 2, 2, 3)}, rules{audit.Token}},
		{"a token grows on one instance", []audit.Run{first, ran("a", 2, 2, 2, 3)}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			found := audit.Runs(tt.runs)
			var got rules
			for _, f := range found {
				got = append(got, f.Rule)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("found %v, want %v", found, tt.want)
			}
		})
	}
}

func TestFindingsSayWhat(t *testing.T) {
	t.Parallel()
	before, run := ran("a", 7, 1, 1, 2), attempt(3, ran("b", 8, 3, 4, 5))
	for rule, want := range map[audit.Rule]string{
		audit.Early:   "j: tick 03:04:03.000 ran at 03:04:04.000, too early",
		audit.Twice:   "j: tick 03:04:03.000 ran twice, on a and b",
		audit.Skipped: "j: tick 03:04:03.000: attempt 3 on b follows attempt 1 on a",
		audit.Order:   "j: tick 03:04:03.000 ran on b after tick 03:04:01.000 on a",
		audit.Overlap: "j: the runs of ticks 03:04:01.000 on a and 03:04:03.000 on b overlap",
		audit.Token:   "j: token 8 of b follows token 7 of a",
	} {
		if got := (audit.Finding{Rule: rule, Before: before, Run: run}).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	runs := []audit.Run{ran("a", 1, 2, 2, 3), ran("a", 1, 6, 6, 7)}
	for _, tt := range []struct {
		name         string
		after, until float64
		want         []time.Time
	}{
		{"one in between", 0, 6, []time.Time{at(4)}},
		{"none before", 2, 5.9, []time.Time{at(4)}},
		{"the last one counts", 4, 8, []time.Time{at(8)}},
		{"the time itself does not", 0, 1.9, nil},
		{"from in between", 2.5, 4, []time.Time{at(4)}},
		{"nothing is due", 4, 4, nil},
	} {
		if got := audit.Missing(runs, audit.Every(2*time.Second, at(tt.after), at(tt.until))); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestAccount(t *testing.T) {
	t.Parallel()
	run := func(tick float64, attempt int) audit.Entry { return audit.Entry{Tick: at(tick), Attempt: attempt} }
	row := func(from, to float64) audit.Entry {
		return audit.Entry{Tick: at(from), Last: at(to), Count: int(to-from) + 1}
	}
	for _, tt := range []struct {
		name    string
		history []audit.Entry
		want    string
	}{
		{"nothing", nil, "nothing is accounted for"},
		{"runs", []audit.Entry{run(1, 1), run(2, 1), run(2, 2), run(3, 1)}, ""},
		{"rows", []audit.Entry{row(1, 4), run(5, 1), row(6, 6)}, ""},
		{"a row that was earlier", []audit.Entry{row(2, 4), run(1, 1)}, ""},
		{"the first attempts are forgotten", []audit.Entry{run(1, 3), run(1, 5), run(2, 1)}, ""},
		{"a gap", []audit.Entry{run(1, 1), run(3, 1)}, "nothing is said of the 2s after 03:04:01.000"},
		{"a gap before a row", []audit.Entry{run(1, 1), row(3, 4)}, "nothing is said of the 2s after 03:04:01.000"},
		{"between two ticks", []audit.Entry{run(1, 1), run(1.5, 1), run(2, 1)}, "nothing is said of the 500ms after 03:04:01.000"},
		{"twice", []audit.Entry{run(1, 1), run(1, 1)}, "tick 03:04:01.000 has attempt 1 after attempt 1"},
		{"attempts go back", []audit.Entry{run(1, 2), run(1, 1)}, "tick 03:04:01.000 has attempt 1 after attempt 2"},
		{"ran and missed", []audit.Entry{run(1, 1), run(2, 1), row(2, 3)}, "tick 03:04:02.000 is in 1 rows and has attempts [1], open: false"},
		{"missed and ran", []audit.Entry{row(1, 3), run(3, 1)}, "tick 03:04:03.000 is in 1 rows and has attempts [1], open: false"},
		{"missed twice", []audit.Entry{row(1, 3), row(3, 4)}, "tick 03:04:03.000 is in 2 rows and has attempts [], open: false"},
		{"miscounted", []audit.Entry{{Tick: at(1), Last: at(3), Count: 2}}, "a row says 2 ticks from 03:04:01.000 to 03:04:03.000, there are 3"},
	} {
		got := ""
		if err := audit.Account(tt.history, time.Second); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestFate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		fate audit.Fate
		ok   bool
	}{
		{"nothing", audit.Fate{}, false},
		{"a run in progress", audit.Fate{Open: true}, true},
		{"a run in progress after another", audit.Fate{Attempts: []int{1}, Open: true}, true},
		{"one row", audit.Fate{Rows: 1}, true},
		{"two rows", audit.Fate{Rows: 2}, false},
		{"a row and a run", audit.Fate{Rows: 1, Attempts: []int{1}}, false},
		{"a row and a run in progress", audit.Fate{Rows: 1, Open: true}, false},
	} {
		if err := tt.fate.Check(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
