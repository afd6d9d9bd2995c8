package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/txnaudit"
)

var update = flag.Bool("update", false, "write the golden file")

// Every document, with everything that can be in it.
func TestDocumentsGolden(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	offset, shard := 1500*time.Millisecond, 2
	run := history.Run{
		Tick: at, Manual: "0198c600", State: history.StateFailed, InstanceID: "app-2", Token: 17, RunID: "0198c5e2", Attempt: 2, Failures: 1,
		Started: at, Ended: at.Add(time.Second), Error: "no <route>", NextAttempt: history.NextRetry, NextAttemptAt: at.Add(time.Minute),
	}
	entry := history.Entry{Run: run, To: at, Count: 1, Shard: &shard}
	skipped := history.Entry{Run: history.Run{Tick: at, State: history.StateSkipped}, To: at.Add(time.Hour), Count: 2, Reason: history.ReasonPaused}
	pause := &admin.Pause{Since: at, Until: at.Add(time.Hour), By: "alice", Reason: "migration", Missed: "once"}
	described := job.Job{Name: "nightly", Schedule: "0 3 * * *", Args: map[string]string{"to": "ops"}, Timeout: 90 * time.Second}.WithDefaults()
	status := admin.JobStatus{
		Name: "nightly", Job: described, Version: 2, Declared: true, State: admin.StateOwned, Reason: reason.Reason{Code: reason.NoHandler, Handler: "report"},
		Owner: &admin.Owner{InstanceID: "app-2", Token: 17, Since: at}, Registered: []string{"app-1", "app-2"}, NextRun: at, LastRun: &run,
		Watermark: at, Overdue: at, Complete: at, Alarm: &admin.Alarm{Tick: at, InstanceID: "app-1", At: at}, Paused: pause,
		Resizing: &admin.Resizing{From: 2, To: 3, Until: at, WaitsFor: []string{"nightly[0]"}},
		Slots:    []admin.JobStatus{{Name: "nightly[0]", Job: described, Shard: &admin.Shard{Total: 2, Parameter: "north"}, State: admin.StateUnowned}},
	}
	status.SetConditions(at.Add(time.Minute))
	order := admin.Order{InstanceID: "app-3", Incarnation: "i3", By: "alice", Reason: "disk", At: at}
	instance := admin.Instance{
		ID: "app-2", Incarnation: "i2", Host: "db8", PID: 17, StartedAt: at, Version: "v0.3.0", Owned: 1, MaxSlots: 20, Weight: 2,
		State: admin.InstanceDraining, Mode: "lease", Order: &order, Guard: "secret", ClockOffset: &offset,
		Labels: map[string]string{"zone": "a"}, Address: "http://db8:8080", JobOrders: []admin.Order{{InstanceID: "app-2", Job: "report", By: "alice", At: at}},
	}
	details := admin.InstanceDetails{
		Instance: instance, SessionID: "0x10a", SessionTimeout: 10 * time.Second, Handlers: []string{"report"},
		Slots: []admin.OwnedSlot{{Name: "nightly", Token: 17, Since: at, Run: &run}, {Name: "report[3]", Token: 18, Since: at, Error: "garbage"}},
	}
	empty := admin.JobStatus{Name: "broken", State: admin.StateInvalid, Job: job.Job{Name: "broken"}}
	request := admin.Request{ID: "0198c600", Slot: "nightly", Kind: admin.RequestRun, At: at, By: "alice", Reason: "disk", RunID: "0198c5e2"}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	for _, document := range []any{
		Document{Kind: "JobList", Stale: &Stale{LastSign: at}, Parts: []any{ItemsOf([]admin.JobStatus(nil))}},
		Job(status, []admin.Request{request}), Job(empty, nil), List("JobList", []admin.JobStatus(nil)),
		New("SubmitResult", Change{Outcome: admin.OutcomeReplaced, DryRun: true, Job: empty, Before: &described}),
		List("PauseResultList", []Paused{{admin.PauseResult{Outcome: admin.OutcomePaused, Pause: pause, Missed: 3}, empty}}),
		New("TriggerResult", admin.TriggerResult{ID: "0198c600", Job: empty}, RunsOf("nightly", []history.Entry{skipped})),
		New("StopResult", Named{"nightly[2]"}, RunsOf("nightly[2]", []history.Entry{entry})),
		New("StopResult", Named{"nightly"}, RunsOf("nightly", []history.Entry{entry, entry})),
		Instances([]admin.Instance{instance, {ID: "app-1"}}, []admin.Order{order}), Instances(nil, nil),
		Instance(details), Instance(admin.InstanceDetails{Instance: admin.Instance{ID: "app-1"}, SessionID: "0x10b"}),
		New("InstanceOrderResult", admin.OrderResult{Outcome: admin.OutcomeOrdered, Order: &order}),
		New("InstanceOrderResult", admin.OrderResult{
			Outcome: admin.OutcomeOrdered, Order: &admin.Order{Host: "db8", Job: "report"}, Bound: []admin.Instance{{ID: "app-1"}}, Deaf: []string{"app-1"},
		}),
		New("Explanation", admin.Explanation{
			Job: empty, Asked: at, Tick: at, Fate: admin.FateLate, Reason: history.ReasonPaused, Entries: []history.Entry{entry}, Unreadable: "garbage",
			History: []history.Entry{entry}, Pause: pause, ScheduleSince: at, ShardsSince: at, At: at, Shards: []admin.Explanation{{Job: empty, Fate: admin.FateNone}},
		}),
		New("TickList", Named{"nightly"}, ScheduleOf(job.Job{Schedule: "@daily", TimeZone: "UTC"}), Items[Tick]{[]Tick{{at, at, at}}}),
		New("AuditReport", txnaudit.Report{
			Group: "/apps/billing", First: txnaudit.Point{Zxid: 1, Time: at}, Last: txnaudit.Point{Zxid: 1<<32 | 7, Time: at}, Baseline: "snapshot.0", Whole: true, Losses: []txnaudit.Loss{},
			Counts:     txnaudit.Counts{Transactions: 1, Claims: 2, ManualRuns: 3, Attempts: 4, Results: 5, Ticks: 6, OwnerChanges: 7, Takeovers: 8, Layouts: 9, Complete: 10, Unjudged: 11, Unreadable: 12},
			Promises:   []txnaudit.Promise{{Rule: "claim", Text: "no tick is claimed twice", Violations: 1}},
			Violations: []txnaudit.Violation{{Rule: "claim", Job: "nightly[2]", Zxid: 7, Session: -1, Time: at, Text: "why"}},
			Around:     []txnaudit.Write{{Zxid: 7, Session: -1, Time: at, Op: "set", Path: "/apps/billing/nightly/tick", Data: "{}"}}, Notes: []string{"a gap"},
		}),
		Error{ErrorBody{Code: "invalid", Message: "what", Hint: "try"}},
	} {
		if err := enc.Encode(document); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(text.String(), "secret") {
		t.Error("shows the token of a guard")
	}
	const path = "testdata/documents.golden"
	if *update {
		if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(want, text.Bytes()) {
		t.Errorf("%v; run the test with -update and look at the difference", err)
	}
}

// A value that is no object has no place in a document.
func TestPartsAreObjects(t *testing.T) {
	t.Parallel()
	for _, part := range []any{nil, 1, []int{1}, "{}"} {
		if text, err := json.Marshal(New("X", part)); err == nil {
			t.Errorf("%v: %s", part, text)
		}
	}
	if text, err := json.Marshal(New("X", struct{}{}, Named{"a"})); err != nil || string(text) != `{"apiVersion":"swctl/v1","kind":"X","name":"a"}` {
		t.Errorf("%s, %v", text, err)
	}
}
