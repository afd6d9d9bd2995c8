package otel

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"

	"go.opentelemetry.io/otel/trace"

	"github.com/swjobs/singleworker/singleworker"
)

// IDGenerator makes the IDs of spans. A run's IDs follow from its group, job, tick and attempt, so
// that attempts on several instances can link to each other. All others are random. It implements
// sdk/trace.IDGenerator, and is safe for concurrent use.
type IDGenerator struct{}

// NewIDGenerator returns an IDGenerator, for sdk/trace.WithIDGenerator.
func NewIDGenerator() IDGenerator { return IDGenerator{} }

// NewIDs returns the IDs of a root span.
func (IDGenerator) NewIDs(ctx context.Context) (traceID trace.TraceID, spanID trace.SpanID) {
	if id, ok := ctx.Value(identityKey{}).(identity); ok {
		return id.ids(id.run.Attempt)
	}
	for !traceID.IsValid() {
		_, _ = rand.Read(traceID[:]) // never fails
	}
	return traceID, newSpanID()
}

// NewSpanID returns the ID of another span of a trace.
func (IDGenerator) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return newSpanID() }

func newSpanID() (id trace.SpanID) {
	for !id.IsValid() {
		_, _ = rand.Read(id[:])
	}
	return id
}

// identityKey is the key in the context from which the span of a run is started.
type identityKey struct{}

// identity is the source of a run's IDs.
type identity struct {
	group string
	run   *singleworker.Run
}

// ids are an attempt's at the run's tick.
func (id identity) ids(attempt int) (traceID trace.TraceID, spanID trace.SpanID) {
	r := id.run
	hash := sha256.New()
	text := func(s string) {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		hash.Write([]byte(s))
	}
	text(id.group)
	text(r.Job)
	where := ""
	if r.Everywhere {
		where = r.InstanceID
	}
	text(where)
	kind := int64(0)
	switch {
	case r.Manual:
		kind = 1
	case r.BeforeTick:
		kind = 2
	}
	for _, n := range []int64{int64(r.Shard.Index), r.Tick.UnixMilli(), kind, int64(attempt)} {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	sum := hash.Sum(nil)
	copy(traceID[:], sum)
	copy(spanID[:], sum[len(traceID):])
	return traceID, spanID
}

// before returns the span of the attempt before, if that follows from the span of this one: if the
// provider makes IDs with an IDGenerator.
func (id identity) before(span trace.SpanContext) (trace.SpanContext, bool) {
	traceID, spanID := id.ids(id.run.Attempt)
	if id.run.Attempt < 2 || span.TraceID() != traceID || span.SpanID() != spanID {
		return trace.SpanContext{}, false
	}
	traceID, spanID = id.ids(id.run.Attempt - 1)
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: span.TraceFlags(), Remote: true}), true
}
