package election_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/election"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// scenario runs a test in a bubble, in parallel with others, and checks the invariants.
func scenario(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		f(w)
		synctest.Wait()
		w.report()
	})
}

// three starts a, b and c, in this order.
func (w *world) three() (a, b, c *contender) {
	w.t.Helper()
	var all []*contender
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, w.start(name, setup{}))
		time.Sleep(100 * time.Millisecond)
	}
	w.wantLeader("a")
	return all[0], all[1], all[2]
}

func TestFirstComeFirstServed(t *testing.T) {
	scenario(t, func(w *world) {
		t := w.t
		a, b, c := w.three()
		w.wantQueued("a", "b", "c")
		name := regexp.MustCompile(`^` + electionPath + `/_c_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}-latch-\d{10}$`)
		for _, n := range w.queue() {
			if !name.MatchString(n.path) {
				t.Errorf("node %s, want a name like Curator's", n.path)
			}
		}
		if err := a.stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(50 * time.Millisecond)
		w.wantLeader("b")
		w.start("a", setup{})
		time.Sleep(time.Second)
		for _, c := range []*contender{b, c} {
			if err := c.stop(); err != nil {
				t.Error(err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if got := w.order(); !slices.Equal(got, []string{"a", "b", "c", "a"}) {
			t.Errorf("led: %q, want a, b, c, and a, which queued again behind them", got)
		}
		wantCause(t, w.led()[0], election.ErrStopped)
	})
}

func TestTakeoverAfterKill(t *testing.T) {
	scenario(t, func(w *world) {
		t := w.t
		a, b, _ := w.three()
		at := time.Now()
		a.kill()
		if _, err := b.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wantLeader("b")
		took := time.Since(at)
		t.Logf("taken over after %v, session %v", took, sessionTimeout)
		if took > sessionTimeout+500*time.Millisecond {
			t.Errorf("taken over after %v, want at most the session timeout and 500ms", took)
		}
	})
}

// Each contender watches one other: the end of the leader wakes only the next.
func TestNoHerd(t *testing.T) {
	scenario(t, func(w *world) {
		t := w.t
		a, _, _ := w.three()
		asked := make(map[string]int)
		w.ControlKeep(zkdev.OpAny, func(r *zkdev.Request) zkdev.Action {
			if r.Op != zkdev.OpPing {
				asked[r.Client]++
			}
			return zkdev.Pass()
		})
		_ = a.stop()
		time.Sleep(100 * time.Millisecond)
		w.wantLeader("b")
		synctest.Wait()
		if asked["c"] != 0 || asked["b"] > 2 {
			t.Errorf("requests when a left: %v, want none of c, and two of b: to list and to confirm", asked)
		}
	})
}

func TestNotLeaderWhileDisconnected(t *testing.T) {
	scenario(t, func(w *world) {
		t := w.t
		a, _, _ := w.three()
		first, _ := a.Held()
		w.Stop() // unreachable
		synctest.Wait()
		if _, held := a.Held(); held {
			t.Errorf("a still leads at the instant of the disconnect")
		}
		wantCause(t, w.led()[0], election.ErrSuspended)
		time.Sleep(time.Second)
		if err := w.Restart(zkdev.KeepSessions); err != nil {
			t.Fatal(err)
		}
		again, err := a.Await(t.Context())
		if err != nil || again != first {
			t.Errorf("a leads again with %v, %v; want its place, and the same token: %v", again, err, first)
		}
		time.Sleep(time.Minute)
		if got := w.order(); !slices.Equal(got, []string{"a", "a"}) {
			t.Errorf("led: %q, want a twice", got)
		}
	})
}

// A connection that answers reads but does not confirm the lease does not keep it alive: neither if
// the server refuses, nor if its answer leaves the outcome open.
func TestLeaseEndsWithoutProof(t *testing.T) {
	t.Parallel()
	const throttled zkdev.Code = -127
	for _, answer := range []zkdev.Code{zkdev.NoAuth, throttled} {
		t.Run(answer.String(), func(t *testing.T) {
			scenario(t, func(w *world) {
				t := w.t
				a, _, _ := w.three()
				at := time.Now()
				remove := w.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
					if r.Client == "a" {
						return zkdev.Refuse(answer)
					}
					return zkdev.Pass()
				})
				time.Sleep(lease)
				synctest.Wait()
				if _, held := a.Held(); held {
					t.Errorf("a leads although nothing was confirmed for the duration of its lease")
				}
				wantCause(t, w.led()[0], election.ErrLapsed)
				if took := w.led()[0].to.Sub(at); took <= lease*3/4-time.Millisecond {
					t.Errorf("the term ended %v after the last proof but one", took)
				}
				remove()
				if _, err := a.Await(t.Context()); err != nil {
					t.Error(err)
				}
				w.wantLeader("a") // still the first: its session is alive
			})
		})
	}
}

// A reply that arrives after the lease has ended, as in a suspended process, starts no term: it
// proves only the state at the time at which it was sent.
func TestLateReplyProvesNothing(t *testing.T) {
	scenario(t, func(w *world) {
		t := w.t
		a := w.start("a", setup{wrap: func(conn election.Conn) election.Conn { return lateConn{conn} }})
		for range 1000 {
			time.Sleep(100 * time.Millisecond)
			if _, held := a.Held(); held {
				t.Fatalf("a leads by a reply that took longer than its lease")
			}
		}
	})
}

// lateConn is the connection of a process that is suspended before it sees a reply.
type lateConn struct{ election.Conn }

func (c lateConn) Multi(ctx context.Context, ops ...zkconn.Op) ([]zkconn.Stat, error) {
	stats, err := c.Conn.Multi(ctx, ops...)
	<-time.After(lease)
	return stats, err
}

func TestExpiredContenderQueuesAgain(t *testing.T) {
	scenario(t, func(w *world) {
		a, _, _ := w.three()
		a.network.Partition()
		time.Sleep(3 * sessionTimeout)
		w.wantLeader("b")
		a.network.Heal()
		time.Sleep(sessionTimeout)
		w.wantQueued("b", "c", "a")
	})
}

// CURATOR-696: the node of an expired session may exist for a while. Another client creates such a
// node here.
func TestNodeOfFormerSessionDoesNotLead(t *testing.T) {
	scenario(t, func(w *world) {
		t := w.t
		a := w.start("a", setup{})
		time.Sleep(time.Second)
		first, _ := a.Held()
		a.network.Partition()
		time.Sleep(2 * sessionTimeout)
		other := w.hand()
		prefix := strings.TrimRight(first.Node, "0123456789")
		old, err := other.CreateEphemeralSequential(t.Context(), prefix, []byte("a"))
		if err != nil {
			t.Fatal(err)
		}
		a.network.Heal()
		second, err := a.Await(t.Context())
		if err != nil || second.Node == old || second.Token <= first.Token {
			t.Errorf("a leads again with %+v, %v; want another node than %s, and a token beyond %d", second, err, old, first.Token)
		}
	})
}

func TestLostRepliesLeaveNoNode(t *testing.T) {
	t.Parallel()
	for op, name := range map[zkdev.Op]string{zkdev.OpCreate: "create", zkdev.OpMulti: "multi", zkdev.OpGetData: "get", zkdev.OpGetChildren2: "children"} {
		for what, action := range map[string]zkdev.Action{"cut before": zkdev.CutBefore(), "cut after": zkdev.CutAfter()} {
			t.Run(name+" "+what, func(t *testing.T) {
				scenario(t, func(w *world) {
					t := w.t
					w.three()
					for k := range 4 { // of d's requests of that kind
						d := w.start(fmt.Sprintf("d%d", k), setup{})
						seen := 0
						remove := w.Control(op, func(r *zkdev.Request) zkdev.Action {
							if r.Client == d.name {
								if seen++; seen > k {
									return action
								}
							}
							return zkdev.Pass()
						})
						time.Sleep(10 * time.Second)
						w.wantQueued("a", "b", "c", d.name)
						if err := d.stop(); err != nil {
							t.Error(err)
						}
						remove()
						w.wantQueued("a", "b", "c")
					}
				})
			})
		}
	}
}

func TestLeadersNodeDeletedManually(t *testing.T) {
	scenario(t, func(w *world) {
		t := w.t
		_, b, _ := w.three()
		w.delete(b.conn, w.queue()[0].path)
		synctest.Wait()
		w.wantLeader("b")
		wantCause(t, w.led()[0], election.ErrDeposed)
		time.Sleep(time.Second)
		w.wantQueued("b", "c", "a")
	})
}

func TestWaitersNodeDeletedManually(t *testing.T) {
	scenario(t, func(w *world) {
		_, b, _ := w.three()
		w.delete(b.conn, w.queue()[1].path)
		time.Sleep(time.Second)
		w.wantLeader("a")
		w.wantQueued("a", "c", "b")
	})
}

// CURATOR-724, and the deletion of container nodes.
func TestPathIsGone(t *testing.T) {
	scenario(t, func(w *world) {
		t := w.t
		a := w.start("a", setup{})
		time.Sleep(time.Second)
		first, _ := a.Held()
		w.delete(a.conn, w.queue()[0].path, electionPath)
		time.Sleep(5 * time.Second)
		w.wantLeader("a")
		if second, _ := a.Held(); second.Token <= first.Token {
			t.Errorf("token %d after the path was created again, want more than %d", second.Token, first.Token)
		}
	})
}

func TestServeReturningResigns(t *testing.T) {
	scenario(t, func(w *world) {
		t := w.t
		turns := func(ctx context.Context, _ election.Term) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			w.start(name, setup{serve: turns})
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(5500 * time.Millisecond)
		if got := w.order(); !slices.Equal(got, []string{"a", "b", "c", "a", "b", "c"}) {
			t.Errorf("led: %q, want each in turn", got)
		}
		wantCause(t, w.led()[0], nil) // Serve returned
	})
}

// The contender keeps its place until Serve has returned. A contender that has resigned, and whose
// deletion of its node was lost, does not lead by that node again.
func TestNodeToBeDeletedDoesNotLeadAgain(t *testing.T) {
	scenario(t, func(w *world) {
		resigned := false
		a := w.start("a", setup{serve: func(ctx context.Context, _ election.Term) {
			if resigned {
				<-ctx.Done()
				return
			}
			resigned = true
			<-time.After(time.Second)
			w.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
				if r.Client == "a" {
					return zkdev.CutBefore()
				}
				return zkdev.Pass()
			})
		}})
		time.Sleep(100 * time.Millisecond)
		w.start("b", setup{})
		time.Sleep(3 * time.Second)
		w.wantLeader("b")
		w.wantQueued("b", "a")
		if got := w.order(); !slices.Equal(got, []string{"a", "b"}) {
			w.t.Errorf("led: %q, want a and b", got)
		}
		if _, held := a.Held(); held {
			w.t.Error("a leads")
		}
	})
}

func TestStopWaitsForServe(t *testing.T) {
	scenario(t, func(w *world) {
		t := w.t
		a := w.start("a", setup{serve: func(ctx context.Context, _ election.Term) {
			<-ctx.Done()
			<-time.After(time.Minute) // it winds down
		}})
		time.Sleep(time.Second)
		w.start("b", setup{})
		time.Sleep(time.Second)
		a.leave()
		time.Sleep(time.Minute - time.Second)
		if got := w.leaders(); len(got) != 0 {
			t.Errorf("%q lead while a winds down", got)
		}
		time.Sleep(time.Second + 50*time.Millisecond)
		w.wantLeader("b")
		<-a.ended
		if a.err != nil {
			t.Error(a.err)
		}
	})
}

func TestTermsDoNotOverlap(t *testing.T) {
	scenario(t, func(w *world) {
		t := w.t
		a := w.start("a", setup{serve: func(ctx context.Context, _ election.Term) {
			<-ctx.Done()
			<-time.After(10 * time.Second)
		}})
		time.Sleep(time.Second)
		a.network.Disconnect()
		time.Sleep(5 * time.Second)
		if got := w.leaders(); len(got) != 0 || len(w.queue()) != 1 {
			t.Errorf("%q lead while a winds down, queue %v; want no leader, and a in its place", got, w.queue())
		}
		time.Sleep(6 * time.Second)
		w.wantLeader("a")
	})
}

// A contender that lost its place queues again only when its last term has been served: it would
// keep the others waiting for one that cannot lead.
func TestNoPlaceWhileServing(t *testing.T) {
	scenario(t, func(w *world) {
		w.start("a", setup{serve: func(ctx context.Context, _ election.Term) {
			<-ctx.Done()
			<-time.After(10 * time.Second)
		}})
		time.Sleep(time.Second)
		b := w.start("b", setup{})
		time.Sleep(time.Second)
		w.delete(b.conn, w.queue()[0].path)
		time.Sleep(9 * time.Second)
		w.wantLeader("b")
		w.wantQueued("b")
		time.Sleep(2 * time.Second)
		w.wantQueued("b", "a")
	})
}

func TestPanicEndsRunAndLeavesTheQueue(t *testing.T) {
	t.Parallel()
	for want, serve := range map[string]func(){
		"leader panicked: glass":                              func() { panic("glass") },
		"leader panicked: runtime.Goexit ended its goroutine": runtime.Goexit,
	} {
		t.Run(want, func(t *testing.T) {
			scenario(t, func(w *world) {
				t := w.t
				a := w.start("a", setup{serve: func(context.Context, election.Term) { serve() }})
				<-a.ended
				if !errors.As(a.err, new(*task.PanicError)) || a.err.Error() != want {
					t.Errorf("Run = %v, want %s", a.err, want)
				}
				if got := w.queue(); len(got) != 0 {
					t.Errorf("queue %v after Run", got)
				}
			})
		})
	}
}

func TestStopWithoutServer(t *testing.T) {
	scenario(t, func(w *world) {
		t := w.t
		a, _, _ := w.three()
		w.Stop()
		at := time.Now()
		if err := a.stop(); !errors.Is(err, election.ErrNotReleased) {
			t.Errorf("Run = %v, want ErrNotReleased", err)
		}
		if took := time.Since(at); took > 5*time.Second {
			t.Errorf("stopping took %v", took)
		}
		_ = w.Restart(zkdev.KeepSessions)
	})
}

func TestStopBeforeFirstConnection(t *testing.T) {
	scenario(t, func(w *world) {
		t := w.t
		w.Stop()
		a := w.start("a", setup{})
		time.Sleep(time.Minute)
		if err := a.stop(); err != nil {
			t.Errorf("Run = %v, want nil: there is no node to delete", err)
		}
		if _, err := a.Await(t.Context()); !errors.Is(err, election.ErrStopped) {
			t.Errorf("Await = %v, want ErrStopped", err)
		}
	})
}

func TestAwaitEndsWithContext(t *testing.T) {
	scenario(t, func(w *world) {
		t := w.t
		_, b, _ := w.three()
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, enough)
		defer cancel()
		if _, err := b.Await(ctx); !errors.Is(err, enough) {
			t.Errorf("Await = %v, want %v", err, enough)
		}
	})
}

func TestAccessDeniedAtStart(t *testing.T) {
	scenario(t, func(w *world) {
		t := w.t
		remove := w.ControlKeep(zkdev.OpCreate, func(*zkdev.Request) zkdev.Action { return zkdev.Refuse(zkdev.NoAuth) })
		defer remove()
		a := w.start("a", setup{})
		<-a.ended
		if !errors.Is(a.err, election.ErrDenied) {
			t.Errorf("Run = %v, want ErrDenied", a.err)
		}
	})
}

func TestParticipants(t *testing.T) {
	scenario(t, func(w *world) {
		t := w.t
		_, b, _ := w.three()
		list, err := election.Participants(t.Context(), b.conn, electionPath)
		var ids []string
		for i, p := range list {
			ids = append(ids, p.ID)
			if n := w.queue()[i]; p.Node != n.path || p.Token != n.czxid {
				t.Errorf("participant %+v, want %+v", p, n)
			}
		}
		if !slices.Equal(ids, []string{"a", "b", "c"}) || err != nil {
			t.Errorf("participants %q, %v; want a, b, c", ids, err)
		}
		if list, err := election.Participants(t.Context(), b.conn, "/absent"); list != nil || err != nil {
			t.Errorf("of an election without nodes: %v, %v; want none", list, err)
		}
	})
}
