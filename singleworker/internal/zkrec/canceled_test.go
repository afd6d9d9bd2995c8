package zkrec_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// canceledRecords are those that are made of others.
func canceledRecords(spec zkrec.Spec, turned zkrec.Switch, done zkrec.Tick, log zkrec.Log) (zkrec.Canceled, zkrec.Past, zkrec.Spec) {
	canceled := zkrec.Canceled{
		Schema: zkrec.Schema, Spec: spec.Encode(), Switch: turned.Encode(), Watermark: 1798131600000, History: 4294967299,
		Deed: zkrec.Deed{Kind: zkrec.DeedCancel, Jobs: []string{"report"}, From: "alice@host"}.Encode(),
	}
	past := zkrec.Past{Schema: zkrec.Schema, Tick: done.Encode(), Pages: []zkrec.Kept{log.Encode(0)}}
	_, versions := zkrec.Versions{}.Add([]byte("@daily"), started, zkrec.Deed{Kind: zkrec.DeedSet, From: "alice@host", Reason: "late"})
	past.Versions = versions.Encode()
	undeleted := zkrec.Undeleted{Czxid: 4294967299, History: zkrec.Mark{Rev: 42, Number: 35}, Run: "5f1c"}
	return canceled, past, zkrec.Spec{Job: job.Job{Schedule: "@daily"}, Version: 2, Undeleted: &undeleted}
}

func TestNamesOfCanceledJobs(t *testing.T) {
	t.Parallel()
	tree := zkrec.NewTree("billing")
	canceled, past := tree.NewCanceled("a-b@c", 12)
	if canceled != "/billing/_canceled/a-b@c@12-" || past != "/billing/_canceled/a-b@c@12-h" {
		t.Errorf("%s, %s", canceled, past)
	}
	for path, isPast := range map[string]bool{canceled: false, past: true} {
		name := strings.TrimPrefix(path, tree.Canceled()+"/") + "0000000007"
		if n, ok := zkrec.ParseCanceledName(name); !ok || n != (zkrec.CanceledName{Job: "a-b@c", Czxid: 12, Past: isPast, Number: 7}) {
			t.Errorf("%s: %+v, %v", name, n, ok)
		}
	}
	for _, name := range []string{"", "-", "@-", "a@1", "a@1-", "a@-0000000001", "a-0000000001@1", "a@1-x0000000001", "@1-0000000001", "_a@1-0000000001", "a@1-h"} {
		if n, ok := zkrec.ParseCanceledName(name); ok {
			t.Errorf("%q is read as %+v", name, n)
		}
	}
}

func TestKeptData(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		"": `""`, "0 0 3 * * ?": `"0 0 3 * * ?"`, `{"a":1}`: `{"a":1}`, "{": `"{"`, "\n{}": `"\n{}"`, `"x"`: `"\"x\""`, "null": `"null"`,
	} {
		got, err := json.Marshal(zkrec.Kept(data))
		var back zkrec.Kept
		if err != nil || string(got) != want || json.Unmarshal(got, &back) != nil || string(back) != data {
			t.Errorf("%q is written as %s, and read as %q, %v", data, got, back, err)
		}
	}
	if json.Unmarshal([]byte("[1]"), new(zkrec.Kept)) == nil {
		t.Error("a list is data of a node")
	}
}

// A job comes back without a past that cannot be read, and not at all if a newer version wrote
// that.
func TestUndeletedNodes(t *testing.T) {
	t.Parallel()
	tree, at := zkrec.NewTree("billing"), time.UnixMilli(50)
	spec := zkrec.Spec{
		Job: job.Job{Name: "job", Schedule: "@hourly"}, Since: 7, Former: &zkrec.Former{Schedule: "@daily"}, Done: &zkrec.Done{Since: 7}, Canceled: true,
		Declaration: zkrec.Declaration{Declared: "x"},
	}
	log := zkrec.Log{}.From(zkrec.Mark{Rev: 9, Number: 5}).Add(20, 0, zkrec.Entry{Run: zkrec.Run{Tick: 30, RunID: "a", State: history.StateOK}})
	open := zkrec.Tick{Watermark: 40, Run: zkrec.Run{Tick: 40, RunID: "b", State: history.StateRunning}, NextAttempt: history.NextRetry, History: log.Mark()}
	pages := []zkrec.Kept{log.Encode(0)}
	for what, test := range map[string]struct {
		past   zkrec.Past
		runs   string
		before int64 // the number of the last entry before
		err    bool
	}{
		"nothing":    {past: zkrec.Past{}},
		"a run":      {past: zkrec.Past{Tick: zkrec.Tick{Watermark: 30, History: log.Mark()}.Encode(), Pages: pages}, runs: "a:ok", before: 6},
		"an open":    {past: zkrec.Past{Tick: open.Encode(), Pages: pages}, runs: "a:ok b:lost", before: 6},
		"no pages":   {past: zkrec.Past{Tick: open.Encode()}, runs: "b:lost", before: 6},
		"garbage":    {past: zkrec.Past{Tick: open.Encode(), Pages: []zkrec.Kept{zkrec.Kept("x")}}},
		"no tick":    {past: zkrec.Past{Tick: zkrec.Kept("x"), Pages: pages}},
		"newer tick": {past: zkrec.Past{Tick: zkrec.Kept(`{"schema":2}`), Pages: pages}, err: true},
		"newer page": {past: zkrec.Past{Pages: []zkrec.Kept{zkrec.Kept(`{"schema":2}`)}}, err: true},
	} {
		back, nodes, err := tree.Undeleted(spec, zkrec.Canceled{Watermark: 40, History: 4}, test.past, at)
		if test.err {
			if !errors.As(err, new(*zkrec.SchemaError)) {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		var data [][]byte
		var tick zkrec.Tick
		for _, n := range nodes {
			if n.Path == tree.Tick("job") {
				if tick, err = zkrec.ParseTick(n.Data, at); err != nil {
					t.Fatal(err)
				}
			}
			if strings.HasPrefix(n.Path, tree.History("job")) {
				data = append(data, n.Data)
			}
		}
		h, err := zkrec.ParseHistory(data)
		var runs []string
		for _, e := range h.Entries {
			runs = append(runs, e.RunID+":"+string(e.State))
		}
		if err != nil || strings.Join(runs, " ") != test.runs || tick.Watermark != 40 || tick.RunID != "" || tick.NextAttempt != "" || test.runs != "" && tick.History != h.Mark {
			t.Errorf("%s: history %q, %v, tick record %+v", what, runs, err, tick)
		}
		if back.Since != 0 || back.Former != nil || back.Done != nil || back.Canceled || back.Declared != "x" || back.Undeleted.Czxid != 4 || back.Undeleted.History.Number != test.before || (back.Undeleted.Run == "b") != strings.Contains(test.runs, "b:") {
			t.Errorf("%s: record %+v", what, back)
		}
	}
	spec.Job.Shards = 3
	if _, nodes, err := tree.Undeleted(spec, zkrec.Canceled{}, zkrec.Past{}, at); err != nil || len(nodes) != 3 {
		t.Errorf("of shards: %v, %v", nodes, err)
	}
}

// However long the records are, the versions take little, and the last is there.
func TestVersionsAreBounded(t *testing.T) {
	t.Parallel()
	long := zkrec.Spec{Job: job.Job{Schedule: "@daily", Args: map[string]string{"a": strings.Repeat("x", zkrec.MaxRecordBytes-1000)}}}.Encode()
	var v zkrec.Versions
	for n := range 20 {
		var next int32
		if next, v = v.Add(long, started, zkrec.Deed{Kind: zkrec.DeedSet, Reason: strings.Repeat("x", 1000)}); int(next) != n+2 {
			t.Fatalf("change %d makes version %d", n, next)
		}
		read, err := zkrec.ParseVersions(v.Encode(), started)
		last := read.List[len(read.List)-1]
		if err != nil || len(v.Encode()) > 5*zkrec.MaxRecordBytes || last.Number != n+2 || last.At != started.UnixMilli() || len(read.List) < min(n+2, 4) {
			t.Fatalf("%d bytes, %d versions, %v", len(v.Encode()), len(read.List), err)
		}
	}
	if _, v = v.Add([]byte(strings.Repeat("{", 1<<20)), started, zkrec.Deed{}); len(v.List) != 1 {
		t.Errorf("%d versions beside a record of 1 MiB", len(v.List))
	}
	for _, data := range []string{"x", `{"schema":2}`, `{"versions":[{"at":9000000000000000000}]}`} {
		if _, err := zkrec.ParseVersions([]byte(data), started); err == nil {
			t.Errorf("%q is read", data)
		}
	}
}

func TestRecordsOfCanceledJobs(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"", "x", `{"schema":2}`, `{"spec":1}`, `{"watermark":9000000000000000000}`} {
		if _, err := zkrec.ParseCanceled([]byte(data)); err == nil {
			t.Errorf("%q is read", data)
		}
		if _, err := zkrec.ParsePast([]byte(data)); err == nil && data != "" && !strings.Contains(data, "spec") && !strings.Contains(data, "watermark") {
			t.Errorf("%q is read as a past", data)
		}
	}
}
