package otel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/swjobs/singleworker/singleworker"
)

// Options configures Middleware.
type Options struct {
	// ServerType is singleworker.Config.ServerType. Default: none, which is right while a provider
	// sees one group alone.
	ServerType string
	// TracerProvider makes the spans. Default: OpenTelemetry's global one.
	TracerProvider trace.TracerProvider
}

// scope names this package as the maker of the spans.
const scope = "github.com/swjobs/singleworker/singleworker/otel"

// Middleware returns a singleworker.Config.Middleware that makes a span of each run, and passes it
// to the handler in its context.
func Middleware(opts Options) func(singleworker.Handler) singleworker.Handler {
	provider := opts.TracerProvider
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	t := &tracer{
		tracer: provider.Tracer(scope, trace.WithInstrumentationVersion(singleworker.Version())), group: opts.ServerType, attempts: newAttempts(),
	}
	return func(next singleworker.Handler) singleworker.Handler {
		return func(ctx context.Context, run *singleworker.Run) error { return t.run(ctx, run, next) }
	}
}

type tracer struct {
	tracer   trace.Tracer
	group    string
	attempts *attempts
}

// run calls the handler in a span.
func (t *tracer) run(ctx context.Context, run *singleworker.Run, next singleworker.Handler) error {
	id := identity{t.group, run}
	var links []trace.Link
	if before, ok := t.attempts.before(run); ok {
		links = append(links, trace.Link{SpanContext: before})
	}
	name := "run " + run.Job
	if run.BeforeTick {
		name = "before tick of " + run.Job
	}
	ctx, span := t.tracer.Start(context.WithValue(ctx, identityKey{}, id), name,
		trace.WithNewRoot(), trace.WithLinks(links...), trace.WithAttributes(t.attributes(run)...))
	defer span.End() // records a panic
	ctx = context.WithValue(ctx, identityKey{}, nil)
	if before, ok := id.before(span.SpanContext()); ok && links == nil {
		span.AddLink(trace.Link{SpanContext: before})
	}
	t.attempts.began(run, span.SpanContext())
	returned := false
	defer func() {
		if !returned {
			span.SetStatus(codes.Error, "the handler panicked, or ended its goroutine")
		}
	}()
	err := next(ctx, run)
	returned = true
	t.ended(ctx, span, run, err)
	return err
}

// ended notes how a run ended.
func (t *tracer) ended(ctx context.Context, span trace.Span, run *singleworker.Run, err error) {
	cause := context.Cause(ctx)
	if cause != nil {
		span.SetAttributes(attribute.String("singleworker.run.cause", cause.Error()))
	}
	switch {
	case err == nil:
		t.attempts.succeeded(run)
	case errors.Is(cause, singleworker.ErrStopping), errors.Is(cause, singleworker.ErrMoved):
	default:
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
}

func (t *tracer) attributes(run *singleworker.Run) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		attribute.String("singleworker.job.name", run.Job), attribute.String("singleworker.run.id", run.ID),
		attribute.String("singleworker.run.tick", run.Tick.Format(time.RFC3339)), attribute.Int("singleworker.run.attempt", run.Attempt),
		attribute.Int64("singleworker.run.token", run.Token), attribute.String("singleworker.instance.id", run.InstanceID),
	}
	if t.group != "" {
		attrs = append(attrs, attribute.String("singleworker.server_type", t.group))
	}
	if run.Shard.Total > 1 {
		attrs = append(attrs, attribute.Int("singleworker.shard.index", run.Shard.Index))
	}
	if run.Manual {
		attrs = append(attrs, attribute.Bool("singleworker.run.manual", true))
	}
	return attrs
}
