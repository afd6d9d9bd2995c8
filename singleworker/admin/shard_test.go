package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/deletion"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// makes returns the operations that create a job's shards, as an instance would.
func (w *world) makes(slots ...string) {
	w.Helper()
	var ops []zkconn.Op
	for _, slot := range slots {
		ops = append(ops, newNodes(w.c.tree.NewShard(slot, 0))...)
	}
	for len(ops) > 0 {
		n := deletion.Fitting(w.c.conn, ops)
		w.multi(ops[:n]...)
		ops = ops[n:]
	}
}

// sharded is a job "job" with the shards that an instance app-1 owns.
func (w *world) sharded(shards int) {
	w.Helper()
	w.submit(job.Job{Name: "job", Schedule: "@hourly", Shards: shards})
	w.instance("app-1", "job")
	slots := zkrec.Sharding{Shards: shards}.Slots("job")
	w.makes(slots...)
	for _, slot := range slots {
		w.adopt("app-1", slot)
	}
}

// ticked writes a shard's last run.
func (w *world) ticked(slot string, at time.Time, state history.State, change func(*zkrec.Tick)) {
	w.Helper()
	tick := zkrec.Tick{Watermark: at.UnixMilli(), Run: zkrec.Run{
		Tick: at.UnixMilli(), RunID: fmt.Sprintf("%s at %s", slot, at.Format("15:04")), SID: "app-1",
		Token: w.get(slot).Owner.Token, Attempt: 1, Started: at.UnixMilli() + 40, State: state,
	}}
	if state != history.StateRunning {
		tick.Ended = at.UnixMilli() + 1040
	}
	if change != nil {
		change(&tick)
	}
	log := w.log(slot)
	if !tick.Open() {
		log = log.Add(zkrec.MinHistory, 0, zkrec.Entry{Run: tick.Run})
	}
	w.record(slot, tick, log)
}

func TestShardsOfAJob(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly", Shards: 4, ShardParameters: map[int]string{0: "Beijing", 3: "Wuhan"}})
		job := w.get("job")
		if want := `no instance has registered handler "job"`; job.State != StateUnowned || job.Reason.String() != want || len(job.Slots) != 4 || job.Slots[3].Reason.String() != want {
			t.Errorf("nobody has made the shards: %s because %s, %d shards; want unowned because %s", job.State, job.Reason, len(job.Slots), want)
		}
		w.instance("app-1", "job")
		w.instance("app-2", "job")
		w.makes("job[0]", "job[1]", "job[2]") // the last is still to be made
		token := w.adopt("app-1", "job[0]")
		w.adopt("app-1", "job[1]")
		w.adopt("app-2", "job[2]")
		w.ticked("job[0]", noon, history.StateOK, nil)
		w.put(w.c.tree.Shards("job"), zkrec.Complete{Tick: noon.UnixMilli()}.Encode())
		time.Sleep(2 * time.Second)

		job = w.get("job")
		if want := "nobody owns job[3]: waiting for app-1 or app-2 to adopt it"; job.State != StateUnowned || job.Reason.String() != want {
			t.Errorf("%s because %s, want unowned because %s", job.State, job.Reason, want)
		}
		if job.Name != "job" || job.Shard != nil || job.Owner != nil || job.LastRun != nil || !job.Watermark.IsZero() ||
			!job.Complete.Equal(noon) || job.Resizing != nil || job.Job.Shards != 4 || !job.NextRun.Equal(noon.Add(time.Hour)) {
			t.Errorf("the whole job: %+v", job)
		}
		first, last := job.Slots[0], job.Slots[3]
		if *first.Shard != (Shard{Index: 0, Total: 4, Parameter: "Beijing"}) || first.Name != "job[0]" || first.Job.Handler != "job" ||
			first.Owner.InstanceID != "app-1" || first.Owner.Token != token || !first.LastRun.OK() || !first.Watermark.Equal(noon) || first.State != StateOwned {
			t.Errorf("shard 0: %+v", first)
		}
		if *last.Shard != (Shard{Index: 3, Total: 4, Parameter: "Wuhan"}) || last.Owner != nil || last.LastRun != nil || !last.Watermark.IsZero() || last.State != StateUnowned {
			t.Errorf("shard 3, which nobody has made: %+v", last)
		}
		if one := w.get("job[0]"); one.Shard == nil || one.Owner.Token != token || len(one.Slots) != 0 || one.Name != "job[0]" {
			t.Errorf("shard 0 alone: %+v", one)
		}
		instances, err := w.c.Instances(w.Context())
		if err != nil || instances[0].Owned != 2 || instances[1].Owned != 1 {
			t.Errorf("instances own %+v, %v; want 2 and 1", instances, err)
		}
		list, err := w.c.List(w.Context())
		if err != nil || len(list) != 1 || len(list[0].Slots) != 4 {
			t.Errorf("list: %+v, %v", list, err)
		}
		w.kill()
		if job := w.get("job"); job.Reason.String() != "nobody owns 3 of its 4 shards, the first of them job[0]: its owner app-1 is gone; waiting for app-2 to take over" {
			t.Errorf("app-1 is dead: %s", job.Reason)
		}
	})
}

// Each shard is judged by its own records, and the first tick that is late is
// the job's.
func TestOverdueShards(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.sharded(3)
		time.Sleep(time.Hour)
		w.ticked("job[0]", noon.Add(time.Hour), history.StateOK, nil)
		w.ticked("job[1]", noon.Add(time.Hour), history.StateRunning, nil)
		w.multi(zkcreate(w.c.tree.Alarm("job[2]"), zkrec.Alarm{Tick: noon.Add(time.Hour).UnixMilli(), SID: "app-2"}.Encode()))
		late := func(what, want string) {
			t.Helper()
			job := w.get("job")
			got := ""
			for _, status := range append([]JobStatus{job}, job.Slots...) {
				got += " -"
				if !status.Overdue.IsZero() {
					got = got[:len(got)-1] + status.Overdue.UTC().Format("15:04")
				}
			}
			if got[1:] != want || job.Alarm != nil || job.Slots[2].Alarm == nil {
				t.Errorf("%s: %s, want %s; alarms %v, %v", what, got[1:], want, job.Alarm, job.Slots[2].Alarm)
			}
		}
		late("at once", "- - - -")
		time.Sleep(time.Minute)
		late("a minute later", "13:00 - - 13:00")
		time.Sleep(time.Hour)
		late("an hour later", "13:00 14:00 - 13:00")
	})
}

func TestNamesOfShards(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly", Shards: 2})
		w.submit(job.Job{Name: "plain", Schedule: "@hourly"})
		long := strings.Repeat("x", job.MaxNameBytes)
		w.submit(job.Job{Name: long, Schedule: "@hourly", Shards: 2})
		if job := w.get(long + "[1]"); job.Shard.Index != 1 {
			t.Errorf("the longest name: %+v", job.Shard)
		}
		w.submit(job.Job{Name: "garbage", Schedule: "@hourly"})
		w.put(w.c.tree.Job("garbage"), []byte("{"))
		for name, row := range map[string]struct {
			err  error
			says string
		}{
			"job[2]": {ErrNoShard, "no such shard: job has shards 0 to 1"}, "plain[0]": {ErrNoShard, "no such shard: plain is not divided"},
			"nobody[0]": {ErrNotFound, "no such job"}, "garbage[0]": {ErrUnreadable, "job spec"},
		} {
			_, get := w.c.Get(w.Context(), name)
			_, history := w.c.History(w.Context(), name)
			_, why := w.c.Why(w.Context(), name, time.Time{})
			_, trigger := w.c.Trigger(w.Context(), name, TriggerOptions{})
			_, stop := w.c.StopRun(w.Context(), name, StopOptions{})
			_, await := w.c.AwaitRun(w.Context(), name, "id")
			for what, err := range map[string]error{"get": get, "history": history, "why": why, "trigger": trigger, "stop": stop, "await": await} {
				if !errors.Is(err, row.err) || !strings.Contains(err.Error(), row.says) {
					t.Errorf("%s %s: %v, want %s", what, name, err, row.says)
				}
			}
		}
		_, pause := w.c.Pause(w.Context(), "job[1]", PauseOptions{})
		_, cancel := w.c.Cancel(w.Context(), "job[1]")
		for what, err := range map[string]error{"pause": pause, "cancel": cancel} {
			if refused := new(invalid.FieldError); !errors.As(err, &refused) || refused.Field != "Name" || refused.Err.Error() != `is the name of shard 1 of a job "job"` {
				t.Errorf("%s: %v", what, err)
			}
		}
		if job, shard, ok := job.SplitShard("a[1][2]"); job != "a[1]" || shard != 2 || !ok {
			t.Errorf("SplitShard = %s, %d, %v", job, shard, ok)
		}
	})
}

// A layout that was edited manually and cannot be run is not expanded.
func TestShardsOfGarbage(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.sharded(2)
		for _, garbage := range []string{`{"schedule":"@daily","shards":2000000000}`, `{"schedule":"@daily","shards":2,"layout":{"shards":2000000000}}`, `{"schedule":"@daily","shards":-1}`, `{"shards`} {
			w.put(w.c.tree.Job("job"), []byte(garbage))
			if job := w.get("job"); job.State != StateInvalid || len(job.Slots) > 0 {
				t.Errorf("%s: %s with %d shards", garbage, job.State, len(job.Slots))
			}
		}
		w.put(w.c.tree.Shards("job"), []byte("zzz"))
		w.put(w.c.tree.Job("job"), []byte(`{"schedule":"@daily","shards":2}`))
		list, err := w.c.List(w.Context())
		w.must(err)
		if job := w.get("job"); job.State != StateInvalid || list[0].State != job.State || list[0].Reason.String() != job.Reason.String() {
			t.Errorf("a record of complete ticks that is garbage: Get says %s, %s, and List %s, %s", job.State, job.Reason, list[0].State, list[0].Reason)
		}
		w.put(w.c.tree.Job("job"), []byte(`{"schedule":"@dialy","shards":2}`))
		if job := w.get("job"); job.State != StateInvalid || len(job.Slots) != 2 || !job.Complete.IsZero() || !strings.Contains(job.Reason.String(), "@dialy") {
			t.Errorf("no schedule: %s because %s with %d shards", job.State, job.Reason, len(job.Slots))
		}
		_, err = w.c.Submit(w.Context(), job.Job{Name: "job", Schedule: "@daily", Shards: 3}, SubmitOptions{Replace: true})
		if resizing := w.get("job").Resizing; err != nil || resizing == nil {
			t.Errorf("other shards over those of a bad schedule: %+v, %v", resizing, err)
		}
		w.put(w.c.tree.Job("job"), []byte("{"))
		_, err = w.c.Submit(w.Context(), job.Job{Name: "job", Schedule: "@daily", Shards: 3}, SubmitOptions{Replace: true})
		if slots := w.get("job").Slots; err != nil || len(slots) != 3 {
			t.Errorf("over garbage: %+v, %v", slots, err)
		}
	})
}

// Until all shards have finished the ticks that one of them has claimed, the job has the
// old shards.
func TestResizing(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.sharded(4)
		time.Sleep(time.Hour)
		one := noon.Add(time.Hour)
		w.ticked("job[0]", one, history.StateOK, nil)
		w.ticked("job[1]", one, history.StateRunning, nil)
		w.ticked("job[2]", one, history.StateFailed, func(t *zkrec.Tick) { t.NextAttempt, t.NextAttemptAt = history.NextRetry, one.UnixMilli()+5000 })
		result, err := w.edit("job", func(j *job.Job) { j.Shards = 2 })
		if err != nil || result.Outcome != OutcomeChanged || result.Job.Shards != 2 || len(w.get("job").Slots) != 4 {
			t.Fatalf("%+v, %v", result, err)
		}
		wants := func(what, says, last string) {
			t.Helper()
			got, r := "", w.get("job").Resizing
			if r != nil && !r.Until.IsZero() {
				got = r.Until.UTC().Format("15:04")
			}
			if r == nil || r.String() != says || got != last {
				t.Errorf("%s: %v after %q, want %s after %q", what, r, got, says, last)
			}
		}
		wants("at first", "from 4 to 2, which waits for job[1], job[2], job[3]", "")
		settled := w.spec("job")
		settled.Layout.Until = one.UnixMilli()
		w.put(w.c.tree.Job("job"), settled.Encode())
		wants("settled", "from 4 to 2, which waits for job[1], job[2], job[3]", "13:00")
		w.ticked("job[1]", one, history.StateOK, nil)
		w.ticked("job[3]", one, history.StateOK, nil)
		wants("most are done", "from 4 to 2, which waits for job[2]", "13:00")
		time.Sleep(2 * time.Hour) // the next tick waits for the change, which takes too long
		if job := w.get("job"); !job.Slots[0].Overdue.Equal(one.Add(time.Hour)) || !job.Slots[2].Overdue.Equal(one.Add(time.Hour)) || !job.Overdue.Equal(one.Add(time.Hour)) {
			t.Errorf("overdue %v, of shard 0 %v, 2 %v", job.Overdue, job.Slots[0].Overdue, job.Slots[2].Overdue)
		}
		w.ticked("job[2]", one, history.StateOK, nil)
		wants("all are done", "from 4 to 2, which waits for an instance to make it", "13:00")
		if job := w.get("job"); !job.Slots[0].Overdue.Equal(one.Add(time.Hour)) {
			t.Errorf("nobody makes the change: overdue %v", job.Slots[0].Overdue)
		}
		w.put(w.c.tree.Job("job"), w.spec("job").Resized().Encode())
		if job := w.get("job"); job.Resizing != nil || len(job.Slots) != 2 {
			t.Errorf("it is made: %v, %d shards", job.Resizing, len(job.Slots))
		}
		if _, err := w.c.Get(w.Context(), "job[2]"); !errors.Is(err, ErrNoShard) {
			t.Errorf("a shard that was: %v", err)
		}

		if _, err := w.edit("job", func(j *job.Job) { j.ShardParameters = map[int]string{1: "Wuhan"} }); err != nil {
			t.Fatal(err)
		}
		wants("a parameter", "to other parameters, which waits for an instance to make it", "")
		if param := w.get("job[1]").Shard.Parameter; param != "" {
			t.Errorf("parameter %q, which is to come", param)
		}
		_, err = w.c.Submit(w.Context(), job.Job{Name: "job", Schedule: "@hourly"}, SubmitOptions{Replace: true})
		if err != nil {
			t.Fatal(err)
		}
		wants("undivided", "from 2 to undivided, which waits for an instance to make it", "")
	})
}

func TestAddingShardsToAJob(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		token := w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		w.claim(zkrec.Run{Tick: noon.UnixMilli(), RunID: "a", Token: token})
		_, err := w.edit("job", func(j *job.Job) { j.Shards = 3 })
		divided := w.get("job")
		if err != nil || divided.Resizing.String() != "from undivided to 3, which waits for job" || divided.Owner == nil || len(divided.Slots) != 0 {
			t.Errorf("%+v, %v", divided, err)
		}
		_, err = w.c.Get(w.Context(), "job[0]")
		if want := `job "job[0]": no such shard: job is not divided, until the change of its shards takes effect`; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		ended := w.spec("job")
		ended.Layout.Until = noon.UnixMilli()
		w.put(w.c.tree.Job("job"), ended.Resized().Encode())
		// The shards, which do not exist yet, do not have the earlier ticks.
		if job := w.get("job"); len(job.Slots) != 3 || !job.Watermark.Equal(noon) || job.Resizing != nil {
			t.Errorf("%+v", job)
		}
	})
}

// A shard that is removed while the job is read is not shown as missing.
func TestShardsRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.sharded(3)
		w.server.Control(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if strings.HasSuffix(r.Path, "shards/1/tick") {
				return zkdev.Delay(10 * time.Second)
			}
			return zkdev.Pass()
		})
		time.AfterFunc(5*time.Second, func() {
			spec := w.spec("job")
			spec.Job.Shards = 1
			w.multi(zkconn.SetOp(w.c.tree.Job("job"), spec.Encode(), zkconn.AnyVersion))
			for _, slot := range []string{"job[1]", "job[2]"} {
				paths, err := deletion.Below(w.Context(), w.hand.conn, w.c.tree.Slot(slot))
				if err != nil {
					t.Error(err)
				}
				for _, path := range paths {
					w.multi(zkdelete(path))
				}
			}
		})
		if job := w.get("job"); len(job.Slots) != 1 || job.State != StateOwned {
			t.Errorf("%d shards, %s because %s; want the one that is left", len(job.Slots), job.State, job.Reason)
		}
	})
}

func TestAwaitOwnersOfShards(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly", Shards: 2})
		begin := time.Now()
		time.AfterFunc(100*time.Millisecond, func() {
			w.instance("app-1", "job")
			w.makes("job[0]", "job[1]")
			w.adopt("app-1", "job[0]")
			w.adopt("app-1", "job[1]")
		})
		if job, err := w.c.AwaitOwner(w.Context(), "job"); err != nil || job.State != StateOwned || time.Since(begin) > 200*time.Millisecond {
			t.Errorf("%s after %v, %v; want it owned at once", job.State, time.Since(begin), err)
		}
	})
}

func TestPauseOfShards(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.sharded(3)
		if _, err := w.c.Pause(w.Context(), "job", PauseOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3*time.Hour + time.Minute)
		w.ticked("job[1]", noon.Add(2*time.Hour), history.StateOK, nil)
		result, err := w.c.Resume(w.Context(), "job", ResumeOptions{})
		if err != nil || result.Missed != 4 {
			t.Errorf("%d ticks came in the pause, %v; want 4", result.Missed, err)
		}
		paused := func(s JobStatus) bool { return s.Paused != nil }
		if slices.ContainsFunc(w.get("job").Slots, paused) {
			t.Error("a shard is paused")
		}
	})
}
