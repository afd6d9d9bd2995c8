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
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// everything is a job none of whose fields has its default.
func everything() job.Job {
	return job.Job{
		Name: "daily", Description: "the numbers of the day", Labels: map[string]string{"team": "billing"},
		Schedule: "0 3 * * *", TimeZone: "Europe/Berlin", Handler: "stats",
		Args: map[string]string{"a": "1", "b": "2"}, Payload: json.RawMessage(`{"n":[1,2]}`),
		Misfire: "all", MisfireGrace: time.Hour, Interrupted: "skip", MaxAttempts: 5, Overlap: "queue",
		Timeout: time.Minute, Retries: 2, Backoff: 5 * time.Second, AlarmAfter: 2 * time.Minute, KeepDone: time.Hour,
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
		w.submit(job.Job{
			Name: "daily", Schedule: "@daily", Handler: "daily", Misfire: "once", Interrupted: "rerun", MaxAttempts: 3,
			Overlap: "skip", Backoff: time.Second, AlarmAfter: time.Minute,
		})
		result, err := w.c.Submit(w.Context(), job.Job{Name: "daily", Schedule: "@daily"}, SubmitOptions{})
		if err != nil || result.Outcome != OutcomeUnchanged {
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

func TestEditChangesWhatIsGiven(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(everything())
		for i, change := range []func(*job.Job){
			func(j *job.Job) { j.Description = "" },
			func(j *job.Job) { j.Labels["tier"] = "gold" },
			func(j *job.Job) { delete(j.Labels, "team") },
			func(j *job.Job) { j.Schedule = "@hourly" },
			func(j *job.Job) { j.TimeZone = "" },
			func(j *job.Job) { j.Handler = "" },
			func(j *job.Job) { j.Args = map[string]string{"a": "1", "b": "3", "c": ""} },
			func(j *job.Job) { delete(j.Args, "a") },
			func(j *job.Job) { j.Args["b"] = "4" },
			func(j *job.Job) { j.Payload = json.RawMessage(`[1]`) },
			func(j *job.Job) { j.Payload = nil },
			func(j *job.Job) { j.Misfire = "skip" },
			func(j *job.Job) { j.MisfireGrace = 0 },
			func(j *job.Job) { j.Interrupted = "" },
			func(j *job.Job) { j.MaxAttempts = 7 },
			func(j *job.Job) { j.Overlap = "skip" },
			func(j *job.Job) { j.Timeout = time.Hour },
			func(j *job.Job) { j.Retries = 0 },
			func(j *job.Job) { j.Backoff = 0 },
			func(j *job.Job) { j.Backoff = job.NoBackoff },
			func(j *job.Job) { j.AlarmAfter = time.Minute },
			func(j *job.Job) { j.AlarmAfter = job.NoAlarm },
			func(j *job.Job) { j.ShardParameters = map[int]string{0: "Tianjin", 1: "Wuhan", 2: "Shanghai"} },
			func(j *job.Job) { j.Shards, j.ShardParameters[4] = 5, "Xian" },
			func(j *job.Job) { j.Shards, j.ShardParameters = 2, map[int]string{0: "Tianjin", 1: "Wuhan"} },
		} {
			want := w.get("daily").Job.Clone()
			change(&want)
			want = want.WithDefaults()
			dry, dryErr := w.c.Edit(w.Context(), "daily", changing(change), EditOptions{DryRun: true})
			done, err := w.edit("daily", change)
			if err != nil || done.Outcome != OutcomeChanged || !reflect.DeepEqual(done.Job, want) {
				t.Errorf("%d: %s %v\ngot  %+v\nwant %+v", i, done.Outcome, err, done.Job, want)
			}
			if dryErr != nil || dry.Outcome != OutcomeChanged || !reflect.DeepEqual(dry.Before, done.Before) || !reflect.DeepEqual(dry.Job, done.Job) {
				t.Errorf("%d, dry: %+v %v, want as the real one", i, dry, dryErr)
			}
			now := w.get("daily")
			if !reflect.DeepEqual(now.Job, want) || now.Version != done.Version || done.NextRun.IsZero() || !now.NextRun.IsZero() {
				t.Errorf("%d: reported as %+v\nit is %+v", i, done, now)
			}
			again, err := w.edit("daily", change)
			if err != nil || again.Outcome != OutcomeUnchanged || again.Before != nil || again.Version != done.Version || !reflect.DeepEqual(again.Job, want) {
				t.Errorf("%d, again: %s v%d %v; want unchanged", i, again.Outcome, again.Version, err)
			}
		}
	})
}

// What Edit does not change stays, no matter who wrote it: a pause, the fields
// of a newer version, and since when the schedule holds.
func TestEditKeepsTheRest(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "daily", Schedule: "@daily"})
		w.put(w.c.tree.Job("daily"), []byte(`{"schema":1,"schedule":"@daily","novel":[1],"declared":"ab","since":5}`))
		w.put(w.c.tree.Register("daily"), zkrec.Switch{Paused: &zkrec.Pause{Since: 7, By: "eve"}}.Encode())
		time.Sleep(time.Hour)
		if _, err := w.edit("daily", func(j *job.Job) { j.Retries = 1 }); err != nil {
			t.Fatal(err)
		}
		want := `{"schema":1,"schedule":"@daily","retries":1,"since":5,"version":2,"declared":"ab","novel":[1]}`
		if got := string(w.spec("daily").Encode()); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if _, err := w.edit("daily", func(j *job.Job) { j.Schedule = "@hourly" }); err != nil {
			t.Fatal(err)
		}
		spec := w.spec("daily")
		if former := (zkrec.Former{Schedule: "@daily", Since: 5}); spec.Since != 0 || !reflect.DeepEqual(*spec.Former, former) {
			t.Errorf("a new schedule since %d, former %+v; want since the node is written, %+v", spec.Since, spec.Former, former)
		}
	})
}

func TestEditRefuses(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(everything())
		w.submit(job.Job{Name: "garbage", Schedule: "@daily"})
		w.put(w.c.tree.Job("garbage"), []byte("{"))
		w.submit(job.Job{Name: "newer", Schedule: "@daily"})
		w.put(w.c.tree.Job("newer"), []byte(`{"schema":9,"schedule":"@daily"}`))
		for _, row := range []struct {
			change      func(*job.Job)
			field, want string
		}{
			{func(j *job.Job) { j.Schedule = "x" }, "Schedule", `job.Schedule "x": `},
			{func(j *job.Job) { j.Schedule = "@at 1999-01-01T00:00:00Z" }, "Schedule", `job.Schedule "@at 1999-01-01T00:00:00Z": never fires again`},
			{func(j *job.Job) { j.TimeZone = "Mars" }, "TimeZone", `job.TimeZone "Mars": `},
			{func(j *job.Job) { j.Payload = json.RawMessage("{") }, "Payload", `job.Payload "{": is not JSON: `},
			{func(j *job.Job) { j.Payload = json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`) }, "Payload", `job.Payload "6`},
			{func(j *job.Job) { j.Misfire = "never" }, "Misfire", `job.Misfire "never": is not known, want one of once, skip, all`},
			{func(j *job.Job) { j.MisfireGrace = -time.Second }, "MisfireGrace", `job.MisfireGrace "-1s": is negative`},
			{func(j *job.Job) { j.Interrupted = "no" }, "Interrupted", `job.Interrupted "no": is not known, want one of rerun, skip`},
			{func(j *job.Job) { j.MaxAttempts = -1 }, "MaxAttempts", `job.MaxAttempts "-1": is out of range`},
			{func(j *job.Job) { j.Overlap = "allow" }, "Overlap", `job.Overlap "allow": is not known, want one of skip, queue`},
			{func(j *job.Job) { j.Timeout = -time.Second }, "Timeout", `job.Timeout "-1s": is negative`},
			{func(j *job.Job) { j.Retries = 101 }, "Retries", `job.Retries "101": is out of range, want 0 to 100`},
			{func(j *job.Job) { j.Backoff = -time.Second }, "Backoff", `job.Backoff "-1s": is negative`},
			{func(j *job.Job) { j.AlarmAfter = -time.Second }, "AlarmAfter", `job.AlarmAfter "-1s": is negative`},
			{func(j *job.Job) { j.Shards = -1 }, "Shards", `job.Shards "-1": is out of range, want 1 to 1024`},
			{func(j *job.Job) { j.Shards = 1025 }, "Shards", `job.Shards "1025": is out of range, want 1 to 1024`},
			{func(j *job.Job) { j.Shards = 0 }, "Shards", `job.Shards "0": would make a job undivided that has shards: cancel it and submit it again`},
			{func(j *job.Job) { j.Shards = 2 }, "ShardParameters", `job.ShardParameters "2": is no shard, want 0 to 1`},
			{func(j *job.Job) { j.ShardParameters[3] = "Wuhan" }, "ShardParameters", `job.ShardParameters "3": is no shard, want 0 to 2`},
			{func(j *job.Job) { j.ShardParameters[1] = strings.Repeat("x", 64<<10) }, "ShardParameters", `job.ShardParameters "6`},
			// It fits, and will not when the change takes effect: the layout repeats the parameters.
			{func(j *job.Job) { j.Shards = 4; j.ShardParameters[3] = strings.Repeat("x", 40<<10) }, "ShardParameters", `job.ShardParameters "8`},
		} {
			_, err := w.edit("daily", row.change)
			wantRefused(t, err, row.field, `job "daily": `+row.want)
		}
		_, err := w.edit("daily[1]", func(j *job.Job) { j.Retries = 1 })
		var refused *invalid.FieldError
		if !errors.As(err, &refused) || refused.Field != "Name" || refused.Err.Error() != `is the name of shard 1 of a job "daily"` {
			t.Errorf("a shard: %v", err)
		}
		for name, want := range map[string]error{"nobody": ErrNotFound, "garbage": ErrUnreadable, "newer": ErrUnreadable} {
			if _, err := w.edit(name, func(j *job.Job) { j.Retries = 1 }); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		if v := w.get("daily").Version; v != 0 {
			t.Errorf("refused changes made it v%d", v)
		}
	})
}

// A job without further ticks can still be edited.
func TestEditOfAJobWithoutFurtherTicks(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "once", Schedule: "@at 2000-01-01T13:00:00Z"})
		time.Sleep(2 * time.Hour)
		if result, err := w.edit("once", func(j *job.Job) { j.Retries = 1 }); err != nil || result.Outcome != OutcomeChanged {
			t.Errorf("%s, %v; want changed", result.Outcome, err)
		}
	})
}

// Concurrent changes of different parts are all made, even if replies
// are lost.
func TestEditsAtTheSameTime(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "daily", Schedule: "@daily"})
		for range 2 {
			w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return zkdev.CutAfter() })
		}
		var all sync.WaitGroup
		for _, key := range []string{"a", "b", "c", "d"} {
			c := w.operator()
			all.Go(func() {
				result, err := c.Edit(w.Context(), "daily", changing(func(j *job.Job) {
					if j.Args == nil {
						j.Args = map[string]string{}
					}
					j.Args[key] = "1"
				}), EditOptions{})
				if err != nil || result.Outcome != OutcomeChanged {
					t.Errorf("%s: %s, %v; want changed", key, result.Outcome, err)
				}
			})
		}
		all.Wait()
		if got := w.get("daily"); len(got.Job.Args) != 4 || got.Version != 4 {
			t.Errorf("v%d with %v, want v4 with all four", got.Version, got.Job.Args)
		}
	})
}
