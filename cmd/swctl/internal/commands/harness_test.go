package commands

import (
	"bytes"
	"context"
	"flag"
	"fmt"
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
	"github.com/swjobs/singleworker/singleworker/zkdev/durable"
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
		env: env{
			dial: func(ctx context.Context, cfg admin.Config) (group.Client, error) {
				h.config = cfg
				return h.fake, h.fake.begin(ctx, "Dial")
			},
			whoami: func() string { return "alice@host" },
		},
		serve: func(_ context.Context, listen string, ready func(addr string) error) error {
			return ready(listen)
		},
		serveFiles: func(_ context.Context, config durable.Config, health string, ready func(durableServer) error) error {
			at := durableServer{ZK: config.Listen, Data: config.Dir}
			if health != "" {
				at.Health = "http://" + health
			}
			return ready(at)
		},
		audit: func(context.Context, txnaudit.Options) (txnaudit.Report, error) {
			return txnaudit.Report{OK: true}, nil
		},
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

// Run runs a command line of the app as a test has left it.
func (h *harness) Run(ctx context.Context, args []string) cmdline.ExitCode {
	h.Commands = h.app.commands()
	return h.App.Run(ctx, args)
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
	stale      bool             // a server without a quorum answers
	live       bool             // instances are, for Clear
	missed     int              // ticks, of Resume
	ended      []history.Entry  // what AwaitRun returns
	triggered  admin.TriggerOptions
	backfilled admin.BackfillOptions
	pastTicks  admin.BackfillTicks // of each backfill
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
	many := ask("0198c604", admin.RequestBackfill, "", time.Minute)
	day := func(d int) time.Time { return time.Date(2026, 11, d, 2, 0, 0, 0, time.UTC) }
	many.Backfill = &admin.BackfillProgress{From: day(1), To: day(20), Total: 20, Taken: 12, Next: day(13)}
	return []admin.Request{
		many, ask("0198c600", admin.RequestRun, "0198c5ff", time.Hour), ask("0198c601", admin.RequestStop, "0198c5ff", time.Minute),
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
