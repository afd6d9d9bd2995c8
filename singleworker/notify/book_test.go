package notify

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// ran is the end of a run, whose ID in base 36 is the number of its entry.
func ran(job, id string, state history.State, minute int) admin.Event {
	at := noon.Add(time.Duration(minute) * time.Minute)
	number, _ := strconv.ParseInt(id, 36, 64)
	return admin.Event{Kind: admin.EventRunEnded, Job: job, At: at, Created: 1, Entry: &history.Entry{
		Number: number, Rev: number,
		Run: history.Run{RunID: id, Tick: at, State: state, Attempt: 1, InstanceID: "app-1", Error: map[bool]string{true: "no paper"}[state != history.StateOK]},
	}}
}

func begins(job, id string, minute, attempt int) admin.Event {
	ev := ran(job, id, history.StateRunning, minute)
	ev.Kind, ev.Entry.Attempt, ev.Entry.Error = admin.EventRunBegun, attempt, ""
	return ev
}

func retried(ev admin.Event) admin.Event {
	ev.Entry.NextAttempt = history.NextRetry
	return ev
}

func missed(job string, minute, count int) admin.Event {
	at := noon.Add(time.Duration(minute) * time.Minute)
	return admin.Event{Kind: admin.EventTicksMissed, Job: job, At: at, Created: 1, Entry: &history.Entry{
		Number: 1000 + int64(minute), Rev: 1000 + int64(minute),
		Run: history.Run{Tick: at, State: history.StateMissed}, Count: count, Reason: history.ReasonNoOwner,
	}}
}

// toOps is a book with one target that is told everything.
func toOps(rules ...Rule) *book {
	if rules == nil {
		rules = []Rule{{To: []string{"ops"}}}
	}
	b := newBook("billing", []string{"dev", "ops"}, Config{Rules: rules}.withDefaults().Rules)
	b.resuming = b.cursor > 0
	return b
}

// tellOps returns what "ops" is told now, in words.
func tellOps(b *book) (said []string) {
	items := b.owed([]string{"ops"})["ops"]
	sending(items)
	b.sent("ops", items)
	b.owed([]string{"ops"})
	for _, o := range items {
		said = append(said, o.item.String())
	}
	return said
}

func wantSaid(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("said %q, want %q", got, want)
	}
}

func TestEpisodes(t *testing.T) {
	t.Parallel()
	const since = ", since 2026-11-22 12:00:00 UTC"
	failed := "report failed" + since + ", on app-1: no paper"
	for _, c := range []struct {
		name  string
		rules []Rule
		steps [][]admin.Event // after each the target is told
		said  [][]string
	}{
		{
			name:  "failures are told once and counted, and so is the recovery",
			steps: [][]admin.Event{{ran("report", "a", "failed", 0)}, {ran("report", "b", "timed_out", 1), ran("report", "c", "lost", 2)}, {ran("report", "d", "ok", 3)}, {ran("report", "e", "ok", 4)}},
			said:  [][]string{{failed}, nil, {"report recovered after 3 failed runs" + since}, nil},
		},
		{
			name:  "what is over before it is told is told with its end",
			steps: [][]admin.Event{{ran("report", "a", "failed", 0), ran("report", "b", "ok", 1)}},
			said:  [][]string{{failed, "report recovered after 1 failed run" + since}},
		},
		{
			name:  "an end that nobody was told of does not count if it begins again",
			steps: [][]admin.Event{{ran("report", "a", "failed", 0)}, {ran("report", "b", "ok", 1), ran("report", "c", "failed", 2)}, {ran("report", "d", "ok", 3)}},
			said:  [][]string{{failed}, nil, {"report recovered after 2 failed runs" + since}},
		},
		{
			name:  "interrupted runs and skipped ticks are no failures",
			steps: [][]admin.Event{{ran("report", "a", "interrupted", 0), {Kind: admin.EventTicksSkipped, Job: "report", Entry: &history.Entry{}}}},
			said:  [][]string{nil},
		},
		{
			name:  "an attempt that is retried is no failure until another tick is run",
			steps: [][]admin.Event{{retried(ran("report", "a", "failed", 0)), begins("report", "b", 0, 2), ran("report", "b", "ok", 0)}, {retried(ran("report", "c", "failed", 0))}, {begins("report", "d", 1, 1)}},
			said:  [][]string{nil, nil, {failed}},
		},
		{
			name:  "an attempt that was retried is no failure if both are read together",
			steps: [][]admin.Event{{ran("report", "a", "failed", 0), begins("report", "b", 0, 2), ran("report", "b", "ok", 0)}, {ran("report", "c", "ok", 1)}},
			said:  [][]string{nil, nil},
		},
		{
			name:  "missed ticks are counted by tick, unless the schedule was replaced",
			steps: [][]admin.Event{{missed("report", 0, 3)}, {missed("report", 3, 4)}, {ran("report", "a", "ok", 8)}},
			said:  [][]string{{"report missed 3 ticks" + since + ": nobody claimed them: no_owner"}, nil, {"report recovered after 7 missed ticks" + since}},
		},
		{
			name:  "a row that grows",
			steps: [][]admin.Event{{missed("report", 0, 3)}, {grown(missed("report", 0, 4))}, {ran("report", "zz", "ok", 8)}},
			said:  [][]string{{"report missed 3 ticks" + since + ": nobody claimed them: no_owner"}, nil, {"report recovered after 7 missed ticks" + since}},
		},
		{
			name: "a job that is canceled before its next attempt",
			steps: [][]admin.Event{
				{retried(ran("report", "a", "failed", 0))}, {{Kind: admin.EventJobCanceled, Job: "report"}, begins("report", "1", 1, 1)},
			},
			said: [][]string{nil, nil},
		},
		{
			name:  "a job that is canceled is over, with its shards",
			steps: [][]admin.Event{{ran("report[1]", "a", "failed", 0), ran("other", "b", "failed", 0)}, {{Kind: admin.EventJobCanceled, Job: "report"}}},
			said:  [][]string{{"other failed" + since + ", on app-1: no paper", "report[1] failed" + since + ", on app-1: no paper"}, {"report[1] was canceled after 1 failed run" + since}},
		},
		{
			name:  "a rule that waits for more failures",
			rules: []Rule{{To: []string{"ops"}, After: 2}},
			steps: [][]admin.Event{{ran("report", "a", "failed", 0), ran("report", "b", "ok", 1)}, {ran("report", "c", "failed", 0)}, {ran("report", "d", "failed", 1)}, {ran("report", "e", "ok", 2)}},
			said:  [][]string{nil, nil, {"report failed 2 times" + since + ", on app-1: no paper"}, {"report recovered after 2 failed runs" + since}},
		},
		{
			name:  "a rule for some jobs, without recovery",
			rules: []Rule{{Jobs: "rep*", On: []Kind{Failed}, To: []string{"ops"}}},
			steps: [][]admin.Event{{ran("report", "a", "failed", 0), ran("other", "b", "failed", 0), missed("report", 0, 1)}, {ran("report", "c", "ok", 1)}, {ran("report", "d", "failed", 0)}},
			said:  [][]string{{failed}, nil, {failed}},
		},
		{
			name: "a late result of a run that was followed by another one",
			steps: [][]admin.Event{
				{ran("report", "a", "interrupted", 0), begins("report", "b", 0, 2), ran("report", "b", "ok", 0), superseded(ran("report", "a", "failed", 0))},
				{ran("report", "c", "interrupted", 0), ran("report", "d", "failed", 0)}, {superseded(ran("report", "c", "ok", 0))}, {ran("report", "e", "ok", 1)},
			},
			said: [][]string{nil, {failed}, nil, {"report recovered after 1 failed run" + since}},
		},
		{
			name:  "ticks of a schedule that was replaced",
			steps: [][]admin.Event{{replaced(missed("report", 0, 3))}},
			said:  [][]string{nil},
		},
		{
			name:  "an amended result",
			steps: [][]admin.Event{{ran("report", "a", "lost", 0)}, {amended(ran("report", "a", "failed", 0))}, {amended(ran("report", "a", "ok", 0))}, {amended(ran("report", "0", "ok", 0))}},
			said:  [][]string{{failed}, nil, {"report recovered after 1 failed run" + since}, nil},
		},
		{
			name:  "a late success of the run after the one that failed",
			steps: [][]admin.Event{{ran("report", "a", "failed", 0), ran("report", "b", "interrupted", 1)}, {amended(ran("report", "b", "ok", 1))}},
			said:  [][]string{{failed}, {"report recovered after 1 failed run" + since}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := toOps(c.rules...)
			for i, step := range c.steps {
				for _, ev := range step {
					b.take(ev)
				}
				wantSaid(t, tellOps(b), c.said[i]...)
			}
		})
	}
}

func grown(ev admin.Event) admin.Event {
	ev.Continued = true
	return ev
}

func superseded(ev admin.Event) admin.Event {
	ev.Amended, ev.Superseded = true, true
	return ev
}

func replaced(ev admin.Event) admin.Event {
	ev.Entry.Reason = history.ReasonScheduleChanged
	return ev
}

// TestWhatAnHeirIsToldAgain has a sender take in some events, and its heir hear the history's
// entries then.
func TestWhatAnHeirIsToldAgain(t *testing.T) {
	t.Parallel()
	const since = ", since 2026-11-22 12:00:00 UTC"
	numbered := func(number, rev int64, ev admin.Event) admin.Event {
		ev.Entry.Number, ev.Entry.Rev = number, rev
		return ev
	}
	write := func(rev int64, ev admin.Event) admin.Event { return numbered(ev.Entry.Number, rev, ev) }
	of := func(created int64, ev admin.Event) admin.Event {
		ev.Created = created
		return ev
	}
	fail := func() admin.Event { return ran("report", "3", "failed", 0) }
	for _, c := range []struct {
		name          string
		before, after []admin.Event
		said          []string
	}{
		{"what was taken in", []admin.Event{ran("report", "2", "ok", 0), fail()}, []admin.Event{ran("report", "2", "ok", 0), begins("report", "3", 0, 1), fail()}, nil},
		{
			"a success since",
			[]admin.Event{fail()},
			[]admin.Event{fail(), begins("report", "4", 1, 1), ran("report", "4", "ok", 1)},
			[]string{"report recovered after 1 failed run" + since},
		},
		{
			"the begin of a run since, which has no entry yet",
			[]admin.Event{fail(), retried(ran("report", "4", "failed", 1))}, []admin.Event{numbered(0, 0, begins("report", "", 2, 1)), ran("report", "6", "ok", 2)},
			[]string{"report recovered after 2 failed runs" + since},
		},
		{
			"a failure since, of which the history has forgotten all before",
			[]admin.Event{fail()}, []admin.Event{ran("report", "9", "failed", 1), ran("report", "a", "ok", 2)},
			[]string{"report recovered after 2 failed runs" + since},
		},
		{
			"a late failure of a run before",
			[]admin.Event{ran("report", "2", "interrupted", 0), fail()}, []admin.Event{superseded(write(4, ran("report", "2", "failed", 0))), fail(), write(5, ran("report", "4", "ok", 1))},
			[]string{"report recovered after 1 failed run" + since},
		},
		{
			"a late success of a run before",
			[]admin.Event{ran("report", "2", "interrupted", 0), fail()}, []admin.Event{superseded(write(4, ran("report", "2", "ok", 0))), fail()},
			nil,
		},
		{
			"a late success of the run that was lost",
			[]admin.Event{ran("report", "3", "lost", 0)}, []admin.Event{write(4, ran("report", "3", "ok", 0))},
			[]string{"report recovered after 1 failed run" + since},
		},
		{"a late failure of the run that was lost", []admin.Event{ran("report", "3", "lost", 0)}, []admin.Event{write(4, fail())}, nil},
		{
			"a row that has grown",
			[]admin.Event{missed("report", 0, 3)}, []admin.Event{write(1001, missed("report", 0, 5)), write(1002, ran("report", "zz", "ok", 5))},
			[]string{"report recovered after 4 missed ticks" + since},
		},
		{
			"a late failure, and ticks that were missed before it came",
			[]admin.Event{ran("report", "2", "interrupted", 0), amended(write(4, ran("report", "2", "failed", 0)))},
			[]admin.Event{amended(write(4, ran("report", "2", "failed", 0))), numbered(3, 3, missed("report", 0, 3))},
			[]string{"report missed 3 ticks" + since + ": nobody claimed them: no_owner"},
		},
		{
			"both were taken in",
			[]admin.Event{numbered(3, 3, missed("report", 0, 3)), amended(write(4, ran("report", "2", "failed", 0)))},
			[]admin.Event{amended(write(4, ran("report", "2", "failed", 0))), numbered(3, 3, missed("report", 0, 3)), write(5, ran("report", "4", "ok", 1))},
			[]string{"report recovered after 3 missed ticks" + since, "report recovered after 1 failed run" + since},
		},
		{
			"the job was submitted again, and fails",
			[]admin.Event{fail()}, []admin.Event{of(2, ran("report", "1", "failed", 1)), of(2, ran("report", "2", "ok", 2))},
			[]string{"report recovered after 2 failed runs" + since},
		},
		{
			"the job was submitted again, and runs",
			[]admin.Event{fail()}, []admin.Event{of(2, begins("report", "1", 1, 1))},
			[]string{"report was canceled after 1 failed run" + since},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := toOps()
			b.cursor = 1
			for _, ev := range c.before {
				b.take(ev)
			}
			if said := tellOps(b); len(said) == 0 {
				t.Fatalf("at first it said %q", said)
			}
			b = restarted(t, b)
			for _, ev := range c.after {
				ev.Repeated = true
				b.take(ev)
			}
			b.take(admin.Event{Kind: admin.EventWatching, Cursor: 2})
			wantSaid(t, tellOps(b), c.said...)
		})
	}
}

// TestOldFailuresAreForgotten has a slot run well for longer than any history reaches back.
func TestOldFailuresAreForgotten(t *testing.T) {
	t.Parallel()
	b := toOps()
	b.take(ran("report", "1", "failed", 0))
	tellOps(b)
	last := ran("report", "2", "ok", 1)
	last.Entry.Number = forgetAfter + 1
	b.take(last)
	tellOps(b)
	if r := b.parts[partOf("report")].slots["report"]; r == nil || r.Number != 1 {
		t.Errorf("of a failure that a history may still have, it remembers %+v", r)
	}
	last.Entry.Number++
	b.take(last)
	if r := b.parts[partOf("report")].slots["report"]; r != nil {
		t.Errorf("it remembers %+v", r)
	}
}

// TestCanceledLeavesNothing has a job that failed canceled: at a resumption, nothing of the next
// one of that name is held back.
func TestCanceledLeavesNothing(t *testing.T) {
	t.Parallel()
	b := toOps()
	b.take(ran("report", "b", "failed", 0))
	wantSaid(t, tellOps(b), "report failed, since 2026-11-22 12:00:00 UTC, on app-1: no paper")
	b.take(admin.Event{Kind: admin.EventJobCanceled, Job: "report", At: noon, Cursor: 1})
	wantSaid(t, tellOps(b), "report was canceled after 1 failed run, since 2026-11-22 12:00:00 UTC")
	b.resuming = b.cursor > 0
	b.take(ran("report", "a", "failed", 1))
	wantSaid(t, tellOps(b), "report failed, since 2026-11-22 12:01:00 UTC, on app-1: no paper")
}

// Whatever slots a job has had, all are over when it is canceled, also for an heir, and no other
// job's. Then nothing of them is left.
func TestCanceledJobTakesItsSlotsAlong(t *testing.T) {
	t.Parallel()
	for _, heir := range []bool{false, true} {
		b := toOps()
		for _, slot := range []string{"report", "report[0]", "report[7]", "report/app-1", "reports", "reports[0]"} {
			b.take(ran(slot, "a", history.StateFailed, 0))
		}
		tellOps(b)
		if heir {
			b = restarted(t, b)
		}
		b.take(admin.Event{Kind: admin.EventJobCanceled, Job: "report", At: noon, Cursor: 1})
		const gone = " was canceled after 1 failed run, since 2026-11-22 12:00:00 UTC"
		wantSaid(t, tellOps(b), "report"+gone, "report/app-1"+gone, "report[0]"+gone, "report[7]"+gone)
		var left []string
		for i := range b.parts {
			left = slices.AppendSeq(left, maps.Keys(b.parts[i].slots))
			left = slices.AppendSeq(left, maps.Keys(b.parts[i].divided))
		}
		if slices.Sort(left); !slices.Equal(left, []string{"reports", "reports", "reports[0]"}) {
			t.Errorf("heir %v: it remembers %q", heir, left)
		}
	}
}

func amended(ev admin.Event) admin.Event {
	ev.Amended = true
	return ev
}

// restarted is the book as another sender reads it.
func restarted(t *testing.T, b *book) *book {
	t.Helper()
	next := newBook(b.serverType, b.targets, b.rules)
	next.cursor, next.jobs = b.cursor, b.jobs
	for i := range b.parts {
		if err := next.parts[i].parse(i, b.parts[i].encode()); err != nil {
			t.Fatal(err)
		}
	}
	next.resuming = next.cursor > 0
	return next
}

// Jobs run at random; the sender dies at random moments, before and after it has recorded its
// messages, and its heir is told the whole history again. Each target hears of each episode, in
// order, and twice only if the death came in between.
func TestNoEpisodeIsLostOrRepeated(t *testing.T) {
	t.Parallel()
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := toOps(Rule{To: []string{"ops", "dev"}})
		b.cursor = 1
		w := &randomJobs{
			jobs:  map[string]*randomJob{"job0": {created: 1}, "job1": {created: 1}, "job2": {created: 1}},
			heard: map[string]map[string]int{"ops": {}, "dev": {}}, last: map[string]map[string]Kind{"ops": {}, "dev": {}},
		}
		b.take(admin.Event{Kind: admin.EventWatching, Cursor: 1})
		excused := make(map[string]bool)
		for range 200 {
			switch r.IntN(8) {
			case 0, 1:
				target := []string{"ops", "dev"}[r.IntN(2)]
				items := b.owed([]string{"dev", "ops"})[target]
				saved := restarted(t, b)
				sending(items)
				w.hear(items, target)
				w.check(t, target, seed)
				if b.sent(target, items); r.IntN(4) == 0 { // it dies before it has recorded that
					for _, o := range items {
						excused[target+o.item.ID] = true
					}
					b = w.resume(saved, r)
				}
			case 2:
				if r.IntN(3) == 0 {
					b = w.resume(restarted(t, b), r)
				}
			default:
				b.take(w.run(r))
			}
		}
		for slot := range w.jobs { // everything is well in the end
			b.take(w.add(ran(slot, "end", history.StateOK, 999)))
		}
		for _, target := range []string{"ops", "dev"} {
			items := b.owed([]string{"dev", "ops"})[target]
			w.hear(items, target)
			b.sent(target, items)
			for id, times := range w.heard[target] {
				if times > 1 && !excused[target+id] {
					t.Fatalf("seed %d: %s heard %s %d times", seed, target, id, times)
				}
			}
			for slot, kind := range w.last[target] {
				if kind != Recovered {
					t.Errorf("seed %d: the last that %s heard of %s is that it %s", seed, target, slot, kind)
				}
			}
		}
		if b.owed([]string{"dev", "ops"}); b.lasting() > 0 {
			t.Errorf("seed %d: %d episodes are left", seed, b.lasting())
		}
		if len(w.last["ops"]) == 0 {
			t.Errorf("seed %d: nothing failed", seed)
		}
	}
}

func (b *book) lasting() (n int) {
	for i := range b.parts {
		n += b.parts[i].episodes
	}
	return n
}

// randomJobs are jobs whose histories keep 20 entries.
type randomJobs struct {
	runs   int
	cursor int64
	jobs   map[string]*randomJob
	heard  map[string]map[string]int  // by target: how often each item
	last   map[string]map[string]Kind // by target: what was heard last of each slot
}

type randomJob struct {
	created, number, rev, changed int64
	past                          []admin.Event
}

func (w *randomJobs) add(ev admin.Event) admin.Event {
	j := w.jobs[ev.Job]
	j.number++
	ev.Created, ev.Entry.Number = j.created, j.number
	ev = w.write(j, ev)
	j.past = append(j.past, ev)
	j.past = j.past[max(0, len(j.past)-20):]
	return ev
}

// write is a transaction.
func (w *randomJobs) write(j *randomJob, ev admin.Event) admin.Event {
	w.cursor++
	j.rev++
	ev.Cursor, ev.Zxid, j.changed, ev.Entry.Rev = w.cursor, w.cursor, w.cursor, j.rev
	return ev
}

// run has a job run, or the result of a run come late, or the job submitted again.
func (w *randomJobs) run(r *rand.Rand) admin.Event {
	w.runs++
	name := "job" + strconv.Itoa(r.IntN(3))
	switch j := w.jobs[name]; r.IntN(20) {
	case 0, 1, 2:
		for i, was := range slices.Backward(j.past) {
			if was.Entry.State == history.StateInterrupted || was.Entry.State == history.StateLost {
				return w.late(j, i, []history.State{history.StateOK, history.StateFailed}[r.IntN(2)])
			}
		}
	case 3:
		w.cursor++
		*j = randomJob{created: w.cursor, changed: w.cursor}
		return admin.Event{Kind: admin.EventJobCanceled, Job: name, Zxid: w.cursor, Cursor: w.cursor}
	}
	states := []history.State{history.StateOK, history.StateOK, history.StateFailed, history.StateTimedOut, history.StateInterrupted, history.StateLost}
	return w.add(ran(name, strconv.Itoa(w.runs), states[r.IntN(len(states))], w.runs))
}

// late has the result of a run come late. A failure of one that was interrupted is not told if
// another run has followed.
func (w *randomJobs) late(j *randomJob, i int, state history.State) admin.Event {
	ev := j.past[i]
	entry := *ev.Entry
	ev.Entry = &entry
	ev = w.write(j, ev)
	ev.Superseded = i < len(j.past)-1
	if entry.State == history.StateInterrupted && state == history.StateFailed && ev.Superseded {
		entry.NotBegun = true // marks it for check
	}
	entry.State = state
	j.past[i] = ev
	ev.Amended = true
	return ev
}

// resume tells an heir everything that is still in the histories of some jobs, which includes all
// that came after its cursor.
func (w *randomJobs) resume(b *book, r *rand.Rand) *book {
	cursor := b.cursor
	for _, j := range w.jobs {
		if j.changed <= cursor && r.IntN(2) == 0 {
			continue
		}
		for i, ev := range j.past {
			ev.Amended = slices.ContainsFunc(j.past[i:], func(later admin.Event) bool { return later.Entry.Rev < ev.Entry.Rev })
			ev.Repeated, ev.Superseded = true, ev.Amended
			b.take(ev)
		}
	}
	b.take(admin.Event{Kind: admin.EventWatching, Cursor: w.cursor})
	return b
}

func (w *randomJobs) hear(items []owing, target string) {
	for _, o := range items {
		w.heard[target][o.item.ID]++
		if w.heard[target][o.item.ID] == 1 { // a receiver drops what it has seen
			w.last[target][o.slot] = o.item.Kind
		}
	}
}

// check expects that the target, which was just told everything, knows how each job is.
func (w *randomJobs) check(t *testing.T, target string, seed uint64) {
	t.Helper()
	for slot, j := range w.jobs {
		for _, ev := range slices.Backward(j.past) {
			if ev.Entry.State == history.StateInterrupted || ev.Entry.NotBegun {
				continue
			}
			if fails, said := !ev.Entry.OK(), w.last[target][slot]; fails != (said == Failed) {
				t.Fatalf("seed %d: %s heard last of %s that it %q, and its last run was %s", seed, target, slot, said, ev.Entry.State)
			}
			break
		}
	}
}

// 10,000 jobs that fail at once, whatever their names and errors are, fit into the nodes of the
// book. Others are dropped and counted.
func TestBookIsBounded(t *testing.T) {
	t.Parallel()
	b := toOps(Rule{To: []string{"ops", "a target with a long name"}})
	b.take(admin.Event{Kind: admin.EventWatching})
	const jobs = 10_000
	for i := range jobs {
		ev := ran(fmt.Sprintf("%0200d", i), "0123456789abcdef0123456789abcdef", history.StateFailed, 0)
		ev.Entry.Error = string(make([]byte, 400))
		b.take(ev)
	}
	items := b.owed([]string{"ops"})["ops"]
	b.sent("ops", items)
	b.sent("a target with a long name", items)
	if len(items) != jobs || b.dropped != 0 {
		t.Errorf("%d items, %d dropped; want %d, 0", len(items), b.dropped, jobs)
	}
	for i := range 3 * jobs {
		b.take(ran("more"+strconv.Itoa(i), "x", history.StateFailed, 0))
	}
	most := 0
	for i := range b.parts {
		most = max(most, len(b.parts[i].encode()))
	}
	if most > 900_000 || b.lasting() != parts*perPart || b.dropped != 4*jobs-parts*perPart {
		t.Errorf("the largest part has %d bytes; %d episodes, %d dropped", most, b.lasting(), b.dropped)
	}
}
