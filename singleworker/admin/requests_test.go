package admin

import (
	"errors"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// wantAsked expects these requests: "run by ann", "run 0198 by ann" for one in progress.
func wantAsked(t *testing.T, what string, got []Request, want ...string) {
	t.Helper()
	var texts []string
	for _, r := range got {
		text := r.Slot + ": " + r.Kind
		if r.RunID != "" {
			text += " " + r.RunID
		}
		texts = append(texts, text+" by "+r.By)
	}
	if strings.Join(texts, ", ") != strings.Join(want, ", ") {
		t.Errorf("%s: %q, want %q", what, texts, want)
	}
}

// trigger asks for a manual run of a job.
func (w *world) trigger(name, by string) (id string) {
	w.Helper()
	result, err := w.c.Trigger(w.Context(), name, TriggerOptions{By: by, WaitForHandler: true})
	w.must(err)
	return result.ID
}

func (w *world) asked(name string) []Request {
	w.Helper()
	list, err := w.c.Requests(w.Context(), name)
	w.must(err)
	return list
}

func TestCancelRequests(t *testing.T) {
	t.Parallel()
	for what, action := range map[string]func() zkdev.Action{"": zkdev.Pass, "reply lost": zkdev.CutAfter, "request lost": zkdev.CutBefore} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				token := w.owned(job.Job{Name: "job", Schedule: "@hourly"})
				begun := w.trigger("job", "ann")
				w.claim(zkrec.Run{Manual: begun, RunID: "r1", Token: token, Attempt: 1})
				w.trigger("job", "bob")
				third := w.trigger("job", "cid")
				w.multi(zkcreate(w.c.tree.Request("job", "zz"), []byte("garbage")))
				wantAsked(t, "all", w.asked("job"), "job: run r1 by ann", "job: run by bob", "job: run by cid", "job:  by ")
				w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return action() })
				taken, err := w.c.CancelRequests(w.Context(), "job", third)
				wantAsked(t, "one", taken, "job: run by cid")
				w.must(err)
				w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return action() })
				taken, err = w.c.CancelRequests(w.Context(), "job", "")
				wantAsked(t, "the rest", taken, "job: run by bob")
				w.must(err)
				taken, err = w.c.CancelRequests(w.Context(), "job", "")
				wantAsked(t, "nothing", taken)
				w.must(err)
				wantAsked(t, "left", w.asked("job"), "job: run r1 by ann", "job:  by ")
			})
		})
	}
}

// A run that starts while its request is being canceled keeps it.
func TestRunStartsWhileItsRequestIsCanceled(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		token := w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		id := w.trigger("job", "ann")
		first := true
		w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action {
			if first {
				first = false
				go w.claim(zkrec.Run{Manual: id, RunID: "r1", Token: token, Attempt: 1})
				return zkdev.Delay(1)
			}
			return zkdev.Pass()
		})
		taken, err := w.c.CancelRequests(w.Context(), "job", "")
		wantAsked(t, "taken", taken)
		w.must(err)
		wantAsked(t, "left", w.asked("job"), "job: run r1 by ann")
	})
}

func TestRequestsOfShards(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly", Shards: 3})
		w.instance("app-1", "job")
		wantAsked(t, "before there are any", w.asked("job"))
		w.trigger("job", "ann")
		w.trigger("job[1]", "bob")
		wantAsked(t, "all", w.asked("job"), "job[0]: run by ann", "job[1]: run by ann", "job[1]: run by bob", "job[2]: run by ann")
		wantAsked(t, "of one", w.asked("job[1]"), "job[1]: run by ann", "job[1]: run by bob")
		taken, err := w.c.CancelRequests(w.Context(), "job[1]", "")
		wantAsked(t, "of one", taken, "job[1]: run by ann", "job[1]: run by bob")
		w.must(err)
		taken, err = w.c.CancelRequests(w.Context(), "job", "")
		wantAsked(t, "the rest", taken, "job[0]: run by ann", "job[2]: run by ann")
		w.must(err)
		for name, want := range map[string]error{"nobody": ErrNotFound, "job[3]": ErrNoShard} {
			_, listErr := w.c.Requests(w.Context(), name)
			_, takeErr := w.c.CancelRequests(w.Context(), name, "")
			if !errors.Is(listErr, want) || !errors.Is(takeErr, want) {
				t.Errorf("%s: %v, %v; want %v", name, listErr, takeErr, want)
			}
		}
	})
}
