package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// watching is a Watch whose events a test reads.
type watching struct {
	*world

	mu     sync.Mutex
	events []Event
	err    error
	stop   func()
	ended  chan struct{}
}

// watch watches until it is stopped, or the test ends.
func (w *world) watch(c *Client, o WatchOptions) *watching {
	ctx, stop := context.WithCancel(w.Context())
	on := &watching{world: w, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(on.ended)
		for ev, err := range c.Watch(ctx, o) {
			if err != nil {
				on.err = err
				return
			}
			on.mu.Lock()
			on.events = append(on.events, ev)
			on.mu.Unlock()
		}
	}()
	w.Cleanup(func() {
		stop()
		<-on.ended
	})
	return on
}

// settle waits until what was written is reported.
func settle() {
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// want expects the events since the last call.
func (on *watching) want(what string, want ...string) {
	on.Helper()
	settle()
	var got []string
	for _, ev := range on.take() {
		got = append(got, eventText(ev))
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		on.Errorf("%s: got\n%s\nwant\n%s", what, a, b)
	}
}

// take returns the events since it was last called.
func (on *watching) take() []Event {
	on.mu.Lock()
	defer on.mu.Unlock()
	events := on.events
	on.events = nil
	return events
}

// eventText is what the tests compare of an event.
func eventText(ev Event) string {
	text := string(ev.Kind)
	if name := ev.Job + ev.InstanceID; name != "" {
		text += " " + name
	}
	if ev.Owner != nil {
		text += " by " + ev.Owner.InstanceID
	}
	if ev.Previous != "" {
		text += " from " + ev.Previous
	}
	if e := ev.Entry; e != nil {
		text += fmt.Sprintf(" %s%s", e.RunID, e.Reason)
		if ev.Kind == EventRunEnded {
			text += " " + string(e.State)
		}
		if e.RunID == "" {
			text += fmt.Sprintf(" x%d", e.Count)
		}
	}
	if ev.State != "" {
		text += " " + ev.State
	}
	switch {
	case ev.Paused:
		text += " paused"
	case ev.Amended:
		if text += " amended"; ev.Superseded {
			text += " superseded"
		}
	case ev.Continued:
		text += " continued"
	case ev.Repeated:
		text += " repeated"
	}
	if ev.Unseen > 0 {
		text += fmt.Sprintf(" unseen %d", ev.Unseen)
	}
	if ev.Notify != nil {
		text += fmt.Sprintf(" notify %v", ev.Notify)
	}
	if ev.Gap != nil {
		text += fmt.Sprintf(" %s %d", ev.Gap.What, ev.Gap.Count)
	}
	return text
}

func entryOfRun(id string, state history.State) zkrec.Entry {
	return zkrec.Entry{Run: zkrec.Run{Tick: time.Now().UnixMilli(), RunID: id, State: state, Attempt: 1}}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "old", Schedule: "@hourly"})
		on := w.watch(w.operator(), WatchOptions{})
		on.want("at first", "watching")
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		on.want("submit", "job_submitted job")
		w.instance("app-1", "job")
		on.want("join", "instance_joined app-1")
		token := w.adopt("app-1", "job")
		on.want("adopt", "job_owned job by app-1")
		_, err := w.c.Pause(w.Context(), "job", PauseOptions{})
		w.must(err)
		on.want("pause", "job_changed job paused")

		w.claim(zkrec.Run{Tick: noon.UnixMilli(), RunID: "a", Token: token})
		on.want("claim", "run_begun job a")
		w.end(entryOfRun("a", history.StateOK))
		on.want("end", "run_ended job a ok")
		w.end(entryOfRun("b", history.StateFailed))
		w.end(entryOfRun("c", history.StateOK))
		on.want("short runs", "run_begun job b", "run_ended job b failed", "run_begun job c", "run_ended job c ok")
		row := zkrec.Entry{Run: zkrec.Run{Tick: time.Now().UnixMilli(), State: history.StateSkipped}, Count: 2, Reason: history.ReasonPaused}
		row.To = row.Tick + 1000
		w.end(row)
		on.want("skipped", "ticks_skipped job paused x2")

		w.put(w.c.tree.Alive("job"), nil)
		w.adopt("app-2", "job")
		on.want("handed over", "job_owned job by app-2 from app-1 unseen 1")
		w.put(w.c.tree.Alive("job"), nil)
		on.want("released", "job_unowned job from app-2")
		w.put(w.c.tree.Instance("app-1"), zkrec.Instance{Incarnation: "app-1-1", State: zkrec.InstanceDrained}.Encode())
		on.want("drained", "instance_state app-1 drained")
		w.kill()
		on.want("left", "instance_left app-1")
		_, err = w.c.Cancel(w.Context(), "job")
		w.must(err)
		on.want("canceled", "job_canceled job")
		w.submit(job.Job{Name: "brief", Schedule: "@hourly"})
		_, err = w.c.Cancel(w.Context(), "brief")
		w.must(err)
		on.want("came and went", "gap jobs 1")
		on.stop()
		<-on.ended
		if !errors.Is(on.err, context.Canceled) {
			t.Errorf("ended with %v", on.err)
		}
	})
}

// After a lost connection, an expired session, and an outage, it resumes from what it has reported.
// Whom a job names is told with its submission and its changes; while its record cannot be read,
// the names from before count.
func TestWatchWhomAJobNames(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		on := w.watch(w.operator(), WatchOptions{})
		on.want("at first", "watching")
		w.submit(job.Job{Name: "job", Schedule: "@hourly", Notify: map[string][]job.NotifyKind{"ops": {job.NotifyFailed}}})
		on.want("submit", "job_submitted job notify map[ops:[failed]]")
		w.put(w.c.tree.Job("job"), []byte("{"))
		on.want("damage", "job_changed job notify map[ops:[failed]]", "gap job record 0")
		w.put(w.c.tree.Job("job"), []byte("@daily"))
		on.want("repair", "job_changed job")
	})
}

func TestWatchResumes(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		client := w.server.Client("watch")
		c := w.dialBy(w.Context(), client.Dial)
		on := w.watch(c, WatchOptions{})
		on.want("at first", "watching")
		client.Partition()
		w.end(entryOfRun("a", history.StateOK))
		w.end(entryOfRun("b", history.StateOK))
		on.want("cut off")
		client.Heal()
		time.Sleep(5 * time.Second)
		on.want("again there", "run_begun job a", "run_ended job a ok", "run_begun job b", "run_ended job b ok")
		client.Partition()
		w.submit(job.Job{Name: "new", Schedule: "@hourly"})
		w.instance("app-1", "new")
		time.Sleep(time.Minute) // the session expires
		client.Heal()
		time.Sleep(20 * time.Second)
		on.want("a new session", "job_submitted new", "instance_joined app-1")
		client.Partition()
		for i := range zkrec.MinHistory + 6 {
			w.end(entryOfRun(fmt.Sprintf("run-%d", i), history.StateOK))
		}
		client.Heal()
		time.Sleep(20 * time.Second)
		settle()
		if len(on.events) < 1+2*zkrec.MinHistory || on.events[0].Gap == nil || on.events[0].Gap.What != GapRuns || on.events[0].Job != "job" {
			t.Errorf("%d events, the first %+v; want a gap and what the history has", len(on.events), on.events[0])
		}
	})
}

// A result that comes late is reported, though the last run does not change.
func TestWatchLateResult(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		on := w.watch(w.operator(), WatchOptions{})
		on.want("at first", "watching")
		w.end(entryOfRun("a", history.StateInterrupted))
		on.want("interrupted", "run_begun job a", "run_ended job a interrupted")
		w.late(entryOfRun("a", history.StateOK))
		on.want("late", "run_ended job a ok amended")
		w.late(entryOfRun("a", history.StateFailed))
		again := w.watch(w.operator(), WatchOptions{})
		again.want("of a run that had ended before", "watching")
		w.late(entryOfRun("a", history.StateOK))
		again.want("late", "run_ended job a ok amended")
	})
}

// What happened since a cursor is reported, marked where it may be old.
func TestWatchSince(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.submit(job.Job{Name: "idle", Schedule: "@hourly"})
		w.instance("app-1", "job")
		w.adopt("app-1", "job")
		w.end(entryOfRun("a", history.StateOK))
		first := w.watch(w.operator(), WatchOptions{})
		settle()
		cursor := first.events[0].Cursor
		first.stop()
		if cursor == 0 {
			t.Fatal("no cursor")
		}
		token := w.adopt("app-2", "job")
		entry := entryOfRun("b", history.StateOK)
		entry.Token = token
		w.end(entry)
		w.submit(job.Job{Name: "new", Schedule: "@hourly"})
		w.kill()
		on := w.watch(w.operator(), WatchOptions{Since: cursor})
		on.want("since", "job_owned job by app-2", "run_begun job a repeated", "run_ended job a ok repeated",
			"run_begun job b", "run_ended job b ok", "gap jobs 0", "job_submitted new", "gap instances 0", "watching")
		w.end(entryOfRun("c", history.StateOK))
		on.want("then", "run_begun job c", "run_ended job c ok")
	})
}

func TestWatchSomeJobs(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		on := w.watch(w.operator(), WatchOptions{Jobs: []string{"job"}})
		on.want("nor is there a group yet", "watching")
		w.submit(job.Job{Name: "other", Schedule: "@hourly"})
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.instance("app-1", "job")
		w.adopt("app-1", "job")
		on.want("one of two", "job_submitted job", "job_owned job by app-1")
		_, err := w.c.Cancel(w.Context(), "other")
		w.must(err)
		on.want("of the other")
		w.submit(job.Job{Name: "other", Schedule: "@hourly"})
		on.want("of the other")
		for _, o := range []WatchOptions{{Jobs: []string{"a/b"}}, {Since: -1}, {Pause: 2 * time.Hour}} {
			bad := w.watch(w.c, o)
			settle()
			if len(bad.events) > 0 || bad.err == nil {
				t.Errorf("%+v: %v, %v", o, bad.events, bad.err)
			}
		}
	})
}

// Jobs that the published sample created lack nodes; shards come later.
func TestWatchNodesThatComeLater(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.must(w.hand.conn.EnsureRoot(w.Context(), "/billing"))
		w.multi(zkcreate("/billing/plain", []byte("0 0 * * * ?")))
		on := w.watch(w.operator(), WatchOptions{})
		on.want("at first", "watching")
		for _, node := range w.c.tree.NewSlot("plain", 0) {
			w.multi(zkcreate(node.Path, node.Data))
		}
		w.adopt("app-1", "plain")
		on.want("its nodes were created", "job_owned plain by app-1")

		w.submit(job.Job{Name: "wide", Schedule: "@hourly", Shards: 2})
		var ops []zkconn.Op
		for _, node := range w.c.tree.NewShard("wide[1]", 1) {
			ops = append(ops, zkcreate(node.Path, node.Data))
		}
		w.multi(ops...)
		w.adopt("app-1", "wide[1]")
		on.want("a shard", "job_submitted wide", "job_owned wide[1] by app-1")
		w.submit(job.Job{Name: "all", Schedule: "@hourly", Everywhere: true})
		on.want("on every instance", "job_submitted all")
		ops = nil
		for _, node := range w.c.tree.NewShard("all/app-1", 1) {
			ops = append(ops, zkcreate(node.Path, node.Data))
		}
		w.multi(ops...)
		w.adopt("app-1", "all/app-1")
		on.want("there", "job_owned all/app-1 by app-1")
		w.ends("all/app-1", "a")
		on.want("a run there", "run_begun all/app-1 a", "run_ended all/app-1 a ok")
		w.put(w.c.tree.Tick("plain"), []byte("zzz"))
		on.want("garbage", "gap plain record 0")
	})
}
