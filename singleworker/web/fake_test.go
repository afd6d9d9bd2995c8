package web

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

// fake is a group with one of everything, as of noon.
type fake struct {
	mu        sync.Mutex
	jobs      []admin.JobStatus
	entries   map[string][]history.Entry
	instances []admin.Instance
	orders    []admin.Order
	calendars []admin.Calendar
	limits    []admin.Limit
	log       []admin.LogEntry
	requests  []admin.Request
	calls     map[string]int
	changes   []string
	triggered admin.TriggerOptions
	fail      map[string]error // by call
	hold      chan struct{}    // Group waits until it is closed, or its context ends
	ahead     time.Duration    // this machine's clock
}

var noon = time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)

// awaitNoon has it noon in a synctest bubble.
func awaitNoon() { time.Sleep(time.Until(noon)) }

func newFake() *fake {
	tick := noon.Add(-3 * time.Hour)
	failed := history.Run{
		Tick: tick, State: history.StateFailed, InstanceID: "app-2", Token: 17, RunID: "0198c5e2", Attempt: 2, Failures: 1, Started: tick.Add(40 * time.Millisecond),
		Ended: tick.Add(41 * time.Second), Error: "dial tcp: connection refused\nmain.report()", NextAttempt: history.NextRetry, NextAttemptAt: noon.Add(time.Minute),
	}
	ok := history.Run{
		Tick: tick.Add(-24 * time.Hour), State: history.StateOK, InstanceID: "app-1", Token: 11, RunID: "0198c5d0", Attempt: 1,
		Started: tick.Add(-24 * time.Hour), Ended: tick.Add(-24*time.Hour + 20*time.Second), TakenFrom: "app-3",
	}
	describe := func(name, schedule string) job.Job {
		return job.Job{Name: name, Schedule: schedule, TimeZone: "Europe/Berlin", Handler: "report", Labels: map[string]string{"team": "billing"}}.WithDefaults()
	}
	owner := &admin.Owner{InstanceID: "app-2", Token: 17, Since: noon.Add(-50 * time.Hour)}
	f := &fake{calls: make(map[string]int), fail: make(map[string]error), entries: make(map[string][]history.Entry)}
	f.jobs = []admin.JobStatus{
		{Name: "broken", State: admin.StateInvalid, Job: job.Job{Name: "broken"}, Reason: reason.Reason{Code: reason.Unreadable, Error: "record is garbage"}},
		{
			Name: "nightly", Job: describe("nightly", "0 10 * * *"), Version: 2, Declared: true, State: admin.StateOwned, Owner: owner, Registered: []string{"app-1", "app-2"},
			NextRun: noon.Add(21 * time.Hour), LastRun: &failed, Failing: &admin.Failing{Runs: 4, Since: tick, OK: ok.Tick}, Watermark: tick,
		},
		{Name: "orphan", Job: describe("orphan", "@every 90s"), State: admin.StateUnowned, Reason: reason.Reason{Code: reason.NoHandler, Handler: "orphan"}},
		{
			Name: "parts", Job: describe("parts", "@hourly"), State: admin.StateOwned, NextRun: noon.Add(time.Hour),
			Paused: &admin.Pause{Since: noon.Add(-30 * time.Hour), By: "alice@ops", Reason: "migration"},
			Slots: []admin.JobStatus{
				{Name: "parts[0]", Job: describe("parts", "@hourly"), State: admin.StateOwned, Owner: owner, Shard: &admin.Shard{Total: 2, Parameter: "north"}},
				{Name: "parts[1]", Job: describe("parts", "@hourly"), State: admin.StateOwned, Owner: owner, Shard: &admin.Shard{Index: 1, Total: 2}},
			},
		},
	}
	f.entries["nightly"] = []history.Entry{
		{Run: failed, To: failed.Tick, Count: 1},
		{Run: history.Run{Tick: tick.Add(-3 * time.Hour), State: history.StateSkipped, InstanceID: "app-2", Token: 17}, To: tick.Add(-time.Hour), Count: 3, Reason: history.ReasonPaused},
		{Run: ok, To: ok.Tick, Count: 1},
	}
	offset := 7 * time.Second
	f.instances = []admin.Instance{
		{ID: "app-1", Incarnation: "1", Host: "db7", PID: 4711, StartedAt: noon.Add(-76 * time.Hour), Version: "v0.3.0", Program: "1.4.0", Owned: 1, Weight: 2, State: admin.InstanceActive},
		{ID: "app-2", Incarnation: "2", Host: "db8", PID: 17, StartedAt: noon.Add(-3 * time.Minute), Owned: 1, Weight: 1, MaxSlots: 20, State: admin.InstanceWrongClock, ClockOffset: &offset},
	}
	f.orders = []admin.Order{{InstanceID: "app-9", By: "bob@ops", Reason: "disk", At: noon.Add(-time.Hour)}}
	f.limits = []admin.Limit{{
		Name: "crm-api", Max: 2, Set: "files", Jobs: []string{"nightly", "orphan"},
		Held:    []admin.HeldPlace{{Place: 0, Slot: "nightly", Since: noon.Add(-time.Minute)}, {Place: 1, Slot: "gone[3]", Since: noon.Add(-time.Hour), Leaked: true}},
		Waiting: []admin.WaitingInstance{{InstanceID: "app-1", Since: noon.Add(-time.Minute)}},
	}, {Name: "spoilt", Error: "not JSON"}}
	f.calendars = []admin.Calendar{
		{
			Name: "holidays", Is: job.Calendar{TimeZone: "Europe/Berlin", Yearly: []string{"01-01", "12-25..12-26"}}, Since: noon.Add(-time.Hour), Set: "files", Jobs: []string{"nightly", "orphan"},
			Former: []admin.FormerCalendar{{Is: job.Calendar{TimeZone: "Europe/Berlin", Yearly: []string{"12-25"}}, Since: noon.Add(-72 * time.Hour)}},
		},
		{Name: "spoilt", Error: "not JSON"},
	}
	f.log = []admin.LogEntry{
		{At: noon.Add(-time.Hour), Kind: "pause", Jobs: []string{"parts"}, By: "alice@ops", From: "alice@laptop", Reason: "migration"},
		{At: noon.Add(-2 * time.Hour), Kind: "submit", Jobs: []string{"nightly", "orphan"}, More: 3, By: "bob", From: "bob@<laptop>"},
		{At: noon.Add(-3 * time.Hour), Kind: "drain", Where: "app-2", By: "ann"},
		{At: noon.Add(-4 * time.Hour), Kind: admin.LogOutage, From: "app-1", Since: noon.Add(-5 * time.Hour), Until: noon.Add(-4 * time.Hour)},
	}
	f.requests = []admin.Request{{ID: "0198c600", Slot: "nightly", Kind: admin.RequestRun, At: noon.Add(-time.Minute), By: "ann@ops", Reason: "again"}}
	return f
}

// begin counts a call, and fails it as told.
func (f *fake) begin(ctx context.Context, call string) error {
	f.mu.Lock()
	f.calls[call]++
	err, hold := f.fail[call], f.hold
	f.mu.Unlock()
	if errors.Is(err, errPanic) {
		panic(err)
	}
	if hold != nil && call == "Group" {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

func (f *fake) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[call]
}

func (f *fake) Group(ctx context.Context) (admin.Group, error) {
	now, _, _ := f.Clock()
	return admin.Group{Jobs: judged(f.jobs, now), Instances: f.instances, Orders: slices.Clone(f.orders)}, f.begin(ctx, "Group")
}

// judged are jobs as they are read at that time.
func judged(jobs []admin.JobStatus, now time.Time) []admin.JobStatus {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Slots = slices.Clone(jobs[i].Slots)
		jobs[i].SetConditions(now)
	}
	return jobs
}

func (f *fake) Get(ctx context.Context, name string) (admin.JobStatus, error) {
	if err := f.begin(ctx, "Get"); err != nil {
		return admin.JobStatus{}, err
	}
	now, _, _ := f.Clock()
	for _, job := range judged(f.jobs, now) {
		slots := append([]admin.JobStatus{job}, job.Slots...)
		if i := slices.IndexFunc(slots, func(s admin.JobStatus) bool { return s.Name == name }); i >= 0 {
			return slots[i], nil
		}
	}
	return admin.JobStatus{}, fmt.Errorf("job %q: %w", name, admin.ErrNotFound)
}

func (f *fake) Job(ctx context.Context, name string) (admin.JobDetails, error) {
	_ = f.begin(ctx, "Job")
	status, err := f.Get(ctx, name)
	d := admin.JobDetails{History: admin.History{Job: status, Entries: f.entries[name]}}
	if name == "nightly" || name == evil {
		d.Requests = f.requests
	}
	d.Why = func(at time.Time) admin.Explanation { return explained(d.History, at) }
	return d, err
}

func (f *fake) Histories(ctx context.Context, jobs []admin.JobStatus) ([][]history.Entry, error) {
	all := make([][]history.Entry, len(jobs))
	for i, job := range jobs {
		all[i] = f.entries[job.Name]
	}
	return all, f.begin(ctx, "Histories")
}

func explained(past admin.History, at time.Time) admin.Explanation {
	x := admin.Explanation{Job: past.Job, Asked: at, At: time.Now(), History: past.Entries, Fate: admin.FateNone, ScheduleSince: noon.Add(-72 * time.Hour)}
	if len(past.Entries) > 0 {
		x.Tick, x.Entries, x.Fate = past.Entries[0].Tick, past.Entries[:1], past.Entries[0].State
	}
	for _, slot := range past.Job.Slots {
		part := x
		part.Job = slot
		x.Shards = append(x.Shards, part)
	}
	return x
}

func (f *fake) Examine(ctx context.Context, g admin.Group) (admin.Examination, error) {
	now, ahead, own := f.Clock()
	servers := []admin.Server{{Address: "zk1:2181", State: admin.ServerServing, Mode: "standalone", Connections: 3}}
	return admin.Examination{Now: now, Ahead: ahead, Own: own, Servers: servers, Group: g}, f.begin(ctx, "Examine")
}

func (f *fake) Instance(ctx context.Context, sid string) (admin.InstanceDetails, error) {
	if err := f.begin(ctx, "Instance"); err != nil {
		return admin.InstanceDetails{}, err
	}
	for _, i := range f.instances {
		if i.ID == sid {
			owned := []admin.OwnedSlot{{Name: "nightly", Token: 17, Since: noon.Add(-time.Hour), Run: f.jobs[min(1, len(f.jobs)-1)].LastRun}}
			return admin.InstanceDetails{Instance: i, SessionID: "0x10a", SessionTimeout: 10 * time.Second, Handlers: []string{"report"}, Slots: owned}, nil
		}
	}
	return admin.InstanceDetails{}, fmt.Errorf("instance %q: %w", sid, admin.ErrNoInstance)
}

func (f *fake) Clock() (now time.Time, ahead time.Duration, own bool) {
	return time.Now().Add(-f.ahead), f.ahead, false
}

func (f *fake) Gone(ctx context.Context) ([]admin.GoneInstance, error) {
	return []admin.GoneInstance{{ID: "app-3", Host: "db9", How: admin.GoneHung, At: noon.Add(-5 * time.Hour), LastSign: noon.Add(-6 * time.Hour), StartedAt: noon.Add(-7 * time.Hour)}}, f.begin(ctx, "Gone")
}

func (f *fake) Log(ctx context.Context, _ admin.LogOptions) ([]admin.LogEntry, error) {
	return f.log, f.begin(ctx, "Log")
}

func (f *fake) Limits(ctx context.Context) ([]admin.Limit, error) {
	return f.limits, f.begin(ctx, "Limits")
}

func (f *fake) Calendars(ctx context.Context) ([]admin.Calendar, error) {
	return f.calendars, f.begin(ctx, "Calendars")
}

// change notes each change, and who makes it.
func (f *fake) change(ctx context.Context, call, of, by, reason string) error {
	err := f.begin(ctx, call)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = append(f.changes, strings.TrimSpace(call+" "+of+" "+by+" "+reason))
	return err
}

func (f *fake) Submit(ctx context.Context, j job.Job, o admin.SubmitOptions) (admin.Change, error) {
	err := f.change(ctx, "Submit", j.Name, j.Schedule, fmt.Sprintf("replace=%t seen=%v dry=%t", o.Replace, o.Seen, o.DryRun))
	outcome := admin.OutcomeCreated
	if o.Replace {
		outcome = admin.OutcomeReplaced
	}
	return admin.Change{Outcome: outcome, Job: j.WithDefaults(), Version: 3}, err
}

func (f *fake) Trigger(ctx context.Context, name string, o admin.TriggerOptions) (admin.TriggerResult, error) {
	f.triggered = o
	return admin.TriggerResult{ID: "0198c700", Job: f.jobs[1]}, f.change(ctx, "Trigger", name, o.By, o.Reason)
}

func (f *fake) StopRun(ctx context.Context, name string, o admin.StopOptions) ([]history.Entry, error) {
	return []history.Entry{{Run: *f.jobs[1].LastRun, Count: 1}}, f.change(ctx, "StopRun", name, o.By, o.Reason)
}

func (f *fake) Pause(ctx context.Context, name string, o admin.PauseOptions) (admin.PauseResult, error) {
	return admin.PauseResult{Outcome: admin.OutcomePaused}, f.change(ctx, "Pause", name, o.By, o.Reason+" "+o.For.String())
}

func (f *fake) Resume(ctx context.Context, name string, o admin.ResumeOptions) (admin.PauseResult, error) {
	return admin.PauseResult{Outcome: admin.OutcomeResumed}, f.change(ctx, "Resume", name, "", string(o.Missed))
}

func (f *fake) Freeze(ctx context.Context, o admin.FreezeOptions) (admin.FreezeResult, error) {
	return admin.FreezeResult{Outcome: admin.OutcomeFrozen}, f.change(ctx, "Freeze", "", o.By, o.Reason+" "+o.For.String())
}

func (f *fake) Unfreeze(ctx context.Context, o admin.ResumeOptions) (admin.FreezeResult, error) {
	return admin.FreezeResult{Outcome: admin.OutcomeUnfrozen}, f.change(ctx, "Unfreeze", "", "", string(o.Missed))
}

func (f *fake) Cancel(ctx context.Context, name string) (admin.JobStatus, error) {
	return f.jobs[1], f.change(ctx, "Cancel", name, "", "")
}

func (f *fake) Drain(ctx context.Context, sid string, o admin.OrderOptions) (admin.OrderResult, error) {
	return admin.OrderResult{Outcome: admin.OutcomeOrdered}, f.change(ctx, "Drain", sid, o.By, o.Reason)
}

func (f *fake) EnableAt(ctx context.Context, t admin.Target) (admin.OrderResult, error) {
	return admin.OrderResult{Outcome: admin.OutcomeEnabled}, f.change(ctx, "Enable", t.InstanceID, "", "")
}

// Watch reports nothing.
func (f *fake) Watch(ctx context.Context, _ admin.WatchOptions) iter.Seq2[admin.Event, error] {
	return func(yield func(admin.Event, error) bool) {
		<-ctx.Done()
		yield(admin.Event{}, ctx.Err())
	}
}

// site is a handler under test.
type site struct {
	*testing.T

	handler http.Handler
}

func serve(t *testing.T, client Client, opts Options) site {
	t.Helper()
	pages, err := Handler(client, opts)
	if err != nil {
		t.Fatal(err)
	}
	return site{t, pages}
}

// do sends a request. change may change it.
func (s site) do(method, path string, change func(*http.Request)) *httptest.ResponseRecorder {
	s.Helper()
	r := httptest.NewRequestWithContext(s.Context(), method, "http://localhost/", nil)
	var err error
	if r.URL, err = r.URL.Parse(path); err != nil {
		s.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// get expects a page.
func (s site) get(path string) string {
	s.Helper()
	w := s.do(http.MethodGet, path, nil)
	if w.Code != http.StatusOK {
		s.Errorf("%s: %d\n%s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// weight is how many bytes are sent to a browser.
func (s site) weight(path string) int {
	return s.do(http.MethodGet, path, func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") }).Body.Len()
}

// wants expects texts on a page.
func (s site) wants(path string, texts ...string) {
	s.Helper()
	page := s.get(path)
	for _, text := range texts {
		if !strings.Contains(page, text) {
			s.Errorf("%s: no %q in\n%s", path, text, page)
		}
	}
}

// paths are all pages, of the fake.
var paths = []string{"/", "/jobs", "/job?name=nightly", "/job?name=parts", "/job?name=parts%5B1%5D", "/job?name=broken", "/instances", "/instance?id=app-2",
	"/timeline", "/timeline?by=instance&span=7d&end=2000-01-01T09:00:00Z", "/owners", "/calendar", "/calendars", "/limits", "/log", "/log?job=nightly", "/doctor", "/edit?name=nightly",
}
