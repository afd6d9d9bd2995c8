package web

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

// fakeLog is a History, newest first.
type fakeLog struct {
	entries []runlog.Entry
	err     error         // after the entries
	hold    chan struct{} // waits for it after the entries, whatever ctx says
	wait    bool          // waits for ctx after the entries
	calls   atomic.Int32
}

func (l *fakeLog) Entries(ctx context.Context, q runlog.Query) iter.Seq2[runlog.Entry, error] {
	return func(yield func(runlog.Entry, error) bool) {
		l.calls.Add(1)
		n := 0
		for _, e := range l.entries {
			if !q.Matches(e) || q.Group != "billing" {
				continue
			}
			if n++; !yield(e, nil) || n == q.Limit {
				return
			}
		}
		err := l.err
		if errors.Is(err, errPanic) {
			panic(err)
		}
		if l.hold != nil {
			<-l.hold
		}
		if l.wait {
			<-ctx.Done()
			err = fmt.Errorf("interrupted: %w", ctx.Err())
		}
		if err != nil {
			yield(runlog.Entry{}, err)
		}
	}
}

// loggedRun is a run that began some minutes before noon and took some seconds.
func loggedRun(seq int64, slot string, state history.State, minutes, seconds int) runlog.Entry {
	name, _, _ := job.SplitShard(slot)
	name, _, _ = strings.Cut(name, "/")
	began := noon.Add(-time.Duration(minutes) * time.Minute)
	ended := began.Add(time.Duration(seconds) * time.Second)
	return runlog.Entry{Seq: seq, Slot: slot, Job: name, Kind: runlog.Ran, At: ended, Key: fmt.Sprint("old-", seq), Entry: history.Entry{
		Run: history.Run{Tick: began, State: state, InstanceID: "app-3", RunID: fmt.Sprint("old-", seq), Attempt: 1, Started: began, Ended: ended}, To: began, Count: 1,
	}}
}

// nightlyLog has the entries that ZooKeeper has of the job nightly, too, but for the newest one.
func nightlyLog(f *fake) *fakeLog {
	const day = 24 * 60
	held := f.entries["nightly"]
	l := &fakeLog{entries: []runlog.Entry{
		{Seq: 9, Slot: "nightly", Job: "nightly", Kind: runlog.NotRun, At: held[1].To, Key: "tick:1", Entry: held[1]},
		{Seq: 8, Slot: "nightly", Job: "nightly", Kind: runlog.Ran, At: held[2].Ended, Key: held[2].RunID, Entry: held[2]},
		loggedRun(7, "nightly", history.StateOK, 2*day+180, 30), loggedRun(6, "parts[1]", history.StateOK, 2*day, 1),
	}}
	hole := runlog.Entry{Seq: 5, Slot: "nightly", Job: "nightly", Kind: runlog.Hole, At: noon.Add(-4 * day * time.Minute), Key: "hole:1"}
	hole.Tick, hole.To, hole.Error = noon.Add(-9*day*time.Minute), noon.Add(-4*day*time.Minute), "the history, of 20 entries, had forgotten some before it was read"
	failed := loggedRun(4, "nightly", history.StateFailed, 10*day, 50)
	failed.Error = "disk full"
	l.entries = append(l.entries, hole, failed, loggedRun(3, "nightly", history.StateOK, 11*day, 90))
	return l
}

// The page of a job has the run log's entries, and says how far back they go, where holes are, and
// a sum of all runs.
func TestJobPageHasTheRunLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		l := nightlyLog(f)
		s := serve(t, f, Options{History: l, Group: "billing"})
		page := s.get("/job?name=nightly")
		s.wants("/job?name=nightly", "The run log of this job begins at 1999-12-21 12:01:30 UTC", "It does not have the latest entry yet.", "disk full",
			"not in the log until 1999-12-28 12:00:00 UTC: the history, of 20 entries, had forgotten some before it was read",
			// runs, ok, failed, in a row, skipped, missed, holes
			`<th scope="row">nightly</th><td>5</td><td>3</td><td>2</td><td>1</td><td>3</td><td>0</td><td>1</td><td>1d2h ago</td><td>2h59m ago</td><td>30s</td><td>1m30s</td>`,
			"5 runs, median 40s")
		if n := strings.Count(page, "3 ticks until"); n != 1 {
			t.Errorf("what both have is shown %d times", n)
		}
		order := []string{"dial tcp: connection refused", "3 ticks until", "1999-12-30 09:00:00 UTC", "not in the log until", "disk full", "1999-12-21 12:00:00 UTC"}
		at := 0
		for _, text := range order {
			i := strings.Index(page[at:], text)
			if i < 0 {
				t.Errorf("%q is not where it should be", text)
			}
			at += max(i, 0)
		}
		s.wants("/job?name=parts", "parts[1]</th><td>1</td>")
		s.wants("/job?name=orphan", "The run log has nothing of this job yet.")
		if plain := serve(t, f, Options{}); strings.Contains(plain.get("/job?name=nightly"), "On record") {
			t.Error("there is no log, and the page speaks of one")
		}
		s.wants("/timeline?span=28d", "nightly: 2 failed, 1 hole, 3 ok, 3 skipped")
		s.wants("/timeline?span=7d&end=1999-12-25T12:00:00Z", "nightly: 1 failed, 1 hole, 1 ok")
	})
}

// Without the store, pages have the entries that ZooKeeper holds, and say why that is all. A slow
// store is not read by each viewer.
func TestRunLogIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		hold := make(chan struct{})
		for want, l := range map[string]*fakeLog{
			"cannot be read: no route to host. What follows":                                         {err: errors.New("no route to host")},
			"cannot be read: panic: the worst":                                                       {err: errPanic},
			"cannot be read: the store takes too long":                                               {wait: true},
			"cannot be read: the store takes too long. What ":                                        {hold: hold},
			"could not be read further back than 1999-12-21 12:01:30 UTC: the store takes too long.": {entries: nightlyLog(f).entries, wait: true},
		} {
			s := serve(t, f, Options{History: l, Group: "billing"})
			began := time.Now()
			s.wants("/job?name=nightly", want, "connection refused", "3 ticks until", "app-3 had not claimed it")
			if took := time.Since(began); took > logTime+logSilence {
				t.Errorf("%s: the page took %s", want, took)
			}
			for range 20 {
				s.get("/job?name=nightly")
			}
			if n := l.calls.Load(); n != 1 {
				t.Errorf("%s: read %d times", want, n)
			}
			s.wants("/timeline?span=28d", want, "nightly: ")
			s.wants("/owners", want[:30])
			w := s.do(http.MethodGet, "/api/v1/jobs/nightly/summary", nil)
			if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"code":"unavailable"`) {
				t.Errorf("%s: %d %s", want, w.Code, w.Body)
			}
		}
		close(hold)
	})
}

// The log's and ZooKeeper's entries are joined by those in common, for each shard, and for each
// instance.
func TestMerged(t *testing.T) {
	t.Parallel()
	held := func(e runlog.Entry, state history.State) history.Entry {
		e.State = state
		if _, index, ok := job.SplitShard(e.Slot); ok {
			e.Shard = &index
		}
		if _, id, ok := strings.Cut(e.Slot, "/"); ok {
			e.InstanceID = id
		}
		return e.Entry
	}
	run := func(seq int64, slot string) runlog.Entry {
		e := loggedRun(seq, slot, history.StateOK, 100-int(seq), 1)
		e.Number = seq
		return e
	}
	removed := runlog.Entry{Seq: 5, Slot: "a", Job: "a", Kind: runlog.Gone, At: noon.Add(-95 * time.Minute)}
	shards := admin.JobStatus{Name: "a", Slots: []admin.JobStatus{{Name: "a[0]", Shard: &admin.Shard{}}, {Name: "a[1]", Shard: &admin.Shard{Index: 1}}}}
	everywhere := admin.JobStatus{Name: "a", Job: job.Job{Everywhere: true}}
	for name, test := range map[string]struct {
		of     admin.JobStatus
		held   []history.Entry
		logged []runlog.Entry
		past   bool
		want   string
	}{
		"no log":               {held: []history.Entry{held(run(1, "a"), "ok"), held(run(2, "a"), "ok")}, want: "old-1 ok, old-2 ok"},
		"only the log":         {logged: []runlog.Entry{run(2, "a"), run(1, "a")}, want: "old-2 ok, old-1 ok"},
		"the held one counts":  {held: []history.Entry{held(run(2, "a"), "lost")}, logged: []runlog.Entry{run(2, "a"), run(1, "a")}, want: "old-2 lost, old-1 ok"},
		"read later":           {held: []history.Entry{held(run(2, "a"), "ok")}, logged: []runlog.Entry{run(3, "a"), run(2, "a")}, want: "old-3 ok, old-2 ok"},
		"running comes first":  {held: []history.Entry{held(run(1, "a"), "running")}, logged: []runlog.Entry{run(3, "a"), run(2, "a")}, want: "old-1 running, old-3 ok, old-2 ok"},
		"wherever it is":       {held: []history.Entry{held(run(3, "a"), "ok"), held(run(2, "a"), "running")}, logged: []runlog.Entry{run(1, "a")}, want: "old-2 running, old-3 ok, hole, old-1 ok"},
		"nobody reads":         {held: []history.Entry{held(run(9, "a"), "ok"), held(run(8, "a"), "ok")}, logged: []runlog.Entry{run(2, "a")}, want: "old-9 ok, old-8 ok, hole, old-2 ok"},
		"read just before":     {held: []history.Entry{held(run(9, "a"), "ok"), held(run(8, "a"), "ok")}, logged: []runlog.Entry{run(7, "a")}, want: "old-9 ok, old-8 ok, old-7 ok"},
		"in the past":          {held: []history.Entry{held(run(9, "a"), "ok")}, logged: []runlog.Entry{run(2, "a")}, past: true, want: "old-9 ok, old-2 ok"},
		"submitted once more":  {held: []history.Entry{held(run(9, "a"), "ok")}, logged: []runlog.Entry{removed, run(2, "a")}, want: "old-9 ok, removed, old-2 ok"},
		"a shard nobody reads": {of: shards, held: []history.Entry{held(run(9, "a[1]"), "ok"), held(run(8, "a[0]"), "ok")}, logged: []runlog.Entry{run(8, "a[0]"), run(2, "a[1]"), run(1, "a[0]")}, want: "old-9 ok, hole, old-8 ok, old-2 ok, old-1 ok"},
		"on every instance":    {of: everywhere, held: []history.Entry{held(run(9, "a/x"), "ok"), held(run(8, "a/y"), "ok")}, logged: []runlog.Entry{run(9, "a/x"), run(8, "a/y"), run(7, "a/x")}, want: "old-9 ok, old-8 ok, old-7 ok"},
	} {
		test.of.Name = "a"
		all := merged(test.of, test.held, test.logged, !test.past)
		var got []string
		for _, e := range all {
			text := e.RunID + " " + string(e.State)
			switch e.Kind {
			case runlog.Hole:
				text = "hole"
			case runlog.Gone:
				text = "removed"
			case runlog.Ran, runlog.NotRun, runlog.Void, runlog.Mark:
			}
			got = append(got, text)
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// A page stays light whatever the log has, and says that there is more.
func TestRunLogIsLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		name := "<b>" + strings.Repeat("é", 98)
		f.jobs[1].Name, f.jobs[1].Job.Name, f.entries[name] = name, name, f.entries["nightly"]
		l := new(fakeLog)
		for i := range maxOfJob + 10 {
			e := loggedRun(int64(2*maxOfJob-i), name, history.StateFailed, 200+i, 1)
			if i < 2*perPage {
				e.Error = strings.Repeat("a line of an error of 4 KiB, which is longer than what a table shows of it, ", 4) + strings.Repeat("\n4 KiB", 600)
			}
			l.entries = append(l.entries, e)
		}
		s := serve(t, f, Options{History: l, Group: "billing"})
		path := "/job?name=" + url.QueryEscape(name)
		page := s.get(path)
		if n := s.weight(path) + s.weight("/style.css") + s.weight("/app.js"); n > maxWeight {
			t.Errorf("%d bytes", n)
		}
		for _, text := range []string{"it has more than can be shown at once", "and 4923 older ones"} {
			if !strings.Contains(page, text) {
				t.Errorf("no %q", text)
			}
		}
		if strings.Contains(page, "begins at") {
			t.Error("the page says where the log begins, and did not read that far")
		}
	})
}

func TestHistoryNeedsAGroup(t *testing.T) {
	t.Parallel()
	refused := new(invalid.FieldError)
	if _, err := Handler(newFake(), Options{History: new(fakeLog)}); !errors.As(err, &refused) || refused.Field != "Group" {
		t.Error(err)
	}
}
