package admin

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// everything is a job none of whose fields has its default.
func everything() Job {
	return Job{
		Name: "daily", Schedule: "0 3 * * *", TimeZone: "Europe/Berlin", Handler: "stats",
		Args: map[string]string{"a": "1", "b": "2"}, Payload: json.RawMessage(`{"n":[1,2]}`),
		Misfire: "all", MisfireGrace: time.Hour, Interrupted: "skip", MaxAttempts: 5, Overlap: "queue",
		Timeout: time.Minute, Retries: 2, Backoff: 5 * time.Second, AlarmAfter: 2 * time.Minute,
		Shards: 3, ShardParameters: map[int]string{0: "Beijing", 2: "Shanghai"},
	}
}

func TestSubmitKeepsEverything(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(everything())
		if got := w.get("daily").Job; !reflect.DeepEqual(got, everything()) {
			t.Errorf("got  %+v\nwant %+v", got, everything())
		}
	})
}

func TestDefaultsAreNotWritten(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(Job{
			Name: "daily", Schedule: "@daily", Handler: "daily", Misfire: "once", Interrupted: "rerun", MaxAttempts: 3,
			Overlap: "skip", Backoff: time.Second, AlarmAfter: time.Minute,
		})
		result, err := w.c.Submit(w.Context(), Job{Name: "daily", Schedule: "@daily"}, SubmitOptions{})
		if err != nil || result.Outcome != Unchanged {
			t.Errorf("with and without the defaults: %s, %v; want unchanged", result.Outcome, err)
		}
		if got := string(w.spec("daily").Encode()); got != "@daily" {
			t.Errorf("written as %s, want @daily", got)
		}
		job := w.get("daily").Job
		if job.Misfire != "once" || job.Interrupted != "rerun" || job.MaxAttempts != 3 || job.Overlap != "skip" ||
			job.Backoff != time.Second || job.AlarmAfter != time.Minute {
			t.Errorf("read as %+v, want the defaults filled in", job)
		}
	})
}

func TestSetChangesWhatIsGiven(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(everything())
		for _, row := range []struct {
			changes Changes
			want    func(*Job)
		}{
			{Changes{Schedule: ptr("@hourly")}, func(j *Job) { j.Schedule = "@hourly" }},
			{Changes{TimeZone: ptr("")}, func(j *Job) { j.TimeZone = "" }},
			{Changes{Handler: ptr("")}, func(j *Job) { j.Handler = "daily" }},
			{Changes{Args: map[string]string{"b": "3", "c": ""}}, func(j *Job) { j.Args = map[string]string{"a": "1", "b": "3", "c": ""} }},
			{Changes{DropArgs: []string{"a", "z"}}, func(j *Job) { delete(j.Args, "a") }},
			{Changes{DropArgs: []string{"b"}, Args: map[string]string{"b": "4"}}, func(j *Job) { j.Args["b"] = "4" }},
			{Changes{Payload: ptr(json.RawMessage(` [ 1 ] `))}, func(j *Job) { j.Payload = json.RawMessage(`[1]`) }},
			{Changes{Payload: new(json.RawMessage)}, func(j *Job) { j.Payload = nil }},
			{Changes{Misfire: ptr("skip")}, func(j *Job) { j.Misfire = "skip" }},
			{Changes{MisfireGrace: new(time.Duration)}, func(j *Job) { j.MisfireGrace = 0 }},
			{Changes{Interrupted: ptr("")}, func(j *Job) { j.Interrupted = "rerun" }},
			{Changes{MaxAttempts: ptr(7)}, func(j *Job) { j.MaxAttempts = 7 }},
			{Changes{Overlap: ptr("skip")}, func(j *Job) { j.Overlap = "skip" }},
			{Changes{Timeout: ptr(time.Hour)}, func(j *Job) { j.Timeout = time.Hour }},
			{Changes{Retries: ptr(0)}, func(j *Job) { j.Retries = 0 }},
			{Changes{Backoff: new(time.Duration)}, func(j *Job) { j.Backoff = time.Second }},
			{Changes{AlarmAfter: ptr(time.Minute)}, func(j *Job) { j.AlarmAfter = time.Minute }},
			{Changes{ShardParameters: map[int]string{0: "Tianjin", 1: "Wuhan"}}, func(j *Job) { j.ShardParameters = map[int]string{0: "Tianjin", 1: "Wuhan", 2: "Shanghai"} }},
			{Changes{Shards: ptr(5), ShardParameters: map[int]string{4: "Xian"}}, func(j *Job) { j.Shards, j.ShardParameters[4] = 5, "Xian" }},
			{Changes{Shards: ptr(2), ShardParameters: map[int]string{2: "", 4: ""}}, func(j *Job) { j.Shards, j.ShardParameters = 2, map[int]string{0: "Tianjin", 1: "Wuhan"} }},
		} {
			want := w.get("daily").Job
			row.want(&want)
			dry, dryErr := w.c.Set(w.Context(), "daily", row.changes, SetOptions{DryRun: true})
			result, err := w.c.Set(w.Context(), "daily", row.changes, SetOptions{})
			if err != nil || result.Outcome != Changed || !reflect.DeepEqual(result.Job.Job, want) {
				t.Errorf("%+v: %s %v\ngot  %+v\nwant %+v", row.changes, result.Outcome, err, result.Job.Job, want)
			}
			if dryErr != nil || dry.Outcome != Changed || !reflect.DeepEqual(dry.Before, result.Before) {
				t.Errorf("%+v, dry: %s %v, want as the real one", row.changes, dry.Outcome, dryErr)
			}
			again, err := w.c.Set(w.Context(), "daily", row.changes, SetOptions{})
			if err != nil || again.Outcome != Unchanged || again.Before != nil || again.Job.Version != result.Job.Version {
				t.Errorf("%+v, again: %s v%d %v; want unchanged", row.changes, again.Outcome, again.Job.Version, err)
			}
		}
	})
}

// What Set is not asked to change stays, whoever wrote it: a pause, the fields
// of a newer version, and since when the schedule holds.
func TestSetKeepsTheRest(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(Job{Name: "daily", Schedule: "@daily"})
		w.put(w.c.tree.Job("daily"), []byte(`{"schema":1,"schedule":"@daily","novel":[1],"declared":"ab","paused":{"since":7,"by":"eve"},"since":5}`))
		time.Sleep(time.Hour)
		if _, err := w.c.Set(w.Context(), "daily", Changes{Retries: ptr(1)}, SetOptions{}); err != nil {
			t.Fatal(err)
		}
		want := `{"schema":1,"schedule":"@daily","retries":1,"paused":{"since":7,"by":"eve"},"since":5,"declared":"ab","novel":[1]}`
		if got := string(w.spec("daily").Encode()); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if _, err := w.c.Set(w.Context(), "daily", Changes{Schedule: ptr("@hourly")}, SetOptions{}); err != nil {
			t.Fatal(err)
		}
		spec := w.spec("daily")
		if former := (zkrec.Former{Schedule: "@daily", Since: 5}); spec.Since != noon.Add(time.Hour).UnixMilli() || *spec.Former != former {
			t.Errorf("a new schedule since %d, former %+v; want now, %+v", spec.Since, spec.Former, former)
		}
	})
}

func TestSetRefuses(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(everything())
		w.submit(Job{Name: "garbage", Schedule: "@daily"})
		w.put(w.c.tree.Job("garbage"), []byte("{"))
		w.submit(Job{Name: "newer", Schedule: "@daily"})
		w.put(w.c.tree.Job("newer"), []byte(`{"schema":9,"schedule":"@daily"}`))
		for _, row := range []struct {
			changes     Changes
			field, want string
		}{
			{Changes{Schedule: ptr("x")}, "Schedule", `Schedule "x": `},
			{Changes{Schedule: ptr("@at 1999-01-01T00:00:00Z")}, "Schedule", `Schedule "@at 1999-01-01T00:00:00Z": never fires again`},
			{Changes{TimeZone: ptr("Mars")}, "TimeZone", `TimeZone "Mars": `},
			{Changes{Payload: ptr(json.RawMessage("{"))}, "Payload", `Payload "{": is not JSON: `},
			{Changes{Payload: ptr(json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`))}, "Payload", `Payload "6`},
			{Changes{Misfire: ptr("never")}, "Misfire", `Misfire "never": is not known, want one of once, skip, all`},
			{Changes{MisfireGrace: ptr(-time.Second)}, "MisfireGrace", `MisfireGrace "-1s": is negative`},
			{Changes{Interrupted: ptr("no")}, "Interrupted", `Interrupted "no": is not known, want one of rerun, skip`},
			{Changes{MaxAttempts: ptr(-1)}, "MaxAttempts", `MaxAttempts "-1": is out of range`},
			{Changes{Overlap: ptr("allow")}, "Overlap", `Overlap "allow": is not known, want one of skip, queue`},
			{Changes{Timeout: ptr(-time.Second)}, "Timeout", `Timeout "-1s": is negative`},
			{Changes{Retries: ptr(101)}, "Retries", `Retries "101": is out of range, want 0 to 100`},
			{Changes{Backoff: ptr(-time.Second)}, "Backoff", `Backoff "-1s": is negative`},
			{Changes{AlarmAfter: ptr(-time.Second)}, "AlarmAfter", `AlarmAfter "-1s": is negative`},
			{Changes{Shards: ptr(-1)}, "Shards", `Shards "-1": is out of range, want 1 to 1024`},
			{Changes{Shards: ptr(1025)}, "Shards", `Shards "1025": is out of range, want 1 to 1024`},
			{Changes{Shards: ptr(0)}, "Shards", `Shards "0": would make a job undivided that has shards: cancel it and submit it again`},
			{Changes{Shards: ptr(2)}, "ShardParameters", `ShardParameters "2": is no shard, want 0 to 1`},
			{Changes{ShardParameters: map[int]string{3: "Wuhan"}}, "ShardParameters", `ShardParameters "3": is no shard, want 0 to 2`},
			{Changes{ShardParameters: map[int]string{1: strings.Repeat("x", 64<<10)}}, "ShardParameters", `ShardParameters "6`},
			// It fits, and will not when the change takes effect: the layout repeats the parameters.
			{Changes{Shards: ptr(4), ShardParameters: map[int]string{3: strings.Repeat("x", 40<<10)}}, "ShardParameters", `ShardParameters "8`},
		} {
			_, err := w.c.Set(w.Context(), "daily", row.changes, SetOptions{})
			var invalid *InvalidError
			if !errors.As(err, &invalid) {
				t.Errorf("%+v: %v, want an *InvalidError", row.changes, err)
				continue
			}
			wantInvalid(t, invalid, row.field, row.want)
		}
		_, err := w.c.Set(w.Context(), "daily[1]", Changes{Retries: ptr(1)}, SetOptions{})
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "Name" || invalid.Err.Error() != `is the name of shard 1 of a job "daily"` {
			t.Errorf("a shard: %v", err)
		}
		for name, want := range map[string]error{"nobody": ErrNotFound, "garbage": ErrUnreadable, "newer": ErrUnreadable} {
			if _, err := w.c.Set(w.Context(), name, Changes{Retries: ptr(1)}, SetOptions{}); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		if v := w.get("daily").Version; v != 0 {
			t.Errorf("refused changes made it v%d", v)
		}
	})
}

// A job that is over can still be changed in what does not make it run.
func TestSetOfAJobThatIsOver(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(Job{Name: "once", Schedule: "@at 2000-01-01T13:00:00Z"})
		time.Sleep(2 * time.Hour)
		if result, err := w.c.Set(w.Context(), "once", Changes{Retries: ptr(1)}, SetOptions{}); err != nil || result.Outcome != Changed {
			t.Errorf("%s, %v; want changed", result.Outcome, err)
		}
	})
}

// Changes of different parts at the same time are all made, also when replies
// are lost.
func TestSetsAtTheSameTime(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(Job{Name: "daily", Schedule: "@daily"})
		for range 2 {
			w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return zkdev.CutAfter() })
		}
		var all sync.WaitGroup
		for _, key := range []string{"a", "b", "c", "d"} {
			c := w.operator()
			all.Go(func() {
				result, err := c.Set(w.Context(), "daily", Changes{Args: map[string]string{key: "1"}}, SetOptions{})
				if err != nil || result.Outcome != Changed {
					t.Errorf("%s: %s, %v; want changed", key, result.Outcome, err)
				}
			})
		}
		all.Wait()
		if got := w.get("daily"); len(got.Args) != 4 || got.Version != 4 {
			t.Errorf("v%d with %v, want v4 with all four", got.Version, got.Args)
		}
	})
}
