package otel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/history"
	swotel "github.com/swjobs/singleworker/singleworker/otel"
	"github.com/swjobs/singleworker/singleworker/swtest"
)

// instance is a Manager in virtual time whose spans are kept.
type instance struct {
	manager *singleworker.Manager
	spans   *tracetest.InMemoryExporter
	stop    func()
}

// start starts a Manager that runs job at every full minute.
func start(t *testing.T, c *swtest.Cluster, name string, job singleworker.Job, h singleworker.Handler, opts ...sdktrace.TracerProviderOption) *instance {
	t.Helper()
	i := &instance{spans: tracetest.NewInMemoryExporter()}
	provider := sdktrace.NewTracerProvider(append(opts, sdktrace.WithSyncer(i.spans))...)
	cfg := c.ManagerConfig(name)
	cfg.Logger, cfg.StopGrace = slog.New(slog.DiscardHandler), singleworker.NoGrace
	cfg.Middleware = swotel.Middleware(swotel.Options{ServerType: cfg.ServerType, TracerProvider: provider})
	m, err := singleworker.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	job.Schedule = "0 * * * * ?"
	if err := errors.Join(m.Handle(job.Name, h), m.Schedule(job)); err != nil {
		t.Fatal(err)
	}
	// A span in the context of Run is no parent of the runs.
	ctx, outer := sdktrace.NewTracerProvider().Tracer("test").Start(context.Background(), "outer")
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	i.manager, i.stop = m, sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		outer.End()
	})
	t.Cleanup(i.stop)
	if err := m.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return i
}

func newCluster(t *testing.T) *swtest.Cluster {
	t.Helper()
	return swtest.New(t, swtest.Config{SessionTimeout: 10 * time.Second})
}

// runs lists the spans of runs so far.
func (i *instance) runs() []tracetest.SpanStub {
	return slices.DeleteFunc(slices.Clone([]tracetest.SpanStub(i.spans.GetSpans())), func(s tracetest.SpanStub) bool {
		return !strings.HasPrefix(s.Name, "run ")
	})
}

func attributes(s tracetest.SpanStub) map[string]string {
	all := make(map[string]string)
	for _, a := range s.Attributes {
		all[strings.TrimPrefix(string(a.Key), "singleworker.")] = a.Value.String()
	}
	return all
}

// Each run is a trace, and its handler is inside the span.
func TestSpans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		i := start(t, newCluster(t), "app-1", singleworker.Job{Name: "report"}, func(ctx context.Context, run *singleworker.Run) error {
			tracer := trace.SpanFromContext(ctx).TracerProvider().Tracer("test")
			_, child := tracer.Start(ctx, "child")
			child.End()
			_, root := tracer.Start(ctx, "root", trace.WithNewRoot())
			root.End()
			time.Sleep(3 * time.Second)
			if run.Tick.Minute() == 2 {
				return errors.New("glass")
			}
			return nil
		}, sdktrace.WithIDGenerator(swotel.NewIDGenerator()))
		time.Sleep(time.Until(begun.Add(150 * time.Second)))
		runs := i.runs()
		if len(runs) != 2 {
			t.Fatalf("%d runs, want 2", len(runs))
		}
		ok, failed := runs[0], runs[1]
		if ok.Name != "run report" || ok.Parent.IsValid() || !ok.StartTime.Equal(begun.Add(time.Minute)) || ok.EndTime.Sub(ok.StartTime) != 3*time.Second || len(ok.Links) != 0 {
			t.Errorf("%+v", ok)
		}
		got := attributes(ok)
		if got["run.id"] == "" || got["run.token"] == "" {
			t.Errorf("attributes %v", got)
		}
		delete(got, "run.id")
		delete(got, "run.token")
		want := map[string]string{
			"server_type": "test", "job.name": "report", "run.tick": "2000-01-01T00:01:00Z", "run.attempt": "1", "instance.id": "app-1",
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("attributes %v, want %v", got, want)
		}
		if ok.Status.Code != codes.Unset || failed.Status.Code != codes.Error || failed.Status.Description != "glass" || len(failed.Events) != 1 {
			t.Errorf("status %v, then %v, %v", ok.Status, failed.Status, failed.Events)
		}
		ids := make(map[trace.SpanID]bool)
		for _, s := range i.spans.GetSpans() {
			inside := s.SpanContext.TraceID() == ok.SpanContext.TraceID() || s.SpanContext.TraceID() == failed.SpanContext.TraceID()
			if ids[s.SpanContext.SpanID()] || inside != (s.Name != "root") || (s.Name == "child") != s.Parent.IsValid() {
				t.Errorf("span %s: %+v, its parent %+v", s.Name, s.SpanContext, s.Parent)
			}
			ids[s.SpanContext.SpanID()] = true
		}
	})
}

// Each attempt links to the one before: retries on one instance, whatever makes the IDs.
func TestRetriesAreLinked(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]sdktrace.TracerProviderOption{
		"random IDs": nil, "IDs that follow": {sdktrace.WithIDGenerator(swotel.NewIDGenerator())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				job := singleworker.Job{Name: "report", Retries: 2, Shards: 2}
				i := start(t, newCluster(t), "app-1", job, func(_ context.Context, run *singleworker.Run) error {
					if run.Attempt < 3 {
						return errors.New("glass")
					}
					return nil
				}, opts...)
				time.Sleep(2*time.Minute + 30*time.Second)
				spans := make(map[string]trace.SpanContext)
				key := func(s tracetest.SpanStub, attempt string) string {
					a := attributes(s)
					return a["shard.index"] + " " + a["run.tick"] + " " + attempt
				}
				runs := i.runs()
				if len(runs) != 12 {
					t.Errorf("%d runs, want 3 attempts at 2 ticks of 2 shards", len(runs))
				}
				for _, s := range runs {
					attempt := attributes(s)["run.attempt"]
					before := map[string]string{"2": "1", "3": "2"}[attempt]
					switch {
					case before == "" && len(s.Links) != 0:
						t.Errorf("the first attempt links to %v", s.Links)
					case before != "" && (len(s.Links) != 1 || s.Links[0].SpanContext.SpanID() != spans[key(s, before)].SpanID() ||
						s.Links[0].SpanContext.TraceID() != spans[key(s, before)].TraceID()):
						t.Errorf("attempt %s links to %v, want %v", attempt, s.Links, spans[key(s, before)])
					}
					spans[key(s, attempt)] = s.SpanContext
				}
			})
		})
	}
}

// A run that another instance repeats links to the one that was interrupted, if IDs follow from the
// job, the tick and the attempt.
func TestRerunsElsewhereAreLinked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		handler := func(ctx context.Context, run *singleworker.Run) error {
			if run.Attempt > 1 {
				return nil
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}
		follow := sdktrace.WithIDGenerator(swotel.NewIDGenerator())
		first := start(t, c, "app-1", singleworker.Job{Name: "report"}, handler, follow)
		time.Sleep(30 * time.Second)
		second := start(t, c, "app-2", singleworker.Job{Name: "report"}, handler, follow)
		time.Sleep(45 * time.Second)
		if c.Owner("report") != "app-1" {
			t.Fatalf("%s owns the job, want app-1", c.Owner("report"))
		}
		first.stop()
		time.Sleep(10 * time.Second)
		before, after := first.runs(), second.runs()
		if len(before) != 1 || len(after) != 1 || len(after[0].Links) != 1 {
			t.Fatalf("%d runs, then %d, %+v", len(before), len(after), after)
		}
		if link := after[0].Links[0].SpanContext; link.SpanID() != before[0].SpanContext.SpanID() || link.TraceID() != before[0].SpanContext.TraceID() ||
			!link.IsSampled() || !link.IsRemote() {
			t.Errorf("links to %+v, want %+v", link, before[0].SpanContext)
		}
		if got := attributes(before[0])["run.cause"]; got != singleworker.ErrStopping.Error() || before[0].Status.Code != codes.Unset {
			t.Errorf("the interrupted run ended with cause %q, status %v", got, before[0].Status)
		}
	})
}

// The handler that is called before each tick has a span of its own, in a trace of its own.
func TestBeforeTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := start(t, newCluster(t), "app-1", singleworker.Job{Name: "rows", Shards: 2, BeforeTick: "load"},
			func(context.Context, *singleworker.Run) error { return nil }, sdktrace.WithIDGenerator(swotel.NewIDGenerator()))
		if err := i.manager.Handle("load", func(context.Context, *singleworker.Run) error { return nil }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*time.Minute + 30*time.Second)
		names, ids := make(map[string]int), make(map[trace.TraceID]bool)
		for _, s := range i.spans.GetSpans() {
			names[s.Name]++
			ids[s.SpanContext.TraceID()] = true
		}
		if names["run rows"] != 4 || names["before tick of rows"] != 2 || len(ids) != 6 {
			t.Errorf("spans %v, in %d traces; want 4 runs, and 2 before ticks, a trace each", names, len(ids))
		}
	})
}

// A panic is recorded, and is the library's to deal with.
func TestPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := start(t, newCluster(t), "app-1", singleworker.Job{Name: "report"}, func(context.Context, *singleworker.Run) error { panic("glass") })
		time.Sleep(70 * time.Second)
		runs := i.runs()
		if len(runs) != 1 || runs[0].Status.Code != codes.Error || len(runs[0].Events) != 1 || runs[0].Events[0].Name != "exception" {
			t.Errorf("%+v", runs)
		}
		if n := i.manager.Stats().Total.Runs[history.StateFailed]; n != 1 {
			t.Errorf("%d runs failed, want 1", n)
		}
	})
}

// A record that is logged in a span has its IDs, also from loggers derived from the first.
func TestLogHandler(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	log := slog.New(swotel.LogHandler(slog.NewJSONHandler(&text, nil)))
	ctx, span := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(swotel.NewIDGenerator())).Tracer("test").Start(t.Context(), "span")
	defer span.End()
	log.InfoContext(t.Context(), "outside")
	log.InfoContext(ctx, "inside")
	log.With("k", "v").WithGroup("g").InfoContext(ctx, "group")
	type line struct {
		Msg     string
		TraceID string `json:"trace_id"`
		SpanID  string `json:"span_id"`
		K       string
		G       *line
	}
	decoder := json.NewDecoder(&text)
	var lines [3]line
	for k := range lines {
		if err := decoder.Decode(&lines[k]); err != nil {
			t.Fatal(err)
		}
	}
	id := line{TraceID: span.SpanContext().TraceID().String(), SpanID: span.SpanContext().SpanID().String()}
	inside := id
	inside.Msg = "inside"
	if lines[0] != (line{Msg: "outside"}) || lines[1] != inside {
		t.Errorf("%+v", lines)
	}
	if g := lines[2].G; g == nil || *g != id || lines[2].K != "v" {
		t.Errorf("%+v", lines[2])
	}
	if log.Enabled(ctx, slog.LevelDebug) {
		t.Error("debug is enabled, and is not below")
	}
}

// Two runs that differ in anything have different IDs.
func TestIDsDiffer(t *testing.T) {
	t.Parallel()
	tick := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	runs := []singleworker.Run{
		{Job: "a", Tick: tick, Attempt: 1},
		{Job: "a", Tick: tick, Attempt: 2},
		{Job: "a", Tick: tick, Attempt: 1, Manual: true},
		{Job: "a", Tick: tick.Add(time.Second), Attempt: 1},
		{Job: "a", Tick: tick, Attempt: 1, Shard: singleworker.Shard{Index: 1, Total: 2}},
		{Job: "a", Tick: tick, Attempt: 1, Everywhere: true, InstanceID: "x"},
		{Job: "a", Tick: tick, Attempt: 1, Everywhere: true, InstanceID: "y"},
		{Job: "b", Tick: tick, Attempt: 1},
		{Job: "a", Tick: tick, Attempt: 1, BeforeTick: true},
	}
	ids := make(map[trace.TraceID]string)
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithIDGenerator(swotel.NewIDGenerator()))
	for _, group := range []string{"", "g"} {
		wrap := swotel.Middleware(swotel.Options{ServerType: group, TracerProvider: provider})
		for _, run := range runs {
			what := fmt.Sprintf("%s: %+v", group, run)
			for range 2 { // the same run has the same ID
				spans.Reset()
				if err := wrap(func(context.Context, *singleworker.Run) error { return nil })(t.Context(), &run); err != nil {
					t.Fatal(err)
				}
				id := spans.GetSpans()[0].SpanContext.TraceID()
				if other, used := ids[id]; used && other != what {
					t.Errorf("%s has the ID of %s", what, other)
				}
				ids[id] = what
			}
		}
	}
	if len(ids) != 2*len(runs) {
		t.Errorf("%d IDs of %d runs", len(ids), 2*len(runs))
	}
}
