package sim

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
)

const session = 10 * time.Second

// scene is a cluster of two, a and b, and one job.
type scene struct {
	*swtest.Cluster

	t        *testing.T
	schedule string
	brief    bool // the handler does next to nothing
	mu       sync.Mutex
	hooks    []adoption
	told     []completion
	forced   []forced

	unrecorded map[string]bool
}

const job = "job"

func (s *scene) start(name string, b *breach) *swtest.Instance {
	return s.Start(name, swtest.Setup{
		Dial: b.dial,
		Handlers: map[string]singleworker.Handler{job: func(ctx context.Context, _ *singleworker.Run) error {
			if s.brief {
				return nil
			}
			<-ctx.Done() // shows how long the right to run lasts
			return context.Cause(ctx)
		}},
		Configure: func(cfg *singleworker.Config) {
			cfg.Hooks.OnOwned = func(o singleworker.Ownership) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.hooks = append(s.hooks, adoption{o.Job, o.Shard.Index, name, o.Token, time.Now()})
			}
			cfg.Hooks.OnTickComplete = func(r singleworker.TickResult) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.told = append(s.told, completion{name, time.Now(), r})
			}
			cfg.Hooks.OnRunEnd = func(r singleworker.RunResult) {
				s.mu.Lock()
				defer s.mu.Unlock()
				note(&s.unrecorded, r)
			}
		},
	})
}

// note keeps the ids of runs whose results were not recorded.
func note(unrecorded *map[string]bool, r singleworker.RunResult) {
	if r.Unrecorded == nil {
		return
	}
	if *unrecorded == nil {
		*unrecorded = make(map[string]bool)
	}
	(*unrecorded)[r.ID] = true
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

// evidence is what has happened so far, once everybody has stopped.
func (s *scene) evidence() evidence {
	s.Close()
	return evidence{
		tree: s.Tree(), session: session, log: s.Server.Log(), runs: s.Runs(), rights: s.Rights(), hooks: s.hooks, told: s.told,
		forced: s.forced, unrecorded: s.unrecorded,
	}
}

// check runs the checker on it.
func (s *scene) check() []violation {
	found, _ := check(s.evidence())
	return found
}
