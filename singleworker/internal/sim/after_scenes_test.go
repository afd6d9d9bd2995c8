package sim

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// child has a run the job, after the job first, which b runs.
func (s *scene) child(b *breach) (owner *swtest.Instance) {
	for _, of := range []jobs.Job{
		{Name: "first", Schedule: s.schedule},
		{Name: job, Schedule: "@after", After: []string{"first"}, Deadline: 5 * time.Second},
	} {
		if err := s.Submit(s.t.Context(), of); err != nil {
			s.t.Fatal(err)
		}
	}
	start := func(name, of string, b *breach) *swtest.Instance {
		return s.Start(name, swtest.Setup{
			Dial:      s.dial(name, b),
			Handlers:  map[string]singleworker.Handler{of: func(context.Context, *singleworker.Run) error { return nil }},
			Configure: func(cfg *singleworker.Config) { s.listen(name, &cfg.Hooks) },
		})
	}
	start("b", "first", &breach{})
	owner = start("a", job, b)
	time.Sleep(2 * time.Minute)
	return owner
}

// staleParent keeps the owner of a child from reading that the parent has come to have other ticks:
// to decide on a tick of before must be refused because of the version of the parent's spec.
func staleParent(s *scene, b *breach) {
	owner := s.child(b)
	var held atomic.Bool
	held.Store(true)
	s.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
		if held.Load() && r.Client == owner.Place() && strings.HasSuffix(r.Path, "/first") {
			return zkdev.Refuse(zkdev.OperationTimeout)
		}
		return zkdev.Pass()
	})
	err := s.Operate(s.t.Context(), func(c *admin.Client) error {
		_, err := c.Edit(s.t.Context(), "first", func(j *jobs.Job) error {
			j.Schedule = "30 * * * * ?"
			return nil
		}, admin.EditOptions{})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(2 * time.Minute)
	held.Store(false)
	time.Sleep(2 * time.Minute)
}

// parentOfBefore has a child's claim on its way when the parent is canceled and submitted again,
// with a spec of the same version: the claim must be refused, because the job that is there now has
// not run the tick.
func parentOfBefore(s *scene, b *breach) {
	owner := s.child(b)
	claiming := make(chan struct{})
	var once sync.Once
	s.onMulti(owner, func(r *zkdev.Request) (action zkdev.Action) {
		if isClaim(r) {
			once.Do(func() {
				action = zkdev.Delay(session / 4)
				close(claiming)
			})
		}
		return action
	})
	s.await(claiming)
	if err := s.Cancel(s.t.Context(), "first"); err != nil {
		s.t.Fatal(err)
	}
	if err := s.Submit(s.t.Context(), jobs.Job{Name: "first", Schedule: s.schedule}); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(2 * time.Minute)
}
