package commands

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

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

func (f *fakeClient) Freeze(ctx context.Context, opts admin.FreezeOptions) (admin.FreezeResult, error) {
	freeze := admin.Freeze{Pause: admin.Pause{Since: testNow, Until: opts.Until, By: opts.By, Reason: opts.Reason, Missed: "skip"}, Except: opts.Except}
	if opts.For > 0 {
		freeze.Until = testNow.Add(opts.For)
	}
	return admin.FreezeResult{Outcome: admin.OutcomeFrozen, Freeze: &freeze}, f.begin(ctx, fmt.Sprintf("Freeze %v", opts.Except))
}

func (f *fakeClient) Unfreeze(ctx context.Context, opts admin.ResumeOptions) (admin.FreezeResult, error) {
	err := f.begin(ctx, "Unfreeze "+string(opts.Missed))
	if opts.Missed == "" {
		return admin.FreezeResult{Outcome: admin.OutcomeUnchanged}, err
	}
	return admin.FreezeResult{Outcome: admin.OutcomeUnfrozen, Freeze: &admin.Freeze{Pause: admin.Pause{Since: testNow.Add(-time.Hour), Until: testNow, Missed: opts.Missed}}}, err
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

func (f *fakeClient) Backfill(ctx context.Context, name string, opts admin.BackfillOptions) (admin.BackfillResult, error) {
	if err := f.begin(ctx, "Backfill "+name); err != nil {
		return admin.BackfillResult{}, err
	}
	f.backfilled = opts
	job, err := f.find("backfill "+name, name)
	if err != nil {
		return admin.BackfillResult{}, err
	}
	result := admin.BackfillResult{ID: "0198c600", Job: job, Slots: []admin.BackfillTicks{f.pastTicks}}
	if opts.DryRun || len(f.pastTicks.Ticks) == 0 {
		result.ID = ""
	}
	return result, nil
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

func (f *fakeClient) Job(ctx context.Context, name string) (admin.JobDetails, error) {
	job, err := f.Get(ctx, name)
	if err != nil {
		return admin.JobDetails{}, err
	}
	past, err := f.History(ctx, name)
	past.Job = job
	return admin.JobDetails{History: past, Requests: f.requests[name], Why: func(at time.Time) admin.Explanation {
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
	is := f.jobs[name]
	return f.CancelSeen(ctx, name, is.Seen())
}

func (f *fakeClient) CancelSeen(ctx context.Context, name string, seen admin.Seen) (admin.JobStatus, error) {
	if err := f.begin(ctx, "Cancel "+name); err != nil {
		return admin.JobStatus{}, err
	}
	job, ok := f.jobs[name]
	if !ok {
		return admin.JobStatus{}, missing("cancel " + name)
	}
	if seen != job.Seen() {
		return admin.JobStatus{}, fmt.Errorf("cancel: %s: %w", name, admin.ErrConflict)
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

func (f *fakeClient) Stale() (sign time.Time, stale bool) {
	return testNow.Add(-3 * time.Minute), f.stale
}

func (f *fakeClient) Zxid() int64 { return 4294967400 }

func (f *fakeClient) Names(context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(f.jobs)), nil
}

func (f *fakeClient) Children(_ context.Context, parents ...string) (children []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(f.jobs)) {
		isParent := func(parent string) bool { return slices.Contains(parents, parent) }
		if !isParent(name) && slices.ContainsFunc(f.jobs[name].Job.After, isParent) {
			children = append(children, name)
		}
	}
	return children, nil
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

func (f *fakeClient) Group(ctx context.Context) (g admin.Group, err error) {
	if g.Jobs, err = f.List(ctx); err == nil {
		g.Instances, g.Orders = f.instances, f.orders
	}
	return g, err
}

func (f *fakeClient) Instances(ctx context.Context) ([]admin.Instance, error) {
	return f.instances, f.begin(ctx, "Instances")
}

func (f *fakeClient) Examine(_ context.Context, g admin.Group) (admin.Examination, error) {
	return admin.Examination{Now: testNow, Servers: f.servers, Group: g, NamesBytes: 64}, nil
}

func (f *fakeClient) Foreign(ctx context.Context, root, _ string) ([]admin.ForeignNode, error) {
	return f.foreign, f.begin(ctx, "Foreign "+root)
}
