package zkrec_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares lines with a file of testdata, which earlier versions wrote: a difference means
// that they cannot read this one's records.
func golden(t *testing.T, name string, lines []string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run the test with -update to write it", err)
	}
	if got != string(want) {
		t.Errorf("%s differs; if that is intended, run the test with -update\ngot:\n%swant:\n%s", path, got, want)
	}
}

// record is one record in each form that it takes.
type record struct {
	name string
	data []byte
	read any // what data is read as
	err  error
}

var started = time.Date(2026, 12, 24, 17, 0, 0, 123e6, time.UTC)

func read[T any](name string, data []byte, parse func([]byte) (T, error)) record {
	parsed, err := parse(data)
	return record{name: name, data: data, read: parsed, err: err}
}

// parseSpec reads a spec whose name nobody asks for.
func parseSpec(data []byte) (zkrec.Spec, error) { return zkrec.ParseSpec("", data) }

// parseTick reads a tick record whose node's age is not known.
func parseTick(data []byte) (zkrec.Tick, error) { return zkrec.ParseTick(data, time.Time{}) }

// parseHistory reads a history of one page.
func parseHistory(data []byte) (zkrec.History, error) { return zkrec.ParseHistory([][]byte{data}) }

// parseOrder reads an order, which never fails.
func parseOrder(data []byte) (zkrec.Order, error) { return zkrec.ParseOrder(data), nil }

// remains are the stack of a handler that ignored its stop, and an instance that is gone.
func remains(of zkrec.Instance) (zkrec.Stack, zkrec.Departed) {
	departed := zkrec.DepartedOf("host-7-ab12", of)
	departed.Schema, departed.Last, departed.Unread, departed.By = zkrec.Schema, 1798131600000, zkrec.Duration(2*time.Second), "host-8-cd34"
	return zkrec.Stack{Schema: zkrec.Schema, RunID: "5f1c", SID: "host-7-ab12", At: started, Text: "main.(*Client).read\n\t/app/main.go:12\n"}, departed
}

// askedRecords are the record and the history of a run that found effects, and the job's spec.
func askedRecords(done zkrec.Tick) (zkrec.Tick, zkrec.Log, zkrec.Spec) {
	done.Attempt, done.Effects = 2, zkrec.EffectsOf(history.Effects{RunID: "4a0b", InstanceID: "app-2", At: started}, started)
	return done, zkrec.Log{}.Add(zkrec.MinHistory, 0, zkrec.Entry{Run: done.Run}), zkrec.Spec{Job: job.Job{Schedule: "@daily", Interrupted: job.InterruptedAskOrSkip}}
}

func TestRecordsAreWrittenAndReadAsEver(t *testing.T) {
	t.Parallel()
	claim := zkrec.Tick{
		Schema: zkrec.Schema, Watermark: 1798131600000,
		Run: zkrec.Run{
			Tick: 1798131600000, RunID: "5f1c", SID: "host-7-ab12", Token: 4294967301,
			Attempt: 1, Started: 1798131600004, State: history.StateRunning,
		},
	}
	result, interrupted := claim, claim
	result.State, result.Ended, result.Error = history.StateFailed, 1798131601000, "no \"route\"\nto <host>"
	interrupted.State, interrupted.Ended, interrupted.Error = history.StateInterrupted, 1798131601000, "lease lost"
	interrupted.NextAttempt, interrupted.NextAttemptAt = history.NextRerun, 1798131601000
	manual := claim
	manual.Manual, manual.Attempt, manual.Failures, manual.BusySince = "0198", 2, 1, 1798131500000
	manual.Asked = zkrec.RareOf(history.Asked{AskedBy: "alice@host", AskedReason: "again", StoppedBy: "bob@host", StoppedReason: "wrong day"})
	held, endless, passed, done := manual, claim, claim, claim
	held.Held, endless.Always, passed.Passed = interrupted.Again(), true, 1798131600050
	done.State, done.Ended = history.StateOK, 1798131600100
	found, foundLog, asking := askedRecords(done)
	running := zkrec.Instance{Schema: zkrec.Schema, Incarnation: "inc", Host: "host", PID: 7, StartedAt: started, Version: "v1.2.3", Owned: 3, State: zkrec.InstanceActive}
	stopping := running
	stopping.Weight, stopping.SessionTimeout = 3, zkrec.Duration(10*time.Second)
	stopping.MaxSlots, stopping.Owned, stopping.State = 5, 0, zkrec.InstanceStopping
	stopping.Guard, stopping.Handlers = "0198c600", "4f2eb64a9ea7775d"
	withdrawn := running
	withdrawn.State, withdrawn.Withdrawn = zkrec.InstanceDraining, true
	labelled := running
	labelled.Labels, labelled.Address, labelled.Specs, labelled.Resolves = map[string]string{"zone": "a", "disk": "<ssd>"}, "http://host:8080", zkrec.SpecSchema, true
	everywhere := zkrec.Spec{Job: job.Job{Schedule: "@daily", Everywhere: true, Instances: []string{"app-1"}}}
	ofSet, placed := zkrec.Spec{Job: job.Job{Schedule: "@daily"}, FromFiles: zkrec.FromFiles{Set: "billing", Applied: "0011"}}, zkrec.Spec{Job: job.Job{Schedule: "@daily", Require: map[string]string{"zone": "a"}, Instances: []string{"app-1", "app-2"}}}
	roles := zkrec.Access{Schema: zkrec.Schema, Roles: map[string][]string{"admins": {"digest:alice:HASH"}, "viewers": {"world:anyone"}}}
	hostExclusion, exclusion := zkrec.Exclusion{Schema: zkrec.Schema, Host: "db8"}, zkrec.Exclusion{Schema: zkrec.Schema, SID: "app-2", Job: "report", By: "alice@host", Reason: "disk", At: started}
	parseExclusion := func(x zkrec.Exclusion) func([]byte) (zkrec.Exclusion, error) {
		return func(data []byte) (zkrec.Exclusion, error) { return zkrec.ParseExclusion(x.Name(), data) }
	}
	order := zkrec.Order{Schema: zkrec.Schema, Incarnation: "inc", By: "alice@host", Reason: "disk", At: started}
	full := zkrec.Spec{
		Job: job.Job{
			Schedule: "0 0 3 * * ?", TimeZone: "Asia/Shanghai", Handler: "stats",
			Args: map[string]string{"b": "2", "a": "<1>"}, Payload: json.RawMessage(`{"n":1}`),
			Misfire: job.MisfireAll, MisfireGrace: 90 * time.Minute, Interrupted: job.InterruptedSkip,
			MaxAttempts: 5, Overlap: job.OverlapQueue, Timeout: 1500 * time.Millisecond,
			Retries: 2, Backoff: time.Minute, AlarmAfter: time.Hour, HungAfter: 2 * time.Hour,
			Notify: map[string][]job.NotifyKind{"ops": {}, "dev": {job.NotifyFailed}},
		},
		Since: 1798131600000, Former: &zkrec.Former{Schedule: "@daily", TimeZone: "Asia/Tokyo", Since: 1798000000000},
		Declaration: zkrec.Declaration{Declared: "00112233aabbccdd"},
	}
	turned := zkrec.Switch{Schema: zkrec.Schema, Opened: 2, Paused: &zkrec.Pause{
		Since: 1798131600000, Until: 1798218000000, By: "alice@host", Reason: "migration", Missed: job.MisfireOnce,
	}}
	sharded := zkrec.Spec{
		Job:    job.Job{Schedule: "@daily", Shards: 2, ShardParameters: map[int]string{0: "Beijing", 1: "Shanghai"}},
		Layout: &zkrec.Layout{Sharding: zkrec.Sharding{Shards: 3}, Since: 1798131500000, Until: 1798131600000},
	}
	before := sharded
	before.Job.BeforeTick, before.Layout = "prepare", &zkrec.Layout{Sharding: zkrec.Sharding{Shards: 3, BeforeTick: "clear"}, Since: 1798131500000}
	complete := zkrec.Complete{Schema: zkrec.Schema, Tick: 1798131600000}
	log := zkrec.Log{}.From(zkrec.Mark{Rev: 40, Number: 33}).Add(zkrec.MinHistory, 0, zkrec.Entry{
		Run: zkrec.Run{Tick: 1798131500000, State: history.StateMissed, SID: "host-7-ab12", Ended: 1798131600000},
		To:  1798131590000, Count: 10, Reason: history.ReasonNoOwner,
	}, zkrec.Entry{Run: result.Run}, zkrec.Entry{Run: manual.Run})
	request := zkrec.Request{
		Schema: zkrec.Schema, Kind: zkrec.RequestRun, At: started, By: "alice@host", Reason: "again",
		Args: map[string]string{"a": "1"}, Payload: json.RawMessage(`[1]`),
	}
	stop := zkrec.Request{Schema: zkrec.Schema, Kind: zkrec.RequestStop, At: started, By: "alice@host", RunID: "5f1c"}
	alarm := zkrec.Alarm{Schema: zkrec.Schema, Tick: 1798131600000, SID: "host-7-ab12", At: started}
	stack, departed := remains(running)
	relieving := zkrec.Owner{SID: "host-7-ab12", Incarnation: "inc", Relieved: zkrec.Member{SID: "host-8-cd34", Incarnation: "inc8"}}
	canceled, past, undeleted := canceledRecords(sharded, turned, done, log)
	wants := map[string]any{
		"spec, schedule only": zkrec.Spec{Job: job.Job{Schedule: "0 0 3 * * ?"}},
		"spec, zone":          zkrec.Spec{Job: job.Job{Schedule: "0 0 3 * * ?", TimeZone: "Asia/Shanghai"}},
		"spec, all":           full,
		"spec, sharded":       sharded,
		"spec, everywhere":    everywhere, "spec, before": before,
		"spec, placed": placed, "spec, of a set": ofSet, "switch": turned, "switch, untouched": zkrec.Switch{}, "instance, labelled": labelled, "roles": roles,
		"exclusion, job": exclusion, "exclusion, host": hostExclusion, "complete": complete, "owner, none": zkrec.Owner{}, "canceled": canceled, "past": past, "spec, undeleted": undeleted,
		"owner": zkrec.Owner{SID: "host-7-ab12", Incarnation: "inc"}, "owner, offer": zkrec.Owner{Offer: "host-8-cd34"}, "owner, relieved": relieving,
		"tick, running": claim, "tick, ok": done, "tick, failed": result, "tick, interrupted": interrupted,
		"tick, manual": manual, "tick, held": held, "tick, always": endless, "tick, passed": passed, "tick, effects": found, "spec, ask": asking, "history, effects": foundLog.History(), "history": log.History(), "request, run": request, "request, stop": stop, "alarm": alarm,
		"stack": stack, "departed": departed, "instance, active": running, "instance, stopping": stopping,
		"instance, withdrawn": withdrawn, "order, drain": order, "order, disable": zkrec.Order{Schema: zkrec.Schema},
	}
	records := []record{
		read("spec, schedule only", zkrec.Spec{Job: job.Job{Schedule: "0 0 3 * * ?"}}.Encode(), parseSpec),
		read("spec, zone", zkrec.Spec{Job: job.Job{Schedule: "0 0 3 * * ?", TimeZone: "Asia/Shanghai"}}.Encode(), parseSpec),
		read("spec, all", full.Encode(), parseSpec),
		read("spec, sharded", sharded.Encode(), parseSpec), read("spec, everywhere", everywhere.Encode(), parseSpec), read("spec, before", before.Encode(), parseSpec),
		read("spec, placed", placed.Encode(), parseSpec), read("spec, of a set", ofSet.Encode(), parseSpec),
		read("spec, undeleted", undeleted.Encode(), parseSpec), read("canceled", canceled.Encode(), zkrec.ParseCanceled), read("past", past.Encode(), zkrec.ParsePast),
		read("roles", roles.Encode(), zkrec.ParseAccess), read("switch", turned.Encode(), zkrec.ParseSwitch), read("switch, untouched", zkrec.Switch{}.Encode(), zkrec.ParseSwitch),
		read("instance, labelled", labelled.Encode(), zkrec.ParseInstance),
		read("exclusion, job", exclusion.Encode(), parseExclusion(exclusion)),
		read("exclusion, host", hostExclusion.Encode(), parseExclusion(hostExclusion)),
		read("complete", complete.Encode(), zkrec.ParseComplete),
		read("owner, none", zkrec.Owner{}.Encode(), zkrec.ParseOwner), read("owner", zkrec.Owner{SID: "host-7-ab12", Incarnation: "inc"}.Encode(), zkrec.ParseOwner),
		read("owner, relieved", relieving.Encode(), zkrec.ParseOwner), read("owner, offer", zkrec.Owner{Offer: "host-8-cd34"}.Encode(), zkrec.ParseOwner),
		read("tick, running", claim.Encode(), parseTick), read("tick, ok", done.Encode(), parseTick), read("tick, failed", result.Encode(), parseTick), read("tick, interrupted", interrupted.Encode(), parseTick),
		read("tick, manual", manual.Encode(), parseTick), read("tick, held", held.Encode(), parseTick), read("tick, always", endless.Encode(), parseTick), read("tick, passed", passed.Encode(), parseTick),
		read("tick, effects", found.Encode(), parseTick), read("spec, ask", asking.Encode(), parseSpec), read("history, effects", foundLog.Encode(0), parseHistory),
		read("history", log.Encode(0), parseHistory),
		read("request, run", request.Encode(), zkrec.ParseRequest), read("request, stop", stop.Encode(), zkrec.ParseRequest),
		read("alarm", alarm.Encode(), zkrec.ParseAlarm), read("stack", stack.Encode(), zkrec.ParseStack), read("departed", departed.Encode(), zkrec.ParseDeparted),
		read("instance, active", running.Encode(), zkrec.ParseInstance), read("instance, stopping", stopping.Encode(), zkrec.ParseInstance),
		read("instance, withdrawn", withdrawn.Encode(), zkrec.ParseInstance),
		read("order, drain", order.Encode(), parseOrder), read("order, disable", zkrec.Order{}.Encode(), parseOrder),
	}
	var lines []string
	for _, r := range records {
		lines = append(lines, fmt.Sprintf("%-20s %s", r.name, r.data))
		if r.err != nil || !reflect.DeepEqual(r.read, wants[r.name]) {
			t.Errorf("%s is read as\n%+v, %v\nwant\n%+v", r.name, r.read, r.err, wants[r.name])
		}
	}
	lines = append(lines, fmt.Sprintf("%-20s %s", "heartbeat", zkrec.EncodeBeat(started)))
	golden(t, "records.golden", lines)
}

func TestPathsAreAsEver(t *testing.T) {
	t.Parallel()
	tree := zkrec.NewTree("billing")
	var lines []string
	add := func(what, path string) { lines = append(lines, fmt.Sprintf("%-14s %s", what, path)) }
	add("Root", tree.Root())
	add("Job", tree.Job("daily stats"))
	add("Register", tree.Register("daily stats"))
	add("Registration", tree.Registration("daily stats", "host-7"))
	add("Alive", tree.Alive("daily stats"))
	add("Heartbeat", tree.Heartbeat("daily stats", "host-7"))
	add("Tick", tree.Tick("daily stats"))
	add("Instances", tree.Instances())
	add("Instance", tree.Instance("host-7"))
	add("Handlers", tree.Handlers())
	add("HandlerList", tree.HandlerList("4f2eb64a9ea7775d"))
	add("Changes", tree.Changes())
	add("Signal", tree.Signal(zkrec.SignalOf("daily stats")))
	add("AskedOf", tree.AskedOf("4711"))
	add("Orders", tree.Orders())
	add("Order", tree.Order("host-7"))
	canceled, past := tree.NewCanceled("daily stats", 4294967299)
	add("Canceled", canceled)
	add("Past", past)
	add("Versions", tree.Versions("daily stats"))
	for i, node := range tree.NewJob("daily stats", zkrec.Spec{Job: job.Job{Schedule: "@daily"}}) {
		add(fmt.Sprintf("NewJob %d", i), strings.TrimSpace(node.Path+" "+string(node.Data)))
	}
	for _, node := range tree.NewJob("daily", zkrec.Spec{Job: job.Job{Schedule: "@daily", Shards: 2}}) {
		add("NewJob sharded", strings.TrimSpace(node.Path+" "+string(node.Data)))
	}
	for _, node := range tree.NewShard("daily[1]", 1798131600000) {
		add("NewShard", strings.TrimSpace(node.Path+" "+string(node.Data)))
	}
	golden(t, "paths.golden", lines)
}
