package commands

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// sharded gives the fake a job "import" with four shards: 0 and 2 are fine, 1
// runs, 3 has lost its owner.
func (h *harness) sharded() {
	tick := testNow.Truncate(time.Hour)
	gone := reason.Reason{Code: reason.OwnerGone, Owner: "app-3", Instances: []reason.Instance{{ID: "app-1"}}}
	whole := admin.JobStatus{
		Name: "import",
		Job: job.Job{
			Name: "import", Schedule: "@hourly", Shards: 4,
			ShardParameters: map[int]string{0: "Beijing", 1: "Shanghai", 3: "ウハン\x1b"},
		}.WithDefaults(),
		Version: 3, State: admin.StateUnowned, Reason: reason.Reason{Code: reason.SomeShards, Shards: 1, Of: 4, First: "import[3]", Why: &gone},
		Registered: []string{"app-1", "app-2", "app-3"}, NextRun: tick.Add(time.Hour),
		Watermark: tick.Add(-time.Hour), Complete: tick.Add(-time.Hour),
	}
	for k, state := range []history.State{"ok", "running", "failed", "ok"} {
		slot := whole
		slot.Name, slot.Slots, slot.Complete = fmt.Sprintf("import[%d]", k), nil, time.Time{}
		slot.State, slot.Reason, slot.Watermark = admin.StateOwned, reason.Reason{}, tick
		slot.Shard = &admin.Shard{Index: k, Total: 4, Parameter: whole.Job.ShardParameters[k]}
		slot.Owner = &admin.Owner{InstanceID: []string{"app-1", "app-2", "app-1", "app-3"}[k], Token: int64(4294967400 + k), Since: tick.Add(-time.Duration(k) * time.Hour)}
		slot.LastRun = &history.Run{
			Tick: tick, State: state, InstanceID: slot.Owner.InstanceID, Token: slot.Owner.Token, RunID: fmt.Sprintf("0198c7%d", k),
			Attempt: 1, Started: tick.Add(40 * time.Millisecond), Ended: tick.Add(41 * time.Second),
		}
		whole.Slots = append(whole.Slots, slot)
	}
	whole.Slots[1].LastRun.Ended = time.Time{}
	whole.Slots[2].LastRun.Error, whole.Slots[2].LastRun.NextAttempt, whole.Slots[2].LastRun.NextAttemptAt = "no route\nstack", "retry", testNow.Add(time.Minute)
	last := &whole.Slots[3]
	last.State, last.Reason = admin.StateUnowned, gone
	last.Watermark, last.LastRun.Tick = tick.Add(-time.Hour), tick.Add(-time.Hour)
	last.Alarm = &admin.Alarm{Tick: tick, InstanceID: "app-2", At: tick.Add(time.Minute)}
	h.fake.jobs = map[string]admin.JobStatus{"import": whole, "nightly": h.fake.jobs["nightly"]}
	var entries []history.Entry
	for _, k := range []int{1, 0, 2} {
		entries = append(entries, history.Entry{Run: *whole.Slots[k].LastRun, To: tick, Count: 1, Shard: &whole.Slots[k].Shard.Index})
	}
	h.fake.entries["import"], h.fake.entries["import[2]"] = entries, entries[2:]
	shards := make([]admin.Explanation, len(whole.Slots))
	for k, slot := range whole.Slots {
		shards[k] = admin.Explanation{Job: slot, Tick: tick, Fate: admin.FateLate, At: testNow}
		for _, e := range entries {
			if *e.Shard == k {
				shards[k].Fate, shards[k].Entries = e.State, []history.Entry{e}
			}
		}
	}
	h.fake.explained = map[string]admin.Explanation{
		"import":    {Tick: tick, Fate: "late", Entries: entries, At: testNow, Shards: shards},
		"import[2]": {Tick: tick, Fate: "failed", Entries: entries[2:], At: testNow},
	}
}

// change is a change of the job that the fake has.
func (h *harness) change(f func(job *admin.JobStatus)) {
	job := h.fake.jobs["import"]
	f(&job)
	h.fake.jobs["import"] = job
}

// allOwned has app-3 alive.
func allOwned(job *admin.JobStatus) {
	last := &job.Slots[3]
	job.State, job.Reason, last.State, last.Reason = admin.StateOwned, reason.Reason{}, admin.StateOwned, reason.Reason{}
}

func TestShardsGolden(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][][]string{
		"shards-list":    {{"list"}, {"list", "-o", "wide"}, {"show", "nightly", "-o", "wide"}, {"list", "-o", "json"}},
		"shards-show":    {{"show", "import"}, {"show", "import[2]"}, {"show", "import[3]", "-o", "json"}, {"next", "import[1]", "-n", "1"}},
		"shards-history": {{"history", "import"}, {"history", "import", "--failed", "-o", "json"}, {"history", "import[2]"}, {"why", "import"}, {"why", "import[2]"}, {"why", "import", "-o", "json"}},
		"shards-missing": {
			{"show", "import[4]"}, {"show", "import[4]", "-o", "json"}, {"history", "import[9]"}, {"why", "import[9]"}, {"why", "import[9]", "--at", "03:00"},
			{"trigger", "import[9]"}, {"stop-run", "import[9]"}, {"next", "import[9]"}, {"show", "nobody[1]"},
			{"pause", "import[1]"}, {"resume", "import[1]"}, {"cancel", "import[1]", "--yes"}, {"cancel", "import[1]", "--yes", "-o", "json"},
			{"set", "import[1]", "--shards", "3"}, {"submit", "import[1]", "@daily"},
		},
		"shards-ask": {
			{"trigger", "import"}, {"trigger", "import[1]"}, {"trigger", "import[1]", "-o", "json"},
			{"stop-run", "import"}, {"stop-run", "import[1]"}, {"stop-run", "import", "-o", "json"}, {"stop-run", "import[1]", "-o", "json"}, {"stop-run", "import[0]"},
			{"pause", "import"}, {"resume", "import"}, {"cancel", "import", "--yes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.sharded()
			if name == "shards-ask" {
				h.change(allOwned)
			}
			var texts []string
			for _, args := range lines {
				texts = append(texts, h.transcript(args...))
			}
			golden(t, name, strings.Join(texts, "\n"))
		})
	}
}

// While a change of the shards has yet to take effect, the output names the slots that it waits
// for, and refusals, with reasons.
func TestResizingGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.sharded()
	h.change(func(job *admin.JobStatus) {
		job.Job.Shards = 2
		job.Slots[1].HeldRun = &history.Run{Tick: testNow.Add(-time.Hour), State: "failed", NextAttempt: "retry"}
		job.Resizing = &admin.Resizing{From: 4, To: 2, Until: testNow.Truncate(time.Hour), WaitsFor: []string{"import[1]", "import[2]", "import[3]"}}
	})
	texts := []string{h.transcript("list"), h.transcript("show", "import"), h.transcript("set", "import", "--retries", "1")}
	h.change(func(job *admin.JobStatus) {
		allOwned(job)
		job.Overdue, job.Slots[3].Overdue = testNow.Add(-time.Hour), testNow.Add(-time.Hour)
		job.Resizing = &admin.Resizing{From: 4, To: 4}
	})
	texts = append(texts, h.transcript("list"), h.transcript("show", "import"))
	h.change(func(job *admin.JobStatus) { job.Overdue = time.Time{} })
	texts = append(texts, h.transcript("list"))
	h.fake.fail["Edit import"] = fmt.Errorf("set import: %w", &invalid.FieldError{Field: "ShardParameters", Value: "3", Err: errors.New("is no shard, want 0 to 1")})
	texts = append(texts, h.transcript("set", "import", "--shards", "2"))
	h.change(func(job *admin.JobStatus) {
		*job = admin.JobStatus{Job: job.Job, State: admin.StateCanceled, Reason: reason.Reason{Code: reason.Canceling}}
	})
	texts = append(texts, h.transcript("list"), h.transcript("show", "import"))
	golden(t, "shards-resizing", strings.Join(texts, "\n"))
}

// All shards are waited for, and each of them must end well.
func TestTriggerOfShardsGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.sharded()
	h.change(allOwned)
	each := func(states ...history.State) []history.Entry {
		var runs []history.Entry
		for k, state := range states {
			run := ended(state, map[bool]string{true: "no route"}[state == "failed"])[0]
			run.Shard = &k
			runs = append(runs, run)
		}
		return runs
	}
	h.fake.ended = each("ok", "ok", "ok", "ok")
	texts := []string{h.transcript("trigger", "import", "--wait")}
	h.fake.ended = each("ok", "ok", "failed", "lost")
	texts = append(texts, h.transcript("trigger", "import", "--wait"), h.transcript("trigger", "import", "--wait", "-o", "json"))
	h.fake.ended = each("ok", "ok", "failed")[2:]
	texts = append(texts, h.transcript("trigger", "import[2]", "--wait"), h.transcript("trigger", "import[2]", "--wait", "-o", "json"))
	golden(t, "shards-trigger", strings.Join(texts, "\n"))
}

// Submit says which shards have an owner so far.
func TestSubmitOfShardsIsOwnedInPart(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.sharded()
	h.fake.adopter = ""
	code := h.exec("submit", "import", "@daily", "--shards", "4", "--replace")
	if code != cmdline.ExitOK || !strings.HasPrefix(h.out.String(), "created import v1  owner 3/4 app-1(2) app-2(1)  next ") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, h.out.String(), h.errs.String())
	}
}
