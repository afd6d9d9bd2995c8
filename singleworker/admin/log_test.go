package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// entries is the log, each entry in a line without its time.
func (w *world) entries(opts LogOptions) (lines []string) {
	w.Helper()
	log, err := w.c.Log(w.Context(), opts)
	w.must(err)
	for _, e := range log {
		line := fmt.Sprintf("%s %s by %s from %s", e.Kind, strings.Join(append(e.Jobs, e.Where), " "), e.By, e.From)
		lines = append(lines, line+map[bool]string{true: ": "}[e.Reason != ""]+e.Reason)
	}
	return lines
}

// Every verb writes exactly one entry, in the transaction of its change, and none if it changes
// nothing.
func TestLogOfEachVerb(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.c.from = "root@vm"
		token := w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		w.claim(zkrec.Run{Tick: noon.UnixMilli(), RunID: "1", Token: token})
		var alone []string // transactions that have an entry and nothing else, or a second one
		w.server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			notes, others := 0, 0
			for _, op := range r.Ops {
				if strings.HasPrefix(op.Path, "/billing/_log/") {
					notes++
				} else {
					others++
				}
			}
			if notes > 1 || notes == 1 && others == 0 {
				alone = append(alone, fmt.Sprint(r.Ops))
			}
			return zkdev.Pass()
		})
		ctx := As(w.Context(), Who{By: "bob", Reason: "why\nnot"})
		set := func(j *job.Job) error { j.Retries = 3; return nil }
		host := Target{Host: "db8", Job: "job"}
		seen := w.entries(LogOptions{})
		for _, verb := range []struct {
			want string // the entry
			do   func() error
		}{
			{"set job  by bob from root@vm: why?not", func() error { _, err := w.c.Edit(ctx, "job", set, EditOptions{}); return err }},
			{"", func() error { _, err := w.c.Edit(ctx, "job", set, EditOptions{}); return err }},
			{"", func() error {
				_, err := w.c.Submit(ctx, job.Job{Name: "x", Schedule: "@daily"}, SubmitOptions{DryRun: true})
				return err
			}},
			{"submit x  by bob from root@vm: why?not", func() error {
				_, err := w.c.Submit(ctx, job.Job{Name: "x", Schedule: "@daily"}, SubmitOptions{})
				return err
			}},
			{"", func() error {
				_, err := w.c.Submit(ctx, job.Job{Name: "x", Schedule: "@daily"}, SubmitOptions{})
				return err
			}},
			{"replace x  by bob from root@vm: why?not", func() error {
				_, err := w.c.Submit(ctx, job.Job{Name: "x", Schedule: "@hourly"}, SubmitOptions{Replace: true})
				return err
			}},
			{"pause job  by alice from root@vm: db", func() error { _, err := w.c.Pause(ctx, "job", PauseOptions{By: "alice", Reason: "db"}); return err }},
			{"resume job  by bob from root@vm: why?not", func() error { _, err := w.c.Resume(ctx, "job", ResumeOptions{}); return err }},
			{"", func() error { _, err := w.c.Resume(ctx, "job", ResumeOptions{}); return err }},
			{"trigger job  by root@vm from root@vm", func() error { _, err := w.c.Trigger(w.Context(), "job", TriggerOptions{}); return err }},
			{"withdraw job  by bob from root@vm: why?not", func() error { _, err := w.c.CancelRequests(ctx, "job", ""); return err }},
			{"stop-run job  by carol from root@vm", func() error {
				short, cancel := context.WithTimeout(w.Context(), time.Second)
				defer cancel()
				if _, err := w.c.StopRun(short, "job", StopOptions{By: "carol"}); !errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("the run has not ended: %w", err)
				}
				return nil
			}},
			{"drain app-1 by alice from root@vm", func() error { _, err := w.c.Drain(w.Context(), "app-1", OrderOptions{By: "alice"}); return err }},
			{"", func() error { _, err := w.c.Drain(w.Context(), "app-1", OrderOptions{By: "alice"}); return err }},
			{"disable app-1 by alice from root@vm", func() error { _, err := w.c.Disable(w.Context(), "app-1", OrderOptions{By: "alice"}); return err }},
			{"enable app-1 by bob from root@vm: why?not", func() error { _, err := w.c.Enable(ctx, "app-1"); return err }},
			{"", func() error { _, err := w.c.Enable(ctx, "app-1"); return err }},
			{"disable job host db8 by alice from root@vm", func() error { _, err := w.c.DisableAt(w.Context(), host, OrderOptions{By: "alice"}); return err }},
			{"enable job host db8 by bob from root@vm: why?not", func() error { _, err := w.c.EnableAt(ctx, host); return err }},
			{"repair job  by bob from root@vm: why?not", func() error {
				w.put(w.c.tree.Tick("job"), []byte("garbage"))
				nodes, err := w.c.Unreadable(ctx, "job")
				return errors.Join(err, w.c.Repair(ctx, "job", nodes))
			}},
			{"cancel job  by bob from root@vm: why?not", func() error { _, err := w.c.Cancel(ctx, "job"); return err }},
			{"clear x  by bob from root@vm: why?not", func() error { _, err := w.c.Clear(ctx, ClearOptions{Jobs: 1, DespiteInstances: true}); return err }},
		} {
			if err := verb.do(); err != nil {
				t.Errorf("%s: %v", verb.want, err)
			}
			var more []string
			if verb.want != "" {
				more = []string{verb.want}
			}
			now := w.entries(LogOptions{})
			if want := slices.Concat(more, seen); !slices.Equal(now, want) {
				t.Fatalf("the log is\n%s\nwant\n%s", strings.Join(now, "\n"), strings.Join(want, "\n"))
			}
			seen = now
		}
		if len(alone) > 0 {
			t.Errorf("entries without what they tell, or two in one: %q", alone)
		}
		if of := w.entries(LogOptions{Job: "x"}); len(of) != 3 || len(w.entries(LogOptions{Job: "x", Max: 2})) != 2 {
			t.Errorf("of x: %q, want three entries", of)
		}
		if last := w.entries(LogOptions{Max: 2}); !slices.Equal(last, seen[:2]) {
			t.Errorf("the last two: %q", last)
		}
		log, err := w.c.Log(w.Context(), LogOptions{Max: 1})
		if w.must(err); !log[0].At.Equal(time.Now()) {
			t.Errorf("the last is of %v, want now", log[0].At)
		}
	})
}

// Writers at the same time do not refuse each other because of the log, and each entry is in it: a
// hundred of each kind at once, each with its own job or instance.
func TestLogOfManyAtOnce(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		const writers = 100
		ctx := w.Context()
		clients := make([]*Client, writers)
		for i := range clients {
			clients[i] = w.operator()
		}
		kinds := []struct {
			kind string
			do   func(c *Client, name string) error
		}{
			{"submit", func(c *Client, name string) error {
				_, err := c.Submit(ctx, job.Job{Name: name, Schedule: "@daily"}, SubmitOptions{})
				return err
			}},
			{"set", func(c *Client, name string) error {
				_, err := c.Edit(ctx, name, func(j *job.Job) error { j.Retries = 3; return nil }, EditOptions{})
				return err
			}},
			{"replace", func(c *Client, name string) error {
				_, err := c.Submit(ctx, job.Job{Name: name, Schedule: "@weekly"}, SubmitOptions{Replace: true})
				return err
			}},
			{"rollback", func(c *Client, name string) error {
				_, err := c.Rollback(ctx, name, 1, EditOptions{})
				return err
			}},
			{"pause", func(c *Client, name string) error { _, err := c.Pause(ctx, name, PauseOptions{}); return err }},
			{"resume", func(c *Client, name string) error { _, err := c.Resume(ctx, name, ResumeOptions{}); return err }},
			{"disable", func(c *Client, name string) error { _, err := c.Disable(ctx, name, OrderOptions{}); return err }},
			{"enable", func(c *Client, name string) error { _, err := c.EnableAt(ctx, Target{InstanceID: name}); return err }},
			{"cancel", func(c *Client, name string) error { _, err := c.Cancel(ctx, name); return err }},
			{"undelete", func(c *Client, name string) error { _, err := c.Undelete(ctx, name, UndeleteOptions{}); return err }},
		}
		for _, one := range kinds {
			var all sync.WaitGroup
			for i, c := range clients {
				all.Go(func() {
					if err := one.do(c, fmt.Sprintf("job-%d", i)); err != nil {
						t.Errorf("%s: %v", one.kind, err)
					}
				})
			}
			all.Wait()
		}
		log, err := w.c.Log(ctx, LogOptions{})
		w.must(err)
		of := make(map[string]map[string]bool)
		for _, e := range log {
			if of[e.Kind] == nil {
				of[e.Kind] = make(map[string]bool)
			}
			of[e.Kind][strings.Join(e.Jobs, " ")+e.Where] = true
		}
		for _, one := range kinds {
			if n := len(of[one.kind]); n != writers {
				t.Errorf("%d entries of %s, want %d", n, one.kind, writers)
			}
		}
		if len(log) != len(kinds)*writers {
			t.Errorf("%d entries, want %d", len(log), len(kinds)*writers)
		}
	})
}

// A change whose answer was lost is in the log once, although it was tried again.
func TestLogAfterALostAnswer(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.submit(job.Job{Name: "gone", Schedule: "@hourly"})
		before := len(w.entries(LogOptions{}))
		for what, do := range map[string]func() error{
			"pause": func() error { _, err := w.c.Pause(w.Context(), "job", PauseOptions{}); return err },
			"submit": func() error {
				_, err := w.c.Submit(w.Context(), job.Job{Name: "new", Schedule: "@daily"}, SubmitOptions{})
				return err
			},
			"cancel":  func() error { _, err := w.c.Cancel(w.Context(), "gone"); return err },
			"disable": func() error { _, err := w.c.Disable(w.Context(), "app-1", OrderOptions{}); return err },
			"trigger": func() error {
				_, err := w.c.Trigger(w.Context(), "job", TriggerOptions{WaitForHandler: true})
				return err
			},
		} {
			w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return zkdev.CutAfter() })
			w.must(do())
			if now := w.entries(LogOptions{}); len(now) != before+1 || !strings.HasPrefix(now[0], what+" ") {
				t.Errorf("%s: the log has %d entries, want %d, the last of them this: %q", what, len(now), before+1, now[0])
			}
			before++
		}
	})
}

// The oldest changes go when there are too many, and requests are counted apart.
func TestLogIsPruned(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "first", Schedule: "@hourly"})
		note := func(kind string) zkconn.Op {
			d := zkrec.Deed{Kind: kind, Jobs: []string{"job"}}
			return zkconn.CreateSequentialOp(w.c.tree.NewDeed(d), d.Encode())
		}
		w.multi(note(zkrec.DeedStop))
		const more = 100
		for range (zkrec.MaxDeeds + more) / more {
			w.multi(slices.Repeat([]zkconn.Op{note(zkrec.DeedSet)}, more)...)
		}
		w.multi(zkcreate(w.c.tree.Deeds()+"/manual", nil))
		for i := range 64 { // one of them prunes
			w.submit(job.Job{Name: fmt.Sprint("job-", i), Schedule: "@hourly"})
		}
		all := w.entries(LogOptions{})
		count := func(kind string) (n int) {
			for _, line := range all {
				if strings.HasPrefix(line, kind+" ") {
					n++
				}
			}
			return n
		}
		changes := count("set") + count("submit")
		if changes < zkrec.MaxDeeds || changes >= zkrec.MaxDeeds+64 || count("stop-run") != 1 || count("submit") != 64 || count("unreadable") != 1 {
			t.Errorf("%d changes, %d submitted, %d stopped, %d unreadable", changes, count("submit"), count("stop-run"), count("unreadable"))
		}
	})
}

// What cannot be noted is not done, and the error says so.
func TestLogThatMayNotBeWritten(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.server.ControlKeep(zkdev.OpCreate, func(r *zkdev.Request) zkdev.Action {
			if r.Path == w.c.tree.Deeds() {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		})
		_, err := w.c.Submit(w.Context(), job.Job{Name: "job", Schedule: "@hourly"}, SubmitOptions{})
		if !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "nothing was changed, for who does it cannot be noted below /billing/_log") {
			t.Errorf("submit: %v", err)
		}
		if names, err := w.c.Names(w.Context()); err != nil || len(names) > 0 {
			t.Errorf("jobs %q, %v; want none", names, err)
		}
	})
}

func TestSelf(t *testing.T) {
	t.Parallel()
	if name, host, ok := strings.Cut(Self(), "@"); !ok || name == "" || host == "" {
		t.Errorf("%q, want user@host", Self())
	}
}
