package swtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
)

// table is a database in memory, which keeps the promises of package once.
type table struct {
	mu    sync.Mutex
	token map[string]int64
	rows  map[string]singleworker.Effects
	twice []string // that were written twice
}

var errFenced = errors.New("fenced off")

func rowOf(run *singleworker.Run) string { return run.Slot + " " + run.Tick.UTC().String() }

func (b *table) enter(run *singleworker.Run) error {
	if b.token == nil {
		b.token, b.rows = make(map[string]int64), make(map[string]singleworker.Effects)
	}
	if run.Token < b.token[run.Slot] {
		return errFenced
	}
	b.token[run.Slot] = run.Token
	return nil
}

// write does the work of a tick. It does not look whether it is done.
func (b *table) write(run *singleworker.Run) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.enter(run); err != nil {
		return err
	}
	if _, done := b.rows[rowOf(run)]; done {
		b.twice = append(b.twice, rowOf(run))
	}
	b.rows[rowOf(run)] = singleworker.Effects{RunID: run.ID, InstanceID: run.InstanceID, At: time.Now()}
	return nil
}

// state is how many rows there are, and which of them were written twice.
func (b *table) state() (rows int, twice []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.rows), slices.Clone(b.twice)
}

func (b *table) resolve(_ context.Context, run *singleworker.Run) (effects singleworker.Effects, found bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.enter(run); err != nil {
		return effects, false, err
	}
	effects, found = b.rows[rowOf(run)]
	return effects, found, nil
}

// asking has two instances, which share job0, which has one tick, and steady, each second.
type asking struct {
	*swtest.Cluster

	table   table
	owner   *swtest.Instance // of job0, in mid-run
	other   *swtest.Instance
	end     chan struct{} // lets block return
	log     bytes.Buffer
	logging sync.Mutex
}

// Write implements io.Writer, for the log.
func (a *asking) Write(p []byte) (int, error) {
	a.logging.Lock()
	defer a.logging.Unlock()
	return a.log.Write(p)
}

func (a *asking) logged() string {
	a.logging.Lock()
	defer a.logging.Unlock()
	return a.log.String()
}

// inAsking runs test when job0 has worked on its first tick for 10 s.
func inAsking(t *testing.T, j singleworker.Job, resolve func(*asking) singleworker.Resolver, handler func(*asking) singleworker.Handler, test func(t *testing.T, a *asking)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &asking{end: make(chan struct{})}
		a.Cluster = swtest.New(t, swtest.Config{Logger: slog.New(slog.NewTextHandler(a, nil))})
		j.Name, j.Schedule = "job0", "@at 2000-01-01T00:01:00Z"
		if err := errors.Join(a.Submit(t.Context(), j), a.Submit(t.Context(), singleworker.Job{Name: "steady", Schedule: "* * * * * ?"})); err != nil {
			t.Fatal(err)
		}
		setup := swtest.Setup{
			Handlers:  map[string]singleworker.Handler{"job0": handler(a), "steady": working(0)},
			Configure: func(cfg *singleworker.Config) { cfg.Resolve = resolve(a) },
		}
		a.owner, a.other = a.Start("i0", setup), a.Start("i1", setup)
		time.Sleep(70*time.Second - time.Since(a.Begun()))
		if a.Owners()["job0"] == "i1" {
			a.owner, a.other = a.other, a.owner
		}
		test(t, a)
		if _, twice := a.table.state(); len(twice) > 0 {
			t.Errorf("written twice: %q", twice)
		}
		var last time.Time
		for _, r := range a.Runs() {
			if r.Job == "steady" && r.Instance == a.other {
				if gap := r.Tick.Sub(last); !last.IsZero() && gap > time.Second && last.After(a.Begun().Add(time.Minute)) {
					t.Errorf("%s did not run from %v to %v", r.Job, last, r.Tick)
				}
				last = r.Tick
			}
		}
	})
}

// block is a resolver that ignores its context.
func (a *asking) block(context.Context, *singleworker.Run) (effects singleworker.Effects, found bool, err error) {
	<-a.end
	return effects, true, nil
}

func fenced(a *asking) singleworker.Resolver { return a.table.resolve }

// writesFirst writes, and then works. writesLast works, and then writes.
func writesFirst(a *asking) singleworker.Handler {
	return func(ctx context.Context, run *singleworker.Run) error {
		return errors.Join(a.table.write(run), working(20*time.Second)(ctx, run))
	}
}

func writesLast(a *asking) singleworker.Handler {
	return func(_ context.Context, run *singleworker.Run) error {
		time.Sleep(40 * time.Second) // it does not hear that its right to run is over
		for _, i := range a.Instances() {
			if i.Name == run.InstanceID && i.State() == swtest.Killed {
				return errors.New("dead")
			}
		}
		return a.table.write(run)
	}
}

// calls is how often the handler of job0 was called.
func (a *asking) calls() int {
	return len(slices.DeleteFunc(a.Runs(), func(r swtest.Run) bool { return r.Job != "job0" }))
}

// wantEnds compares the history of job0.
func (a *asking) wantEnds(t *testing.T, calls int, want ...string) {
	t.Helper()
	if got := ends(t, a.Cluster); !slices.Equal(got, want) || a.calls() != calls {
		t.Errorf("%d calls, the history says %q; want %d, %q", a.calls(), got, calls, want)
	}
}

// wantFound expects that the last run found the effects of the first one.
func (a *asking) wantFound(t *testing.T) {
	t.Helper()
	entries := entriesOf(t, a.Cluster, "job0")
	want, _, _ := a.table.resolve(t.Context(), &singleworker.Run{Slot: "job0", Tick: entries[0].Tick, Token: 1 << 62})
	want.At = want.At.UTC().Round(time.Millisecond)
	if entries[0].Effects != want || want.RunID != entries[len(entries)-1].RunID {
		t.Errorf("the run found %+v, want %+v, of %+v", entries[0].Effects, want, entries[len(entries)-1])
	}
	_, text := explained(t, a.Cluster, "job0")
	if part := fmt.Sprintf("its effects have been in the database since %s, by run %s on %s, whose result was lost",
		want.At.Format("2006-01-02 15:04:05 MST"), want.RunID, want.InstanceID); !strings.Contains(text, part) {
		t.Errorf("why says %s\nwant %s", text, part)
	}
}

var ask, askOrSkip = singleworker.Job{Interrupted: job.InterruptedAsk}, singleworker.Job{Interrupted: job.InterruptedAskOrSkip}

const (
	interrupted = "00:01:00#1 interrupted"
	ok2         = "00:01:00#2 ok"
)

// The owner dies after its effects: they are found, and the handler is not called.
func TestEffectsOfADeadRunAreFound(t *testing.T) {
	inAsking(t, askOrSkip, fenced, writesFirst, func(t *testing.T, a *asking) {
		t.Helper()
		a.owner.Kill()
		time.Sleep(90 * time.Second)
		a.wantEnds(t, 1, interrupted, ok2)
		a.wantFound(t)
	})
}

// The owner dies before its effects: the tick is run again.
func TestEffectsThatAreNotThereAreMade(t *testing.T) {
	inAsking(t, askOrSkip, fenced, writesLast, func(t *testing.T, a *asking) {
		t.Helper()
		a.owner.Kill()
		time.Sleep(90 * time.Second)
		a.wantEnds(t, 2, interrupted, ok2)
		rows, _ := a.table.state()
		if e := entriesOf(t, a.Cluster, "job0")[0]; e.Effects != (history.Effects{}) || rows != 1 {
			t.Errorf("%+v, of %d rows", e, rows)
		}
	})
}

// A run whose instance stops is put on record as interrupted by itself: its next owner asks, too.
func TestEffectsOfAStoppedRunAreFound(t *testing.T) {
	inAsking(t, ask, fenced, writesFirst, func(t *testing.T, a *asking) {
		t.Helper()
		if err := a.owner.Stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		a.wantEnds(t, 1, interrupted, ok2)
		a.wantFound(t)
	})
}

// The tick has been started as often as it may: one more attempt asks, and does nothing else.
func TestTheLastAttemptOnlyAsks(t *testing.T) {
	t.Parallel()
	once := singleworker.Job{Interrupted: job.InterruptedAsk, MaxAttempts: 1}
	for name, handler := range map[string]func(*asking) singleworker.Handler{ok2: writesFirst, "00:01:00#2 interrupted": writesLast} {
		t.Run(name, func(t *testing.T) {
			inAsking(t, once, fenced, handler, func(t *testing.T, a *asking) {
				t.Helper()
				a.owner.Kill()
				time.Sleep(90 * time.Second)
				a.wantEnds(t, 1, interrupted, name)
				wantAudit(t, a.Cluster)
			})
		})
	}
}

// An owner that was only slow goes on after others have been told that its effects are not there:
// they do not come any more. Its effects that are there agree with its result, or that is reported.
func TestSlowOwnersEffects(t *testing.T) {
	t.Parallel()
	stalled := func(t *testing.T, a *asking) {
		t.Helper()
		a.owner.Stall()
		time.Sleep(time.Minute)
		a.owner.Resume()
		time.Sleep(time.Minute)
	}
	t.Run("before", func(t *testing.T) {
		inAsking(t, ask, fenced, writesLast, func(t *testing.T, a *asking) {
			t.Helper()
			stalled(t, a)
			a.wantEnds(t, 2, interrupted, ok2)
		})
	})
	t.Run("after, and its result agrees", func(t *testing.T) {
		agrees := func(a *asking) singleworker.Handler {
			return func(ctx context.Context, run *singleworker.Run) error {
				err := a.table.write(run)
				_ = working(20*time.Second)(ctx, run)
				return err
			}
		}
		inAsking(t, ask, fenced, agrees, func(t *testing.T, a *asking) {
			t.Helper()
			stalled(t, a)
			a.wantEnds(t, 1, "00:01:00#1 ok", ok2)
			if strings.Contains(a.logged(), "they disagree") {
				t.Error(a.logged())
			}
		})
	})
	t.Run("after, and its result does not", func(t *testing.T) {
		inAsking(t, ask, fenced, writesFirst, func(t *testing.T, a *asking) {
			t.Helper()
			stalled(t, a)
			a.wantEnds(t, 1, interrupted, ok2)
			if !strings.Contains(a.logged(), "they disagree") {
				t.Error("its result is not reported: " + a.logged())
			}
		})
	})
}

// A resolver reads without the fence. A slow owner's effects come after it has said that they are
// not there: they are written twice.
func TestAResolverWithoutAFenceIsFoundOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		var b table
		plain := func(_ context.Context, run *singleworker.Run) (effects singleworker.Effects, found bool, err error) { //nolint:unparam // it is a Resolver
			b.mu.Lock()
			effects, found = b.rows[rowOf(run)]
			b.mu.Unlock()
			time.Sleep(5 * time.Second)
			return effects, found, nil
		}
		if err := c.Submit(t.Context(), singleworker.Job{Name: "job0", Schedule: "@at 2000-01-01T00:01:00Z", Interrupted: job.InterruptedAsk}); err != nil {
			t.Fatal(err)
		}
		handler := func(_ context.Context, run *singleworker.Run) error {
			if run.Attempt == 1 {
				time.Sleep(23 * time.Second) // it does not hear that its lease is over
			}
			return b.write(run)
		}
		setup := swtest.Setup{Handlers: map[string]singleworker.Handler{"job0": handler}, Configure: func(cfg *singleworker.Config) { cfg.Resolve = plain }}
		byName := map[string]*swtest.Instance{"i0": c.Start("i0", setup), "i1": c.Start("i1", setup)}
		time.Sleep(70*time.Second - time.Since(c.Begun()))
		byName[c.Owners()["job0"]].Stall()
		time.Sleep(time.Minute)
		if _, twice := b.state(); len(twice) != 1 {
			t.Errorf("written twice: %q, want the tick; the runs are %v", twice, ends(t, c))
		}
	})
}

// Nobody answers: the policy decides, within ten seconds and some, and no other job waits.
func TestUnansweredQuestions(t *testing.T) {
	t.Parallel()
	for name, resolver := range map[string]singleworker.Resolver{
		"none": nil,
		"an error": func(context.Context, *singleworker.Run) (singleworker.Effects, bool, error) {
			return singleworker.Effects{}, true, errors.New("connection refused")
		},
		"a panic": func(context.Context, *singleworker.Run) (singleworker.Effects, bool, error) { panic("glass") },
		"slow": func(ctx context.Context, _ *singleworker.Run) (singleworker.Effects, bool, error) {
			<-ctx.Done()
			return singleworker.Effects{}, false, ctx.Err()
		},
		"blocked": nil, // see below
	} {
		for _, j := range []singleworker.Job{ask, askOrSkip} {
			t.Run(name+", "+string(j.Interrupted), func(t *testing.T) {
				inAsking(t, j, func(a *asking) singleworker.Resolver {
					if name == "blocked" {
						return a.block
					}
					return resolver
				}, writesLast, func(t *testing.T, a *asking) {
					t.Helper()
					operate(t, a.Cluster, func(client *admin.Client) error {
						s, err := client.Get(t.Context(), "job0")
						if _, lacks := s.Condition(reason.NoResolver); lacks != (name == "none") {
							t.Errorf("the conditions are %+v", s.Conditions)
						}
						return err
					})
					a.owner.Kill()
					time.Sleep(session + 65*time.Second)
					if j.Interrupted == job.InterruptedAsk {
						a.wantEnds(t, 2, interrupted, ok2)
					} else {
						a.wantEnds(t, 1, interrupted, "00:01:00#2 interrupted")
					}
					wantAudit(t, a.Cluster)
					if name == "blocked" {
						var stuck *singleworker.StuckError
						if err := a.other.Stop(); !errors.As(err, &stuck) || !slices.Equal(stuck.Jobs, []string{"job0"}) {
							t.Errorf("a resolver that does not return: Run returned %v", err)
						}
					}
					close(a.end)
				})
			})
		}
	}
}
