package swtest_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// A history is full with all of its pages. With one more entry it has forgotten a page.
const (
	page          = zkrec.MinHistory / (zkrec.HistoryPages - 1)
	fullHistories = zkrec.HistoryPages * page
)

// TestAFullHistoryIsToldWhole resumes a Watch when a history has as many entries as it keeps: all
// of them are told, with their own times, and nothing is missing. Of one more, a page is forgotten,
// and that is told, too.
func TestAFullHistoryIsToldWhole(t *testing.T) {
	t.Parallel()
	ofFullHistories(t, toldWhole)
}

// ofFullHistories tests a job that has run until its history is full, and once more.
func ofFullHistories(t *testing.T, test func(t *testing.T, c *swtest.Cluster, runs int)) {
	t.Helper()
	for _, runs := range []int{fullHistories, fullHistories + 1} {
		t.Run(strconv.Itoa(runs), func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				test(t, c, runs)
			})
		})
	}
}

func toldWhole(t *testing.T, c *swtest.Cluster, runs int) {
	t.Helper()
	older(t, c)
	cursor := eventsSince(t, c, 0)[0].Cursor
	ranTimes(t, c, runs, nil)
	ended, gaps := 0, 0
	for _, ev := range eventsSince(t, c, cursor) {
		switch {
		case ev.Kind == admin.EventGap && ev.Gap.What == admin.GapRuns:
			gaps++
		case ev.Kind == admin.EventRunEnded:
			ended++
			if late := ev.At.Sub(ev.Entry.Ended).Abs(); late > time.Second {
				t.Errorf("a run that ended at %v is told to have ended at %v", ev.Entry.Ended, ev.At)
			}
		}
	}
	if forgotten := runs - fullHistories; ended != runs-forgotten*page || gaps != forgotten {
		t.Errorf("of %d runs %d are told, and %d gaps", runs, ended, gaps)
	}
}

// TestAStreakThatIsForgotten has a job fail as often as its history has entries, and more often.
func TestAStreakThatIsForgotten(t *testing.T) {
	t.Parallel()
	for runs, want := range map[int]string{fullHistories: "failed 24 times in a row", fullHistories + 1: "failed at least 21 times in a row"} {
		t.Run(want, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				ranTimes(t, c, runs, errors.New("no route"))
				if text := words.Line(status(t, c, "job0").Conditions); !strings.Contains(text, want) {
					t.Errorf("after %d runs it %s, want %s", runs, text, want)
				}
			})
		})
	}
}

// TestALateResultIsTold has an owner cut off in mid-run, whose handler does not mind. Its heir
// records the run as lost, which is told. Then the owner is back, and writes the result.
func TestALateResultIsTold(t *testing.T) {
	bubble(t, lateResultIsTold)
}

func lateResultIsTold(t *testing.T, c *swtest.Cluster) {
	t.Helper()
	setup := swtest.Setup{Handlers: map[string]singleworker.Handler{"job0": func(context.Context, *singleworker.Run) error {
		time.Sleep(2 * time.Minute)
		return nil
	}}}
	rare := singleworker.Job{Name: "job0", Schedule: "0 0 * * * ?", Interrupted: job.InterruptedSkip}
	if err := c.Submit(t.Context(), rare); err != nil {
		t.Fatal(err)
	}
	byName := map[string]*swtest.Instance{"i0": c.Start("i0", setup), "i1": c.Start("i1", setup)}
	time.Sleep(time.Hour + 10*time.Second - time.Since(c.Begun()))
	owner := byName[c.Owners()["job0"]]
	owner.Partition()
	time.Sleep(time.Minute)
	if runs := entriesOf(t, c, "job0"); len(runs) != 1 || runs[0].State != history.StateLost {
		t.Fatalf("the run is not lost: %+v", runs)
	}
	cursor := eventsSince(t, c, 0)[0].Cursor
	owner.Heal()
	time.Sleep(2 * time.Minute)
	if runs := entriesOf(t, c, "job0"); len(runs) != 1 || runs[0].State != history.StateOK {
		t.Fatalf("no late result: %+v", runs)
	}
	var told []history.State
	for _, ev := range eventsSince(t, c, cursor) {
		if ev.Kind == admin.EventRunEnded {
			told = append(told, ev.Entry.State)
		}
	}
	if !slices.Equal(told, []history.State{history.StateOK}) {
		t.Errorf("told: %v; want the late result", told)
	}
}

// ranTimes has job0 run so many times, every ten seconds, with that result, and stops its instance.
func ranTimes(t *testing.T, c *swtest.Cluster, times int, result error) {
	t.Helper()
	i := c.Start("i0", sharing(t, c, 1, "*/10 * * * * ?", func(context.Context, *singleworker.Run) error { return result }))
	for len(c.Runs()) < times {
		time.Sleep(time.Second)
	}
	time.Sleep(time.Second) // the last result is written
	if err := i.Stop(); err != nil || len(c.Runs()) != times {
		t.Fatalf("%d runs, %v", len(c.Runs()), err)
	}
}

// older submits a job that never runs, so that the group has a past.
func older(t *testing.T, c *swtest.Cluster) {
	t.Helper()
	if err := c.Submit(t.Context(), singleworker.Job{Name: "older", Schedule: "@manually"}); err != nil {
		t.Fatal(err)
	}
}

// eventsSince are the events that a Watch tells from a cursor to the present. The last one says
// that it watches.
func eventsSince(t *testing.T, c *swtest.Cluster, cursor int64) (events []admin.Event) {
	t.Helper()
	operate(t, c, func(a *admin.Client) error {
		for ev, err := range a.Watch(t.Context(), admin.WatchOptions{Since: cursor}) {
			if err != nil {
				return err
			}
			if events = append(events, ev); ev.Kind == admin.EventWatching {
				break
			}
		}
		return nil
	})
	return events
}
