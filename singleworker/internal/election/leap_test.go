package election_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/election"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A clock that is set by more than the length of a lease ends no term of a leader that ZooKeeper
// knows: it says so at once. Until then Held is false. If ZooKeeper says nothing the term ends: a
// machine that was suspended shows the same picture.
func TestClockThatIsSetEndsNoTerm(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		looks  bool         // Held is asked at once, which notices the leap
		answer zkdev.Action // to the question
		ends   bool
	}{
		"the answer comes":                    {answer: zkdev.DelayReply(200 * time.Millisecond)},
		"the answer comes, and somebody asks": {answer: zkdev.DelayReply(200 * time.Millisecond), looks: true},
		"the answer is late":                  {answer: zkdev.DelayReply(300 * time.Millisecond), looks: true, ends: true},
		"ZooKeeper is silent":                 {answer: zkdev.DelayReply(time.Hour), ends: true},
	} {
		for _, phase := range []time.Duration{0, 222 * time.Millisecond, 444 * time.Millisecond, 666 * time.Millisecond} {
			t.Run(fmt.Sprint(what, " ", phase), func(t *testing.T) {
				scenario(t, func(w *world) {
					t := w.t
					a := w.start("a", setup{})
					time.Sleep(10*time.Second + phase)
					term, _ := a.Held()
					w.ControlKeep(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return tt.answer })
					at := time.Now()
					a.off.Store(int64(time.Hour))
					if _, held := a.Held(); tt.looks && held {
						t.Error("a leads by a lease that is over if its machine was suspended")
					}
					time.Sleep(time.Second)
					synctest.Wait()
					if tt.ends {
						first := w.led()[0]
						if wantCause(t, first, election.ErrLapsed); first.to.Sub(at) > time.Second || first.to.Sub(at) < 250*time.Millisecond {
							t.Errorf("the term ends %v after the leap", first.to.Sub(at))
						}
						return
					}
					again, err := a.Await(t.Context())
					if err != nil || again != term || !slices.Equal(w.order(), []string{"a"}) || !w.led()[0].to.IsZero() {
						t.Errorf("a leads with %v, %v, terms %+v; want %v, and one term", again, err, w.led(), term)
					}
				})
			})
		}
	}
}

// Who waits for a leader while ZooKeeper is asked learns that it leads still.
func TestAwaitWhileZooKeeperIsAsked(t *testing.T) {
	scenario(t, func(w *world) {
		t := w.t
		a := w.start("a", setup{})
		time.Sleep(10 * time.Second)
		term, _ := a.Held()
		w.ControlKeep(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return zkdev.DelayReply(100 * time.Millisecond) })
		a.off.Store(int64(time.Hour))
		at := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		again, err := a.Await(ctx)
		if took := time.Since(at); err != nil || again != term || took < 100*time.Millisecond || took > 250*time.Millisecond {
			t.Errorf("a leads with %v, %v, after %v; want %v as soon as the answer has come", again, err, took, term)
		}
	})
}
