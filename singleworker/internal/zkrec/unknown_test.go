package zkrec_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// rewrites are the records that are read and written back, by the kind that the golden file gives
// them.
var rewrites = map[string]func([]byte) ([]byte, error){
	"spec": func(data []byte) ([]byte, error) {
		spec, err := parseSpec(data)
		return spec.WrittenAt(started).Encode(), err
	},
	"switch": func(data []byte) ([]byte, error) {
		turned, err := zkrec.ParseSwitch(data)
		return turned.WrittenAt(started).Encode(), err
	},
	"tick": func(data []byte) ([]byte, error) {
		tick, err := parseTick(data)
		return tick.Encode(), err
	},
	"complete": func(data []byte) ([]byte, error) {
		complete, err := zkrec.ParseComplete(data)
		return complete.Encode(), err
	},
	"alarm": func(data []byte) ([]byte, error) {
		alarm, err := zkrec.ParseAlarm(data)
		return alarm.Encode(), err
	},
	"history": func(data []byte) ([]byte, error) {
		log, err := zkrec.ParseLog([][]byte{data})
		for _, e := range log.History().Entries {
			log = log.Replace(e)
		}
		return log.Encode(0), err
	},
}

// freeForm are objects whose names are not fields.
var freeForm = []string{"args", "payload", "notify", "shard_params", "require"}

// enriched has the fields that a newer version may add to each object in a value.
func enriched(value any, levels *int) any {
	switch value := value.(type) {
	case map[string]any:
		for name, of := range value {
			if !slices.Contains(freeForm, name) {
				value[name] = enriched(of, levels)
			}
		}
		*levels++
		maps.Copy(value, map[string]any{"weather": "fi\"ne <,>: }", "tides": map[string]any{"n": []any{3.0, "}"}, "tick": 1.0}, "slot_of": float64(*levels)})
	case []any:
		for i := range value {
			value[i] = enriched(value[i], levels)
		}
	}
	return value
}

func decoded(t *testing.T, data []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return value
}

// Whatever a newer version adds, at any level of a record, is still there after the record was read
// and written.
func TestUnknownFieldsSurviveARewrite(t *testing.T) {
	t.Parallel()
	lines, err := os.ReadFile(filepath.Join("testdata", "records.golden"))
	if err != nil {
		t.Fatal(err)
	}
	var deepest int
	for line := range strings.Lines(string(lines)) {
		name, data := line[:20], strings.TrimSpace(line[21:])
		kind, _, _ := strings.Cut(strings.TrimSpace(name), ",")
		rewrite := rewrites[kind]
		if rewrite == nil || !strings.HasPrefix(data, "{") {
			continue
		}
		plain, err := rewrite([]byte(data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var levels int
		want := enriched(decoded(t, plain), &levels)
		newer, err := json.MarshalIndent(want, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got, err := rewrite(newer)
		if err != nil || !reflect.DeepEqual(decoded(t, got), want) {
			t.Errorf("%s\n%s\nis rewritten as\n%s, %v", name, newer, got, err)
		}
		if again, err := rewrite(got); err != nil || string(again) != string(got) {
			t.Errorf("%s\n%s\nis rewritten as\n%s, %v", name, got, again, err)
		}
		deepest = max(deepest, levels)
	}
	if deepest < 4 {
		t.Errorf("%d objects in a record, want a page with two entries and a writer at least", deepest)
	}
}

// How a newer version spells a record makes no difference: records that say the same are equal.
func TestRecordsWithUnknownFieldsAreCompared(t *testing.T) {
	t.Parallel()
	var ticks []zkrec.Tick
	for _, data := range []string{
		`{"schema":1,"tick":7,"run_id":"r","state":"ok","a":{"x":[1,2]},"b":"ü","slot_c":1,"held":{"run_id":"h","state":"failed","y":1}}`,
		` { "slot_c" : 1, "b":"ü","held":{"y" :1, "run_id":"h","state":"failed"},"state":"ok","\u0061":{ "x":[1, 2] },"TICK":7, "run_id":"r" }`,
		`{"tick":7,"run_id":"r","state":"ok","a":{"x":[1,3]},"b":"ü","slot_c":1,"held":{"run_id":"h","state":"failed","y":1}}`,
		`{"tick":7,"run_id":"r","state":"ok","a":{"x":[1,2]},"b":"ü","slot_c":1,"held":{"run_id":"h","state":"failed","y":2}}`,
		`{"tick":7,"run_id":"r","state":"ok","a":{"x":[1,2]},"b":"ü","slot_c":2,"held":{"run_id":"h","state":"failed","y":1}}`,
	} {
		tick, err := parseTick([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		ticks = append(ticks, tick.Normal())
	}
	if ticks[0] != ticks[1] {
		t.Errorf("%s\nand\n%s differ", ticks[0].Encode(), ticks[1].Encode())
	}
	for _, other := range ticks[2:] {
		if ticks[0].Same(other) {
			t.Errorf("%s\nand\n%s are the same", ticks[0].Encode(), other.Encode())
		}
	}
}

// Unknown fields of a run go where the run goes, and not to the next one. The slot's stay.
func TestUnknownFieldsOfARun(t *testing.T) {
	t.Parallel()
	const newer = `{"schema":1,"tick":7,"run_id":"r1","state":"interrupted","next_attempt":"rerun","mood":"bad","slot_load":3}`
	first, err := parseTick([]byte(newer))
	if err != nil {
		t.Fatal(err)
	}
	next := first.Begin(9, zkrec.Run{Tick: 9, RunID: "r2", State: history.StateRunning})
	if got, want := string(next.Encode()), `{"schema":1,"tick":9,"run_id":"r2","state":"running","slot_load":3}`; got != want {
		t.Errorf("the next run is\n%s, want\n%s", got, want)
	}
	next.Held = first.Again()
	want := `{"schema":1,"tick":9,"run_id":"r2","state":"running",` +
		`"held":{"tick":7,"run_id":"r1","attempt":1,"state":"interrupted","next_attempt":"rerun","mood":"bad"},"slot_load":3}`
	if got := string(next.Encode()); got != want {
		t.Errorf("beside a manual run it is\n%s, want\n%s", got, want)
	}

	alarm, err := zkrec.ParseAlarm([]byte(`{"schema":1,"tick":7,"sid":"a","at":"2026-12-24T17:00:00Z","mood":"bad","slot_load":3}`))
	later := zkrec.Alarm{Tick: 8, SID: "b", At: started.Truncate(time.Second)}.Over(alarm)
	if got, want := string(later.Encode()), `{"schema":1,"tick":8,"sid":"b","at":"2026-12-24T17:00:00Z","slot_load":3}`; got != want || err != nil {
		t.Errorf("the next alarm is\n%s, %v, want\n%s", got, err, want)
	}
}

// An entry has the unknown fields of its run, unless a page uses the name for something else. A
// late result, and ticks that join a row, leave it.
func TestUnknownFieldsOfAnEntry(t *testing.T) {
	t.Parallel()
	tick, err := parseTick([]byte(`{"schema":1,"tick":7,"run_id":"r1","state":"lost","mood":"bad","reason":7,"T":8,"slot_load":3}`))
	if err != nil {
		t.Fatal(err)
	}
	written := zkrec.Log{}.Add(zkrec.MinHistory, 0, zkrec.Entry{Run: tick.Run}, row(20, 20, 1)).Encode(0)
	if want := `{"t":7,"id":"r1","s":-7,"is":"lost","mood":"bad"}`; !strings.Contains(string(written), want) {
		t.Fatalf("the page is\n%s, want in it\n%s", written, want)
	}
	newer := strings.NewReplacer(`"reason"`, `"cloudy":true,"reason"`, `"by":{`, `"by":{"host":"db8",`).Replace(string(written))
	log, err := zkrec.ParseLog([][]byte{[]byte(newer)})
	if err != nil {
		t.Fatal(err)
	}
	late := ran("r1", history.StateOK)
	late.Tick = 7
	log, ok := log.Amend(late)
	if !ok || !log.Says(late) {
		t.Errorf("amended %v, and it says so: %v", ok, log.Says(late))
	}
	log = log.Add(zkrec.MinHistory, 20, row(30, 30, 1))
	for _, want := range []string{
		`{"t":7,"id":"r1","s":-7,"rev":2,"attempt":0,"mood":"bad"}`, `"by":{"sid":"a","token":7,"host":"db8"}`, `"count":2,"reason":"stalled","cloudy":true}`,
	} {
		if got := string(log.Encode(0)); !strings.Contains(got, want) {
			t.Errorf("the page is\n%s, want in it\n%s", got, want)
		}
	}
}

// A page has its unknown fields until its node is used for other entries. The slot's stay.
func TestUnknownFieldsOfAPage(t *testing.T) {
	t.Parallel()
	const keep = zkrec.HistoryPages - 1 // one on a page
	log := zkrec.Log{}.Add(keep, 0, ran("r1", history.StateInterrupted))
	newer := strings.Replace(string(log.Encode(0)), `{`, `{"mood":"bad","slot_load":3,`, 1)
	log, err := zkrec.ParseLog([][]byte{[]byte(newer)})
	if err != nil {
		t.Fatal(err)
	}
	amended, _ := log.Amend(ran("r1", history.StateOK))
	if got := string(amended.Encode(0)); !strings.HasSuffix(got, `,"mood":"bad","slot_load":3}`) {
		t.Errorf("the page is %s after a late result", got)
	}
	for i := range zkrec.HistoryPages {
		log = log.Add(keep, 0, ran(fmt.Sprintf("next %d", i), history.StateOK))
	}
	if got := string(log.Encode(0)); !strings.HasSuffix(got, `],"slot_load":3}`) || strings.Contains(got, "mood") || !strings.Contains(got, "next") {
		t.Errorf("the page is %s when its node is used again", got)
	}
}

// Records without unknown fields, as all are in a group of one version, cost nothing to keep them.
func TestKnownRecordsCostNoMore(t *testing.T) { //nolint:paralleltest // it counts allocations
	tick := zkrec.Tick{Watermark: 7, Run: zkrec.Run{Tick: 7, RunID: "r", SID: "a", Token: 9, Attempt: 1, Started: 8, State: history.StateRunning}}.Normal()
	least := func(f func()) float64 { // encoding/json pools its buffers, and the race detector empties pools now and then
		allocs := testing.AllocsPerRun(1, f)
		for range 100 {
			allocs = min(allocs, testing.AllocsPerRun(1, f))
		}
		return allocs
	}
	plain := least(func() {
		if _, err := json.Marshal(tick); err != nil {
			t.Error(err)
		}
	})
	if got := least(func() { tick.Encode() }); got > plain {
		t.Errorf("a tick record costs %v allocations, want %v at most", got, plain)
	}
}

func BenchmarkTick(b *testing.B) {
	tick := zkrec.Tick{Run: zkrec.Run{
		Tick: 1798131600000, RunID: "0198c5e2-0000-7000-8000-000000000001", SID: "host-7-ab12", Token: 4294967301, Attempt: 1,
		Started: 1798131600004, State: history.StateRunning,
	}}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			tick.Encode()
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		data := tick.Encode()
		for b.Loop() {
			if _, err := parseTick(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkHistory(b *testing.B) {
	var log zkrec.Log
	for i := range zkrec.MinHistory {
		log = log.Add(zkrec.MinHistory, 0, zkrec.Entry{Run: zkrec.Run{
			Tick: int64(i) * 1000, RunID: fmt.Sprintf("0198c5e2-0000-7000-8000-%012d", i), SID: "a", Token: 7, Attempt: 1, Started: int64(i)*1000 + 4, State: history.StateOK,
		}})
	}
	pages := make([][]byte, zkrec.HistoryPages)
	for i := range pages {
		pages[i] = log.Encode(i)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := zkrec.ParseHistory(pages); err != nil {
			b.Fatal(err)
		}
	}
}
