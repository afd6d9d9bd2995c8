package commands

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/txnaudit"
)

var update = flag.Bool("update", false, "write the golden files")

// testNow is when every test happens: 09:24:05 in Berlin.
var testNow = time.Date(2026, 11, 21, 8, 24, 5, 0, time.UTC)

// harness is swctl with a fake group, terminal and clock.
type harness struct {
	*cmdline.App
	app    *app
	fake   *fakeClient
	vars   map[string]string
	out    bytes.Buffer
	errs   bytes.Buffer
	config admin.Config // of the last dial
}

// newHarness has a server type "billing" in its environment and some jobs.
func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{fake: newFake(), vars: map[string]string{cmdline.EnvServerType: "billing"}}
	h.app = &app{
		dial: func(ctx context.Context, cfg admin.Config) (group.Client, error) {
			h.config = cfg
			return h.fake, h.fake.begin(ctx, "Dial")
		},
		serve: func(_ context.Context, listen string, ready func(addr string) error) error {
			return ready(listen)
		},
		audit: func(context.Context, txnaudit.Options) (txnaudit.Report, error) {
			return txnaudit.Report{OK: true}, nil
		},
		whoami: func() string { return "alice@host" },
		build: func() (*debug.BuildInfo, bool) {
			return &debug.BuildInfo{
				GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.3.0"},
				Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "9f1c2ab84d3e"}},
			}, true
		},
	}
	h.App = &cmdline.App{
		Program: "swctl",
		Stdin:   strings.NewReader(""), Stdout: &h.out, Stderr: &h.errs,
		Env:      func(name string) string { return h.vars[name] },
		Now:      func() time.Time { return testNow },
		Commands: h.app.commands(),
		Names:    h.app.names,
	}
	return h
}

// atTerminal lets a person answer the next question.
func (h *harness) atTerminal(answer string) {
	h.Interactive = true
	h.Stdin = strings.NewReader(answer)
}

// exec runs one command line.
func (h *harness) exec(args ...string) cmdline.ExitCode {
	h.out.Reset()
	h.errs.Reset()
	return h.Run(context.Background(), args)
}

// transcript is a terminal's view of one command line.
func (h *harness) transcript(args ...string) string {
	code := h.exec(args...)
	words := []string{"$ swctl"}
	for _, arg := range args {
		if strings.ContainsAny(arg, " *@?\x1b") {
			arg = plain.Quoted(arg)
		}
		words = append(words, arg)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n%s", strings.Join(words, " "), h.out.String())
	for line := range strings.Lines(h.errs.String()) {
		fmt.Fprintf(&text, "stderr: %s\n", strings.TrimRight(line, "\n"))
	}
	fmt.Fprintf(&text, "exit %d\n", code)
	return text.String()
}

// golden compares text with a file in testdata, or writes it with -update.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test ./cmd/swctl/internal/commands -update writes it", err)
	}
	if text != string(want) {
		t.Errorf("%s differs.\n--- got\n%s--- want\n%s", path, text, want)
	}
}

// fakeClient gives a test's answers: for cases that are hard to bring about on a real group, such
// as errors, histories with one of everything, and clocks that differ. What commands change is
// tested on a real one: see onGroup.
type fakeClient struct {
	jobs       map[string]admin.JobStatus
	entries    map[string][]history.Entry
	log        []admin.LogEntry
	roles      admin.Roles
	check      admin.RolesCheck
	explained  map[string]admin.Explanation // what Why returns, but for the job
	instances  []admin.Instance
	servers    []admin.Server             // of Examine
	requests   map[string][]admin.Request // by job
	orders     []admin.Order
	unreadable []admin.UnreadableNode
	adopter    string           // who adopts new jobs; nobody if empty
	fail       map[string]error // by call, such as "Cancel weekly" or "List"
	block      map[string]bool  // calls that last until their context ends
	ahead      time.Duration    // this machine's clock
	own        bool             // which is all there is
	live       bool             // instances are, for Clear
	missed     int              // ticks, of Resume
	ended      []history.Entry  // what AwaitRun returns
	triggered  admin.TriggerOptions
	stopped    admin.StopOptions
	onAwait    func()                 // called when AwaitOwner begins
	onGet      func()                 // called when Get begins
	events     []admin.Event          // what Watch returns
	readings   []admin.HistoryReading // what WatchHistories returns
	calls      []string
	foreign    []admin.ForeignNode
}

var _ group.Client = (*fakeClient)(nil)

func newFake() *fakeClient {
	since := testNow.Add(-51*time.Hour - 30*time.Minute)
	tick := time.Date(2026, 11, 21, 2, 0, 0, 0, time.UTC)
	f := &fakeClient{adopter: "app-2", fail: map[string]error{}, block: map[string]bool{}}
	f.jobs = map[string]admin.JobStatus{
		"nightly": {
			Name: "nightly", Job: job.Job{Name: "nightly", Schedule: "0 3 * * *", TimeZone: "Europe/Berlin", Handler: "report", Args: map[string]string{"to": "ops@example.org", "day": "yesterday"}},
			Version: 2, Number: 3, Declared: true, State: admin.StateOwned,
			Owner:      &admin.Owner{InstanceID: "app-2", Token: 4294967313, Since: since},
			Registered: []string{"app-1", "app-2"}, NextRun: tick.Add(24 * time.Hour),
			LastRun: &history.Run{
				Tick: tick, State: "failed", InstanceID: "app-2", Token: 4294967313, RunID: "0198c5e2", Attempt: 1,
				Started: tick.Add(40 * time.Millisecond), Ended: tick.Add(41240 * time.Millisecond),
				Error: "dial tcp 10.0.0.9:5432: connection refused\n\x1b[31mgoroutine 7\x1b[0m [running]:\n\tmain.report()",
			},
		},
		"orphan": {
			Name: "orphan", Job: job.Job{Name: "orphan", Schedule: "@every 90s"}, Number: 1, State: admin.StateUnowned,
			Reason:  reason.Reason{Code: reason.NoHandler, Handler: "orphan"},
			NextRun: testNow.Add(25 * time.Second),
		},
		"レポート": {
			Name: "レポート", Job: job.Job{Name: "レポート", Schedule: "0 0 9 * * ?", TimeZone: "Asia/Shanghai"}, Version: 1, Number: 1, State: admin.StateOwned,
			Owner:      &admin.Owner{InstanceID: "app-1", Token: 4294967400, Since: testNow.Add(-90 * time.Second)},
			Registered: []string{"app-1"}, NextRun: time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC),
			LastRun: &history.Run{
				Tick: testNow.Add(-41 * time.Second), State: "running", InstanceID: "app-1", Token: 4294967400,
				RunID: "0198c5ff", Attempt: 2, Started: testNow.Add(-41 * time.Second),
			},
		},
		"broken": {
			Name: "broken", Job: job.Job{Name: "broken"}, Version: 7, State: admin.StateInvalid,
			Reason: reason.Reason{Code: reason.NewerVersion, Error: "job spec: written with schema 9,\nthis version reads up to 1: upgrade it"},
		},
	}
	f.entries = map[string][]history.Entry{"nightly": nightlyEntries()}
	for name, status := range f.jobs {
		if status.State != admin.StateInvalid {
			status.Job = status.Job.WithDefaults()
			f.jobs[name] = status
		}
	}
	f.instances = []admin.Instance{
		{ID: "app-1", Incarnation: "1", Host: "db7.example.org", PID: 4711, StartedAt: testNow.Add(-76 * time.Hour), Version: "v0.3.0", Program: "1.4.0", Owned: 1, Weight: 2, MaxSlots: 20, MaxRunning: 5, State: "active"},
		{ID: "app-2", Incarnation: "2", Host: "db8.example.org", PID: 17, StartedAt: testNow.Add(-3 * time.Minute), Owned: 1, Weight: 1, State: "stopping"},
	}
	return f
}

// nightlyRequests are requests, one of each kind.
func nightlyRequests() []admin.Request {
	ask := func(id, kind, run string, ago time.Duration) admin.Request {
		return admin.Request{ID: id, Slot: "nightly", Kind: kind, RunID: run, At: testNow.Add(-ago), By: "ann@ops", Reason: "disk\nwas full"}
	}
	return []admin.Request{
		ask("0198c600", admin.RequestRun, "0198c5ff", time.Hour), ask("0198c601", admin.RequestStop, "0198c5ff", time.Minute),
		ask("0198c602", admin.RequestRun, "", time.Second), ask("0198c603", admin.RequestRun, "", 0), {ID: "hand", Slot: "nightly"},
	}
}

// nightlyEntries is a history with one of everything.
func nightlyEntries() []history.Entry {
	tick := time.Date(2026, 11, 21, 2, 0, 0, 0, time.UTC)
	day := func(back int) time.Time { return tick.AddDate(0, 0, -back) }
	run := func(tick time.Time, state history.State, attempt int, took time.Duration) history.Entry {
		e := history.Entry{To: tick, Count: 1, Run: history.Run{
			Tick: tick, State: state, InstanceID: "app-2", Token: 4294967313, RunID: fmt.Sprintf("0198c5e%d", attempt),
			Attempt: attempt, Started: tick.Add(40 * time.Millisecond),
		}}
		if took > 0 {
			e.Ended = e.Started.Add(took)
		}
		return e
	}
	row := func(from, to time.Time, count int, state history.State, reason history.Reason) history.Entry {
		return history.Entry{
			Run: history.Run{Tick: from, State: state, InstanceID: "app-2", Token: 4294967313, Ended: to.Add(time.Minute)},
			To:  to, Count: count, Reason: reason,
		}
	}
	manual := run(testNow.Add(-41*time.Second), "running", 1, 0)
	manual.Manual = "0198c600"
	failed := run(tick, "failed", 2, 41200*time.Millisecond)
	failed.Error, failed.Failures = "dial tcp 10.0.0.9:5432: connection refused\nstack", 1
	failed.NextAttempt, failed.NextAttemptAt = "retry", testNow.Add(90*time.Second)
	taken := run(day(6), "ok", 1, 38*time.Second)
	taken.TakenFrom = "app-1"
	return []history.Entry{
		manual, failed, run(tick, "timed_out", 1, 10*time.Minute),
		row(day(4), day(1), 4, "skipped", "paused"), row(day(5), day(5), 1, "missed", "no_owner"),
		taken, {Run: history.Run{State: "unreadable", Error: "history \"zzz\": invalid character"}, Count: 1},
	}
}

// begin notes a call, and fails or blocks it as told.
func (f *fakeClient) begin(ctx context.Context, call string) error {
	f.calls = append(f.calls, call)
	if f.block[call] {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.fail[call]
}

// missing is admin's error for a job that is not there.
func missing(doing string) error { return fmt.Errorf("%s: %w", doing, admin.ErrNotFound) }

// judged is a job as it is read now.
func judged(job admin.JobStatus) admin.JobStatus {
	job.Slots = slices.Clone(job.Slots)
	job.SetConditions(testNow)
	return job
}

// find is a job, or a shard of it.
func (f *fakeClient) find(doing, name string) (admin.JobStatus, error) {
	of, shard, sharded := job.SplitShard(name)
	if !sharded {
		of = name
	}
	job, ok := f.jobs[of]
	switch {
	case !ok:
		return job, missing(doing)
	case sharded && shard >= len(job.Slots):
		return job, fmt.Errorf("%s: %w: %s has shards 0 to %d", doing, admin.ErrNoShard, of, len(job.Slots)-1)
	case sharded:
		return judged(job.Slots[shard]), nil
	}
	return judged(job), nil
}

func (f *fakeClient) Close() { f.calls = append(f.calls, "Close") }

// Submit keeps its arguments.
func (f *fakeClient) Submit(ctx context.Context, j job.Job, _ admin.SubmitOptions) (admin.Change, error) {
	status := f.jobs[j.Name]
	status.Name, status.Job = j.Name, j.WithDefaults()
	f.jobs[j.Name] = status
	return admin.Change{Outcome: admin.OutcomeCreated, Job: status.Job, Number: 1, NextRun: testNow.Add(time.Hour)}, f.begin(ctx, "Submit "+j.Name)
}

func (f *fakeClient) Undelete(ctx context.Context, name string, opts admin.UndeleteOptions) (admin.Change, error) {
	status := f.jobs[name]
	return admin.Change{Outcome: admin.OutcomeUndeleted, Job: status.Job, Number: status.Number, NextRun: status.NextRun}, f.begin(ctx, "Undelete "+name+" "+opts.As)
}

func (f *fakeClient) Version(ctx context.Context, name string, number int) (admin.JobVersion, error) {
	v := admin.JobVersion{
		Number: number, At: testNow.Add(-time.Hour), Kind: "set", By: "bob", From: "root@vm", Reason: "too loud", Job: f.jobs[name].Job.Clone(),
	}
	v.Job.Schedule, v.Job.Retries = "30 3 * * *", number
	return v, f.begin(ctx, fmt.Sprintf("Version %s %d", name, number))
}

func (f *fakeClient) Rollback(ctx context.Context, name string, to int, _ admin.EditOptions) (admin.Change, error) {
	status := f.jobs[name]
	before := status.Job.Clone()
	before.Retries++
	return admin.Change{Outcome: admin.OutcomeChanged, Job: status.Job, Before: &before, Number: status.Number + 1, NextRun: status.NextRun}, f.begin(ctx, fmt.Sprintf("Rollback %s %d", name, to))
}

// Edit keeps its arguments.
func (f *fakeClient) Edit(ctx context.Context, name string, change func(*job.Job) error, _ admin.EditOptions) (admin.Change, error) {
	status := f.jobs[name]
	before := status.Job.Clone()
	err := errors.Join(change(&status.Job), f.begin(ctx, "Edit "+name))
	f.jobs[name] = status
	return admin.Change{Outcome: admin.OutcomeChanged, Job: status.Job, Before: &before, Version: status.Version + 1, Number: status.Number + 1, NextRun: status.NextRun}, err
}

func (f *fakeClient) Pause(ctx context.Context, name string, opts admin.PauseOptions) (admin.PauseResult, error) {
	job, pause := f.jobs[name], admin.Pause{Since: testNow, By: opts.By, Missed: "skip"}
	job.Paused, job.NextRun = &pause, opts.Until
	f.jobs[name] = job
	return admin.PauseResult{Outcome: admin.OutcomePaused, Pause: &pause}, f.begin(ctx, "Pause "+name)
}

func (f *fakeClient) Resume(ctx context.Context, name string, opts admin.ResumeOptions) (admin.PauseResult, error) {
	job := f.jobs[name]
	job.Paused, job.NextRun = nil, testNow.Add(time.Hour)
	f.jobs[name] = job
	return admin.PauseResult{Outcome: admin.OutcomeResumed, Pause: &admin.Pause{Missed: opts.Missed}, Missed: f.missed}, f.begin(ctx, "Resume "+name)
}

func (f *fakeClient) History(ctx context.Context, name string) (admin.History, error) {
	if err := f.begin(ctx, "History "+name); err != nil {
		return admin.History{}, err
	}
	job, err := f.find(fmt.Sprintf("history of %q", name), name)
	if err != nil {
		return admin.History{}, err
	}
	return admin.History{Job: job, Entries: f.entries[name]}, nil
}

func (f *fakeClient) Log(ctx context.Context, opts admin.LogOptions) ([]admin.LogEntry, error) {
	var chosen []admin.LogEntry
	for _, e := range f.log {
		if (opts.Max == 0 || len(chosen) < opts.Max) && (opts.Job == "" || slices.Contains(e.Jobs, opts.Job)) {
			chosen = append(chosen, e)
		}
	}
	return chosen, f.begin(ctx, "Log "+opts.Job)
}

func (f *fakeClient) Histories(ctx context.Context, jobs []admin.JobStatus) ([][]history.Entry, error) {
	all := make([][]history.Entry, len(jobs))
	for i, job := range jobs {
		all[i] = f.entries[job.Name]
	}
	return all, f.begin(ctx, "Histories")
}

// Watch returns the events, and then ends as the test wants, or with its context.
func (f *fakeClient) Watch(ctx context.Context, o admin.WatchOptions) iter.Seq2[admin.Event, error] {
	return func(yield func(admin.Event, error) bool) {
		err := f.begin(ctx, fmt.Sprintf("Watch %v since %d", o.Jobs, o.Since))
		for _, ev := range f.events {
			if !yield(ev, nil) {
				return
			}
		}
		yield(admin.Event{}, err)
	}
}

// WatchHistories returns the readings, and then ends as the test wants, or with its context.
func (f *fakeClient) WatchHistories(ctx context.Context, _ admin.WatchHistoriesOptions) iter.Seq2[admin.HistoryReading, error] {
	return func(yield func(admin.HistoryReading, error) bool) {
		err := f.begin(ctx, "WatchHistories")
		for _, r := range f.readings {
			if !yield(r, nil) {
				return
			}
		}
		yield(admin.HistoryReading{}, err)
	}
}

func (f *fakeClient) Trigger(ctx context.Context, name string, opts admin.TriggerOptions) (admin.TriggerResult, error) {
	if err := f.begin(ctx, "Trigger "+name); err != nil {
		return admin.TriggerResult{}, err
	}
	f.triggered = opts
	job, err := f.find("trigger "+name, name)
	switch {
	case err != nil:
		return admin.TriggerResult{}, err
	case job.State != admin.StateOwned && !opts.WaitForHandler:
		return admin.TriggerResult{}, fmt.Errorf("trigger %s: %w: %s", name, admin.ErrNoHandler, job.Reason)
	}
	return admin.TriggerResult{ID: "0198c600", Job: job}, nil
}

// AwaitRun gives the test's answer, and at the end of its context how far it is.
func (f *fakeClient) AwaitRun(ctx context.Context, name, id string) ([]history.Entry, error) {
	if err := f.begin(ctx, "AwaitRun "+name); err != nil {
		return []history.Entry{{Run: history.Run{Manual: id, State: history.StateWaiting}, Count: 1}}, fmt.Errorf("manual run of %s: app-2 has not started it: %w", name, err)
	}
	for i := range f.ended {
		f.ended[i].Manual = id
	}
	return f.ended, nil
}

func (f *fakeClient) Unreadable(ctx context.Context, name string) ([]admin.UnreadableNode, error) {
	if err := f.begin(ctx, "Unreadable "+name); err != nil {
		return nil, err
	}
	_, err := f.find("job "+name, name)
	return f.unreadable, err
}

func (f *fakeClient) Repair(ctx context.Context, name string, nodes []admin.UnreadableNode) error {
	return f.begin(ctx, fmt.Sprintf("Repair %s: %d", name, len(nodes)))
}

func (f *fakeClient) Requests(ctx context.Context, name string) ([]admin.Request, error) {
	_, err := f.find("requests of "+name, name)
	return f.requests[name], errors.Join(err, f.begin(ctx, "Requests "+name))
}

func (f *fakeClient) CancelRequests(ctx context.Context, name, id string) ([]admin.Request, error) {
	if _, err := f.find("cancel requests of "+name, name); err != nil {
		return nil, err
	}
	taken := func(r admin.Request) bool {
		return r.Kind == admin.RequestRun && r.RunID == "" && (id == "" || id == r.ID)
	}
	list := slices.DeleteFunc(slices.Clone(f.requests[name]), func(r admin.Request) bool { return !taken(r) })
	f.requests[name] = slices.DeleteFunc(f.requests[name], taken)
	return list, f.begin(ctx, "CancelRequests "+name)
}

func (f *fakeClient) StopRun(ctx context.Context, name string, opts admin.StopOptions) ([]history.Entry, error) {
	f.stopped = opts
	var runs []history.Entry
	job, err := f.find("stop the run of "+name, name)
	if err != nil {
		return nil, err
	}
	for _, slot := range append([]admin.JobStatus{job}, job.Slots...) {
		if slot.LastRun == nil || slot.LastRun.State != history.StateRunning {
			continue
		}
		run := history.Entry{Run: *slot.LastRun, To: slot.LastRun.Tick, Count: 1}
		if slot.Shard != nil {
			run.Shard = &slot.Shard.Index
		}
		runs = append(runs, run)
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("stop the run of %s: %w: the job never ran", name, admin.ErrNotRunning)
	}
	if err := f.begin(ctx, "StopRun "+name); err != nil {
		return runs, fmt.Errorf("stop the run of %s: run %s has not ended yet: %w", name, runs[0].RunID, err)
	}
	for i := range runs {
		runs[i].State, runs[i].Ended, runs[i].Error = history.StateInterrupted, testNow, "stopped by "+opts.By+": "+opts.Reason
	}
	return runs, nil
}

func (f *fakeClient) Past(ctx context.Context, name string) (admin.Past, error) {
	past, err := f.History(ctx, name)
	return admin.Past{History: past, Why: func(at time.Time) admin.Explanation {
		x, _ := f.Why(ctx, name, at)
		return x
	}}, err
}

func (f *fakeClient) Why(ctx context.Context, name string, at time.Time) (admin.Explanation, error) {
	if err := f.begin(ctx, "Why "+name); err != nil {
		return admin.Explanation{}, err
	}
	job, err := f.find(fmt.Sprintf("why %q", name), name)
	if err != nil {
		return admin.Explanation{}, err
	}
	if at.IsZero() {
		at = testNow
	}
	if x, ok := f.explained[name]; ok {
		x.Job, x.Asked = job, at
		return x, nil
	}
	missed := f.entries[name][4]
	missed.InstanceID = "app\x1b-2"
	return admin.Explanation{
		Job: job, Asked: at, Tick: missed.Tick, Fate: history.StateMissed, Reason: history.ReasonNoOwner, Entries: []history.Entry{missed},
		At: testNow, ScheduleSince: testNow.AddDate(0, 0, -30),
	}, nil
}

func (f *fakeClient) SubmitAll(ctx context.Context, jobs []admin.Submission) (done []admin.Change, err error) {
	for _, of := range jobs {
		one, failed := f.Submit(ctx, of.Job, of.Options)
		done, err = append(done, one), errors.Join(err, failed)
	}
	return done, err
}

// AwaitOwner ends at once, as with its context, when nobody adopts the job.
func (f *fakeClient) AwaitOwner(ctx context.Context, name string) (admin.JobStatus, error) {
	job := f.jobs[name]
	if f.onAwait != nil {
		f.onAwait()
	}
	_ = f.begin(ctx, "AwaitOwner "+name)
	if err := f.fail["AwaitOwner "+name]; err != nil {
		return admin.JobStatus{}, err
	}
	if f.adopter == "" || f.block["AwaitOwner "+name] {
		job.Reason = reason.Reason{Code: reason.NoHandler, Handler: name}
		f.jobs[name] = job
		return admin.JobStatus{}, fmt.Errorf("job %q has no owner yet: %s: %w", name, job.Reason, context.DeadlineExceeded)
	}
	job.State, job.Reason = admin.StateOwned, reason.Reason{}
	job.Owner = &admin.Owner{InstanceID: f.adopter, Token: 4294967500, Since: testNow}
	return job, nil
}

func (f *fakeClient) Get(ctx context.Context, name string) (admin.JobStatus, error) {
	if f.onGet != nil {
		f.onGet()
	}
	if err := f.begin(ctx, "Get "+name); err != nil {
		return admin.JobStatus{}, err
	}
	return f.find(fmt.Sprintf("job %q", name), name)
}

func (f *fakeClient) Cancel(ctx context.Context, name string) (admin.JobStatus, error) {
	if err := f.begin(ctx, "Cancel "+name); err != nil {
		return admin.JobStatus{}, err
	}
	job, ok := f.jobs[name]
	if !ok {
		return admin.JobStatus{}, missing("cancel " + name)
	}
	delete(f.jobs, name)
	return job, nil
}

func (f *fakeClient) List(ctx context.Context) ([]admin.JobStatus, error) {
	if err := f.begin(ctx, "List"); err != nil {
		return nil, err
	}
	var jobs []admin.JobStatus
	for _, name := range slices.Sorted(maps.Keys(f.jobs)) {
		jobs = append(jobs, judged(f.jobs[name]))
	}
	return jobs, nil
}

func (f *fakeClient) Clock() (now time.Time, ahead time.Duration, own bool) {
	return testNow.Add(-f.ahead), f.ahead, f.own
}

func (f *fakeClient) Names(context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(f.jobs)), nil
}

func (f *fakeClient) InstanceIDs(context.Context) (ids []string, err error) {
	for _, i := range f.instances {
		ids = append(ids, i.ID)
	}
	return ids, nil
}

func (f *fakeClient) Handlers(context.Context) ([]string, error) {
	return []string{"export", "report"}, nil
}

func (f *fakeClient) ServerTypes(context.Context) ([]string, error) { return []string{"billing"}, nil }

func (f *fakeClient) Instances(ctx context.Context) ([]admin.Instance, error) {
	return f.instances, f.begin(ctx, "Instances")
}

func (f *fakeClient) Examine(ctx context.Context) (admin.Examination, error) {
	jobs, err := f.List(ctx)
	return admin.Examination{Now: testNow, Servers: f.servers, Jobs: jobs, Instances: f.instances, NamesBytes: 64}, err
}

func (f *fakeClient) Foreign(ctx context.Context, root, _ string) ([]admin.ForeignNode, error) {
	return f.foreign, f.begin(ctx, "Foreign "+root)
}
