package sim

import (
	"context"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
)

const session = 10 * time.Second

// scene is a cluster of two, a and b, and one job.
type scene struct {
	*swtest.Cluster

	t        *testing.T
	schedule string
	brief    bool          // the handler does next to nothing
	clock    wall.Clock    // of the machines
	clockOfA bool          // clock is that of a alone
	latch    bool          // instances are in latch mode
	relieve  bool          // instances take idle jobs from owners that live, too
	limit    time.Duration // MaxClockOffset, which breach.anyClock ignores
	witness
}

const job = "job"

func (s *scene) start(name string, b *breach) *swtest.Instance {
	clock := s.clock
	if s.clockOfA && name != "a" {
		clock = nil
	}
	return s.Start(name, swtest.Setup{
		Dial: s.dial(name, b), Wall: clock,
		Handlers: map[string]singleworker.Handler{job: func(ctx context.Context, _ *singleworker.Run) error {
			if s.brief {
				return nil
			}
			<-ctx.Done() // shows how long the right to run lasts
			return context.Cause(ctx)
		}},
		Configure: func(cfg *singleworker.Config) {
			s.listen(name, &cfg.Hooks)
			if !s.relieve {
				cfg.ClaimGrace = singleworker.NoTakeovers
			}
			if cfg.MaxClockOffset = s.limit; b.anyClock {
				cfg.MaxClockOffset = singleworker.NoClockLimit
			}
			if s.latch {
				cfg.Mode = singleworker.LatchMode
			}
		},
	})
}

// begin submits the job, and waits until a alone owns it and b is there.
func (s *scene) begin(ofA, ofB *breach) (a, b *swtest.Instance) {
	if err := s.Submit(s.t.Context(), singleworker.Job{Name: job, Schedule: s.schedule}); err != nil {
		s.t.Fatal(err)
	}
	a = s.start("a", ofA)
	time.Sleep(session)
	b = s.start("b", ofB)
	time.Sleep(session)
	if owner := s.Owners()[job]; owner != "a" {
		s.t.Fatalf("%q owns the job, want a", owner)
	}
	return a, b
}

// end is the evidence so far, once everybody has stopped.
func (s *scene) end() evidence {
	s.Close()
	e := s.evidence(s.Cluster, session)
	e.latch, e.aheadMost = s.latch, s.limit
	return e
}
