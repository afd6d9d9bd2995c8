// Package otel makes a span of each run with OpenTelemetry. It is a separate module, so that the
// library links no tracing.
//
//	cfg.Middleware = otel.Middleware(otel.Options{ServerType: cfg.ServerType})
//	cfg.Logger = slog.New(otel.LogHandler(slog.NewJSONHandler(os.Stderr, nil)))
//
// Since OpenTelemetry's own package has the same name, programs that need both import it as swotel.
//
// A run is the root of a trace: nobody waits for it, and a span in the context of Manager.Run is
// not its parent. Its span is named "run" and the job, begins and ends with the handler, and has
// these attributes, except that attributes of shards and manual runs are left out if they say
// nothing:
//
//	singleworker.server_type      the group, as Options says
//	singleworker.job.name         the job
//	singleworker.shard.index      the shard
//	singleworker.run.id           as in the log and in swctl history
//	singleworker.run.tick         the scheduled time, RFC 3339, in the job's zone
//	singleworker.run.attempt      from 1
//	singleworker.run.manual       true if somebody asked for it
//	singleworker.run.token        the fencing token
//	singleworker.run.cause        why its context ended before the handler returned, if it did
//	singleworker.instance.id      where it ran
//
// The handler that Job.BeforeTick names has its own span, too: "before tick of" and the job.
//
// An error of the handler is recorded, and is the span's status, unless the run ended because its
// instance stops or the job moves.
//
// # Attempts
//
// Each attempt at a tick is a run, and so has a trace. From the second one on, its span links to
// the span of the attempt before: a retry on the same instance always, a rerun on another one if
// the tracer provider makes its IDs with [NewIDGenerator] on both. Then the IDs follow from the
// group, the job, the tick and the attempt, so that each instance knows the IDs of the others'
// spans.
//
// # Logs
//
// [LogHandler] adds trace_id and span_id to records that are logged with the context of a span:
// Run.Logger().InfoContext(ctx, ...).
package otel
