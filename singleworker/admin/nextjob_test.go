package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/deletion"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// changes are what operators do to a job that is there: it is paused, and runs what somebody has
// asked for.
var changes = map[string]func(ctx context.Context, c *Client) error{
	"edit": func(ctx context.Context, c *Client) error {
		_, err := c.Edit(ctx, "job", changing(func(j *job.Job) { j.Schedule = "@daily" }), EditOptions{})
		return err
	},
	"replace": func(ctx context.Context, c *Client) error {
		_, err := c.Submit(ctx, job.Job{Name: "job", Schedule: "@daily"}, SubmitOptions{Replace: true})
		return err
	},
	"pause": func(ctx context.Context, c *Client) error {
		_, err := c.Pause(ctx, "job", PauseOptions{Reason: "another"})
		return err
	},
	"resume": func(ctx context.Context, c *Client) error {
		_, err := c.Resume(ctx, "job", ResumeOptions{})
		return err
	},
	"trigger": func(ctx context.Context, c *Client) error {
		_, err := c.Trigger(ctx, "job", TriggerOptions{})
		return err
	},
	"stop": func(ctx context.Context, c *Client) error {
		_, err := c.StopRun(ctx, "job", StopOptions{})
		return err
	},
	"repair": func(ctx context.Context, c *Client) error {
		nodes, err := c.Unreadable(ctx, "job")
		if err != nil || len(nodes) != 1 {
			return fmt.Errorf("%d nodes are unreadable: %w", len(nodes), err)
		}
		return c.Repair(ctx, "job", nodes)
	},
	"cancel": func(ctx context.Context, c *Client) error {
		_, err := c.Cancel(ctx, "job")
		return err
	},
}

// changeable makes a job that each of the changes changes. It has the same versions each time.
func (w *world) changeable() {
	w.Helper()
	_, err := w.hand.Submit(w.Context(), job.Job{Name: "job", Schedule: "@hourly"}, SubmitOptions{Pause: &PauseOptions{Reason: "one"}})
	w.must(err)
	w.multi(zkcreate(w.c.tree.Registration("job", "app-1"), nil))
	token := w.adopt("app-1", "job")
	w.claim(zkrec.Run{Tick: noon.UnixMilli(), RunID: fmt.Sprintf("run-%d", token), Token: token})
	w.put(w.c.tree.History("job"), []byte("garbage"))
}

// withChangeable starts an instance, and makes the job.
func (w *world) withChangeable() {
	w.Helper()
	w.submit(job.Job{Name: "other", Schedule: "@hourly"})
	w.instance("app-1", "other")
	w.changeable()
}

// all is the job's nodes with their content and versions.
func (w *world) all() map[string]string {
	w.Helper()
	paths, err := deletion.Below(w.Context(), w.hand.conn, w.c.tree.Job("job"))
	w.must(err)
	all := make(map[string]string)
	for _, path := range paths {
		data, stat, err := w.hand.conn.Get(w.Context(), path)
		w.must(err)
		if !stat.Ephemeral() {
			all[path] = fmt.Sprintf("%d %s", stat.Version, data)
		}
	}
	return all
}

// changed reports whether a transaction changes the job.
func changed(r *zkdev.Request) bool {
	for _, op := range r.Ops {
		if op.Op != zkdev.OpCheck && strings.HasPrefix(op.Path, "/billing/job") && len(r.Ops) > 1 {
			return true
		}
	}
	return len(r.Ops) == 1 && r.Ops[0].Op == zkdev.OpSetData
}

// another cancels the job, makes the next one of the name, and returns a function that expects that
// nothing happens to it.
func (w *world) another() (wantUnchanged func()) {
	w.Helper()
	if _, err := w.hand.Cancel(w.Context(), "job"); !errors.Is(err, ErrNotFound) { // the change may have been that
		w.must(err)
	}
	w.changeable()
	before := w.all()
	return func() {
		w.Helper()
		if after := w.all(); !maps.Equal(before, after) {
			w.Errorf("the next job of the name was\n%v, is\n%v", before, after)
		}
	}
}

// TestLateChangesLeaveTheNextJobAlone has each change slow on its way to the server. Its caller
// gives up, the job is canceled by somebody else, and another one is submitted under its name. Then
// the change arrives.
func TestLateChangesLeaveTheNextJobAlone(t *testing.T) {
	t.Parallel()
	for what, change := range changes {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				w.withChangeable()
				var late atomic.Bool
				w.server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
					if !changed(r) {
						return zkdev.Pass()
					}
					late.Store(true)
					return zkdev.Delay(5 * time.Second)
				})
				ctx, cancel := context.WithTimeout(w.Context(), time.Second)
				defer cancel()
				if err := change(ctx, w.c); !late.Load() || !errors.Is(err, ErrUnavailable) {
					t.Fatalf("%v, slow %v; want a change that is slow", err, late.Load())
				}
				wantUnchanged := w.another()
				time.Sleep(10 * time.Second)
				wantUnchanged()
			})
		})
	}
}

// TestRepeatedChangesLeaveTheNextJobAlone has the connection break when each change is made. Until
// there is another one, the job is canceled by somebody else, and another one is submitted under
// its name.
func TestRepeatedChangesLeaveTheNextJobAlone(t *testing.T) {
	t.Parallel()
	for what, change := range changes {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				w.withChangeable()
				made := make(chan struct{})
				w.server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
					if !changed(r) {
						return zkdev.Pass()
					}
					close(made)
					return zkdev.CutAfter()
				})
				w.server.Control(zkdev.OpConnect, func(*zkdev.Request) zkdev.Action { return zkdev.Delay(time.Second) })
				ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- change(ctx, w.c) }()
				select {
				case <-made:
				case err := <-ended:
					t.Fatalf("nothing was written: %v", err)
				}
				wantUnchanged := w.another()
				if err := <-ended; what != "cancel" && !errors.Is(err, ErrConflict) || what == "cancel" && err != nil {
					t.Errorf("%v; want a conflict, or, of a cancellation, nothing", err)
				}
				wantUnchanged()
			})
		})
	}
}
