package sim

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// freeze freezes the group for a while, half of the times but for a job. Half of the freezes end by
// themselves. It is left out of worlds whose ZooKeeper may give it a wrong time.
func (w *world) freeze(except string) {
	if w.Clocks {
		return
	}
	d := w.upTo(2*w.Session) + time.Second
	opts := admin.FreezeOptions{PauseOptions: admin.PauseOptions{Missed: []jobs.MisfirePolicy{"", "skip", "once", "all"}[w.rng.IntN(4)], By: "sim"}}
	if w.rng.IntN(2) == 0 {
		opts.Except = []string{except}
	}
	lasts := w.rng.IntN(2) == 0
	if !lasts {
		opts.For = d
	}
	operate := func(what string, f func(ctx context.Context, c *admin.Client) error) {
		w.operate(what, func(ctx context.Context) error {
			return w.cluster.Operate(ctx, func(c *admin.Client) error {
				return unless(f(ctx, c), admin.ErrNotFound, admin.ErrNoGroup, admin.ErrConflict)
			})
		})
	}
	operate("freeze", func(ctx context.Context, c *admin.Client) error {
		_, err := c.Freeze(ctx, opts)
		return err
	})
	if lasts {
		w.after(d, func() {
			operate("unfreeze", func(ctx context.Context, c *admin.Client) error {
				_, err := c.Unfreeze(ctx, admin.ResumeOptions{Missed: opts.Missed})
				return err
			})
		})
	}
}

// isFrozen reports whether the group of a slot is frozen at a time, without its job.
func isFrozen(m *swtest.Model, slot string, t time.Time) bool {
	for _, span := range m.Freeze.Of(zkrec.JobOfSlot(slot)) {
		if span.Covers(t) {
			return true
		}
	}
	return false
}

// frozenCrowd has a claim on its way when the group is frozen: it arrives after the freeze was
// acknowledged, and must be refused because of the version of the freeze.
func frozenCrowd(s *scene, b *breach) {
	s.brief = true
	owner, _ := s.begin(b, &breach{})
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
	if err := s.Operate(s.t.Context(), func(client *admin.Client) error {
		_, err := client.Freeze(s.t.Context(), admin.FreezeOptions{})
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(session)
	if err := s.Operate(s.t.Context(), func(client *admin.Client) error {
		done, err := client.Unfreeze(s.t.Context(), admin.ResumeOptions{})
		if err == nil && done.Outcome != admin.OutcomeUnfrozen {
			err = errors.New(string(done.Outcome) + ", want unfrozen")
		}
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(session)
}

// unfrozen has claims not check the freeze.
func unfrozen(op zkdev.Op, path string, version int32) (string, int32) {
	if op == zkdev.OpCheck && strings.HasSuffix(path, "/_freeze") {
		return path, -1
	}
	return path, version
}
