package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// traffic is a loop's writes, whose server takes its time to answer.
type traffic struct {
	*roomtest.Loop
	g       *roomtest.Group
	start   time.Time
	sent    []string         // transactions: when, of what lane, how many groups
	bytes   int              // of the data in them
	results map[string]error // by node
	answers int
}

// busy is how long the server takes to answer a transaction, and with it those before.
const busy = 20 * time.Millisecond

// inTraffic runs a test with a loop that has written nothing.
func inTraffic(t *testing.T, test func(w *traffic)) {
	t.Helper()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		w := &traffic{Loop: g.NewLoop("a"), g: g, results: make(map[string]error)}
		w.Start()
		w.Do(func() { w.SetJoined(true) })
		w.start = time.Now()
		g.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if r.Client != "a" {
				return zkdev.Pass()
			}
			name, _, _ := strings.Cut(strings.TrimPrefix(r.Ops[0].Path, g.Tree.Root()+"/"), "-")
			w.sent = append(w.sent, fmt.Sprint(time.Since(w.start), " ", len(r.Ops), " ", name))
			for _, op := range r.Ops {
				w.bytes += len(op.Data)
			}
			return zkdev.DelayReply(busy)
		})
		test(w)
	})
}

// write writes nodes of the given size in one turn.
func (w *traffic) write(to session.Lane, name string, count, size int) {
	w.Post(func() {
		for i := range count {
			node := fmt.Sprint(name, "-", len(w.results), "-", i)
			w.results[node] = errors.New("not answered")
			ops := []zkconn.Op{zkconn.CreateOp(w.g.Tree.Root()+"/"+node, make([]byte, size))}
			w.Write(to, ops, func(r session.Result) {
				w.answers++
				w.results[node] = r.Err
			})
		}
	})
	roomtest.Pass(time.Nanosecond)
}

// wantWaited expects that the oldest write of each lane has waited for so long.
func (w *traffic) wantWaited(claims, others time.Duration) {
	w.g.T.Helper()
	w.Do(func() {
		if c, o := w.Waited(session.Claims), w.Waited(session.Others); c != claims || o != others {
			w.g.T.Errorf("%v after the start: claims have waited for %v, others for %v; want %v, %v", time.Since(w.start), c, o, claims, others)
		}
	})
}

// wantSent expects the transactions that were sent, and every write to be answered once and made.
func (w *traffic) wantSent(want ...string) {
	w.g.T.Helper()
	roomtest.Pass(time.Second)
	slices.Sort(w.sent) // two of one moment have no order
	if slices.Sort(want); !slices.Equal(w.sent, want) {
		w.g.T.Errorf("sent\n  %s\nwant\n  %s", strings.Join(w.sent, "\n  "), strings.Join(want, "\n  "))
	}
	for node, err := range w.results {
		if err != nil {
			w.g.T.Errorf("%s: %v", node, err)
		}
	}
	if w.answers != len(w.results) {
		w.g.T.Errorf("%d answers to %d writes", w.answers, len(w.results))
	}
}

// Claims that come while two are under way go together when they are answered.
func TestClaimsGatherWhileOthersAreUnderWay(t *testing.T) {
	t.Parallel()
	inTraffic(t, func(w *traffic) {
		for range 700 {
			w.write(session.Claims, "claim", 1, 10)
		}
		w.wantSent("0s 1 claim", "1ns 1 claim", "20.000001ms 500 claim", "20.000001ms 198 claim")
	})
}

func TestSingleWriteIsSentAtOnce(t *testing.T) {
	t.Parallel()
	for what, lane := range map[string]session.Lane{"beat": session.Beats, "claim": session.Claims, "other": session.Others} {
		inTraffic(t, func(w *traffic) {
			w.write(lane, what, 1, 10)
			w.wantSent("0s 1 " + what)
		})
	}
}

// A heartbeat has three transactions before it at most, of a bounded size.
func TestHeartbeatPassesWhatWaits(t *testing.T) {
	t.Parallel()
	inTraffic(t, func(w *traffic) {
		w.write(session.Others, "result", 1000, 4000)
		w.write(session.Claims, "claim", 3000, 500)
		if len(w.sent) != 3 || w.bytes > 3<<19 {
			w.g.T.Errorf("%d transactions of %d bytes are under way, want three of half a megabyte: %q", len(w.sent), w.bytes, w.sent)
		}
		for range 3 { // more often than anybody would
			w.write(session.Beats, "beat", 600, 10)
		}
		want := []string{"2ns 500 beat", "2ns 100 beat", "3ns 500 beat", "3ns 100 beat", "4ns 500 beat", "4ns 100 beat"}
		if beats := w.sent[3:]; !slices.Equal(slices.Sorted(slices.Values(beats)), slices.Sorted(slices.Values(want))) {
			w.g.T.Errorf("heartbeats sent %q, want %q", beats, want)
		}
	})
}

// The answer to a heartbeat passes other work that waits for the loop: a lease must not lapse
// because the loop is busy with other answers.
func TestAnswersToHeartbeatsComeFirst(t *testing.T) {
	t.Parallel()
	inTraffic(t, func(w *traffic) {
		var order []string
		note := func(what string) func() { return func() { order = append(order, what) } }
		write := func(to session.Lane, what string) {
			ops := []zkconn.Op{zkconn.CreateOp(w.g.Tree.Root()+"/"+what, nil)}
			w.Write(to, ops, func(session.Result) { note(what)() })
		}
		w.Post(func() {
			write(session.Claims, "claim")
			write(session.Others, "result")
			write(session.Beats, "beat")
		})
		roomtest.Pass(time.Nanosecond)
		w.Post(func() { <-time.After(time.Second) }) // busy, while all of them are answered
		roomtest.Pass(time.Nanosecond)
		w.Post(note("something else"))
		roomtest.Pass(2 * time.Second)
		if len(order) != 4 || order[0] != "beat" || order[1] != "something else" {
			w.g.T.Errorf("the loop has done %q, want the beat's answer first, and the others' after what was there before", order)
		}
	})
}

// The oldest write counts that is not answered, whether it was sent or not.
func TestWaited(t *testing.T) {
	t.Parallel()
	inTraffic(t, func(w *traffic) {
		w.wantWaited(0, 0)
		w.write(session.Claims, "claim", 2500, 10) // five transactions, of which two are under way
		start := time.Now()
		pass := func(until time.Duration) { roomtest.Pass(time.Until(start.Add(until - time.Nanosecond))) }
		pass(30 * time.Millisecond)
		w.write(session.Others, "result", 1, 10)
		pass(50 * time.Millisecond)
		w.wantWaited(50*time.Millisecond, 20*time.Millisecond)
		pass(time.Second)
		w.wantWaited(0, 0)
		w.write(session.Claims, "claim", 1, 10)
		roomtest.Pass(7 * time.Millisecond)
		w.wantWaited(7*time.Millisecond+time.Nanosecond, 0)
	})
}

// Results wait for company while there are claims, but not for ever.
func TestOthersWaitForClaims(t *testing.T) {
	t.Parallel()
	inTraffic(t, func(w *traffic) {
		w.write(session.Claims, "claim", 1, 10)
		w.write(session.Others, "result", 1, 10)
		w.write(session.Others, "result", 1, 10)
		w.wantSent("0s 1 claim", "20ms 2 result")
	})
	inTraffic(t, func(w *traffic) {
		w.write(session.Claims, "claim", 3000, 10)
		w.write(session.Others, "result", 1, 10)
		w.write(session.Others, "result", 1, 10)
		w.wantSent("0s 500 claim", "0s 500 claim", "20ms 500 claim", "20ms 500 claim", "25.000001ms 2 result",
			"45.000001ms 500 claim", "45.000001ms 500 claim")
	})
}

// A write that was not sent when the connection is lost is not sent in the next one: it is answered
// as unknown.
func TestNothingWaitsBeyondTheConnection(t *testing.T) {
	t.Parallel()
	inTraffic(t, func(w *traffic) {
		w.write(session.Claims, "claim", 1500, 10)
		w.write(session.Others, "result", 10, 10)
		w.Client.Disconnect()
		roomtest.Pass(10 * time.Second)
		if len(w.sent) != 2 || w.answers != len(w.results) {
			w.g.T.Errorf("sent %q, %d of %d answered; want two transactions and all answers", w.sent, w.answers, len(w.results))
		}
		for node, err := range w.results {
			if !zkconn.IsUnknown(err) {
				w.g.T.Fatalf("%s: %v, want it unknown", node, err)
			}
		}
		w.sent = nil
		w.start = time.Now()
		w.results, w.answers = make(map[string]error), 0
		w.write(session.Claims, "again", 1, 10)
		w.wantSent("0s 1 again")
	})
}
