package singleworker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/health"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/latch"
	"github.com/swjobs/singleworker/singleworker/runlog"
	"github.com/swjobs/singleworker/singleworker/runlog/jsonl"
	"github.com/swjobs/singleworker/singleworker/swtest"
	"github.com/swjobs/singleworker/singleworker/web"
)

// The code of GUIDE.md, so that it is compiled: TestGoOnPages looks for it here.

var handlers = map[string]singleworker.Handler{
	"report": func(context.Context, *singleworker.Run) error { return nil },
}

func importFrom(context.Context, string, time.Time) error { return nil }
func process(context.Context, int, int) error             { return nil }
func work(context.Context, int64) error                   { return nil }

func _(m *singleworker.Manager) error {
	err := m.Handle("import", singleworker.JSONHandler(
		func(ctx context.Context, run *singleworker.Run, p struct{ Bucket string }) error {
			return importFrom(ctx, p.Bucket, run.Tick)
		}))
	return err
}

func _(m *singleworker.Manager) (err error) {
	err = m.Schedule(singleworker.Job{Name: "flush-cache", Schedule: "0 */5 * * * ?", Everywhere: true})
	return err
}

func _(m *singleworker.Manager) error {
	err := m.Schedule(singleworker.Job{
		Name: "rows", Schedule: "0 * * * * ?", Shards: 6,
		ShardParameters: map[int]string{0: "Beijing", 1: "Shanghai"}, // if numbers are not enough
	})
	if err != nil {
		return err
	}
	err = m.Handle("rows", func(ctx context.Context, run *singleworker.Run) error {
		return process(ctx, run.Shard.Index, run.Shard.Total) // rows with id % Total == Index
	})
	return err
}

func _(m *singleworker.Manager) error {
	err := m.Schedule(singleworker.Job{
		Name: "invoices", Schedule: "@hourly", HungAfter: 20 * time.Minute,
		Notify: map[string][]job.NotifyKind{"billing-team": {job.NotifyFailed, job.NotifyHung, job.NotifyRecovered}, "audit": {}},
	})
	if err != nil {
		return err
	}
	return nil
}

func emptied(context.Context, time.Time) (bool, error) { return false, nil }

func _(m *singleworker.Manager) (err error) {
	err = m.Handle("load", func(ctx context.Context, run *singleworker.Run) error {
		switch full, err := emptied(ctx, run.Tick); {
		case err != nil:
			return err // the run of shard 0 has failed, and is retried as any
		case full:
			return fmt.Errorf("the last load is still in use: %w", singleworker.ErrRefuseTick)
		}
		return nil // the shards begin
	})
	if err != nil {
		return err
	}
	err = m.Schedule(singleworker.Job{Name: "rows", Schedule: "0 * * * * ?", Shards: 6, BeforeTick: "load"})
	return err
}

func pay(effects *swtest.Effects) singleworker.Handler {
	return func(ctx context.Context, run *singleworker.Run) error {
		err := effects.AppendOnce(ctx, run, run.Slot+run.Tick.String())
		if errors.Is(err, swtest.ErrDone) {
			return nil
		}
		return err
	}
}

func TestPayments(t *testing.T) {
	t.Parallel()
	swtest.Explore(t, swtest.Plan{
		Jobs: []singleworker.Job{{Name: "pay", Schedule: "@daily", Retries: 3}},
		Handlers: func(p swtest.Process) map[string]singleworker.Handler {
			return map[string]singleworker.Handler{"pay": pay(p.World.Effects)}
		},
		Check: func(w *swtest.World) error { return w.Complete("pay") },
		Seeds: 10,
	})
}

func TestTakeover(t *testing.T) {
	t.Parallel()
	c := swtest.New(t, swtest.Config{})
	one := c.Start("one", handlers, singleworker.Job{Name: "report", Schedule: "* * * * * ?"})
	c.AwaitOwner("report", "one")
	c.Start("two", handlers)
	one.Kill()
	c.AwaitOwner("report", "two")
	c.AwaitRuns("report", 1)
	c.AssertOnce("report")
}

func _(ctx context.Context) error {
	l, err := latch.New(latch.Config{Servers: "zk1:2181,zk2:2181/prod", Path: "/billing/leader"})
	if err != nil {
		return err
	}
	err = l.Lead(ctx, func(ctx context.Context) error {
		term, _ := latch.TermFrom(ctx)
		return work(ctx, term.Token) // on one process at a time; ctx ends when leadership is lost
	})
	return err
}

func _(m *singleworker.Manager) {
	http.Handle("/livez", health.Handler(m))
	http.Handle("/readyz", health.Handler(m))
}

func tellTeam(string, history.State, string) {}

func _(ctx context.Context, client *admin.Client) error {
	for ev, err := range client.Watch(ctx, admin.WatchOptions{}) {
		if err != nil {
			return err // only when ctx is done, or access is denied: it outlives lost connections and sessions
		}
		if ev.Kind == admin.EventRunEnded && !ev.Entry.OK() {
			tellTeam(ev.Job, ev.Entry.State, ev.Entry.Error) // yours
		}
	}
	return nil
}

func _(ctx context.Context, client *admin.Client) error {
	store, err := jsonl.Open("/var/lib/billing", jsonl.Options{})
	if err != nil {
		return err
	}
	return runlog.Run(ctx, client, store, runlog.Options{Group: "billing", Keep: 90 * 24 * time.Hour}) // client: an *admin.Client, as of admin.Dial or admin.On(m)
}

func _(client *admin.Client) (http.Handler, error) {
	pages, err := web.Handler(client, web.Options{
		AllowActions: true, Logger: slog.Default(),
		Authorize: func(r *http.Request, a web.Action) (by string, err error) {
			user := userOf(r) // as your login knows it
			if a.Verb == "cancel" && !user.admin {
				return user.name, errors.New("only admins cancel jobs")
			}
			return user.name, nil
		},
	})
	return pages, err
}

type user struct {
	name  string
	admin bool
}

func userOf(*http.Request) (of user) { return of }

func onlyOperators(pages http.Handler) http.Handler { return pages }

func _(client *admin.Client, mux *http.ServeMux) error {
	pages, err := web.Handler(client, web.Options{Title: "billing"}) // client: an *admin.Client, as of admin.Dial or admin.On(m)
	if err != nil {
		return err
	}
	mux.Handle("/admin/jobs/", http.StripPrefix("/admin/jobs", onlyOperators(pages)))
	return nil
}
