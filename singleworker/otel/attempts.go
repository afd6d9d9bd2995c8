package otel

import (
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/swjobs/singleworker/singleworker"
)

// maxRemembered limits the slots of which the latest run is remembered. A run that succeeds is
// forgotten.
const maxRemembered = 10_000

// attempts remembers the span of the latest run of each slot, for the next attempt to link to. Safe
// for concurrent use.
type attempts struct {
	mu     sync.Mutex
	latest map[slot]attempt
}

type slot struct {
	job    string
	before bool // BeforeTick
	shard  int
}

type attempt struct {
	tick   time.Time
	manual bool
	span   trace.SpanContext
}

func newAttempts() *attempts { return &attempts{latest: make(map[slot]attempt)} }

func slotOf(run *singleworker.Run) slot { return slot{run.Job, run.BeforeTick, run.Shard.Index} }

// before returns the span of the attempt before, if it was made here.
func (a *attempts) before(run *singleworker.Run) (trace.SpanContext, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, known := a.latest[slotOf(run)]
	if !known || run.Attempt < 2 || last.manual != run.Manual || !last.tick.Equal(run.Tick) {
		return trace.SpanContext{}, false
	}
	return last.span, true
}

func (a *attempts) began(run *singleworker.Run, span trace.SpanContext) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for old := range a.latest {
		if len(a.latest) < maxRemembered {
			break
		}
		delete(a.latest, old)
	}
	a.latest[slotOf(run)] = attempt{run.Tick, run.Manual, span}
}

func (a *attempts) succeeded(run *singleworker.Run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.latest, slotOf(run))
}
