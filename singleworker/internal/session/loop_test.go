package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Closures that a closure defers run after it, in the order in which they were deferred, and before
// the next posted closure.
func TestTurnIsInOrderAndNothingReenters(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		l := g.NewLoop("a")
		var ran []string
		inside := false
		step := func(name string, leadsTo func()) func() {
			return func() {
				if inside {
					g.T.Errorf("%s runs inside another step", name)
				}
				inside = true
				ran = append(ran, name)
				leadsTo()
				inside = false
			}
		}
		nothing := func() {}
		l.OnNotice = func(n session.Notice) {
			step(fmt.Sprint(n), func() {
				if n == "notice" {
					l.Tell("from a notice")
				}
			})()
		}
		l.Start()
		l.Post(step("first", func() {
			l.Post(step("second", nothing))
			l.Defer(step("deferred", func() { l.Defer(step("from a deferred one", nothing)) }))
			l.Tell("notice")
			l.Defer(step("last", nothing))
		}))
		l.Do(func() {})
		want := []string{"first", "deferred", "notice", "last", "from a deferred one", "from a notice", "second"}
		if !slices.Equal(ran, want) {
			g.T.Errorf("ran %q, want %q", ran, want)
		}
	})
}

// Everything that a turn writes, also in deferred closures, is one transaction.
func TestWritesOfATurnTravelTogether(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		l := g.NewLoop("a")
		var sent []string
		g.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if r.Client == "a" {
				var paths []string
				for _, op := range r.Ops {
					paths = append(paths, strings.TrimPrefix(op.Path, g.Tree.Root()))
				}
				sent = append(sent, strings.Join(paths, " "))
			}
			return zkdev.Pass()
		})
		results := make(map[string]error)
		write := func(name string) {
			l.Write(session.Others, []zkconn.Op{zkconn.CreateOp(g.Tree.Root()+"/"+name, nil)}, func(r session.Result) { results[name] = r.Err })
		}
		settled := false
		l.OnNotice = func(session.Notice) { write("told") }
		l.OnTurn = func() { write(fmt.Sprint("turn", len(results))); l.OnTurn = nil }
		l.OnSettled = func() (bool, error) {
			if !settled && len(results) > 0 {
				settled = true
				l.Defer(func() { write("settled") })
			}
			return false, nil
		}
		l.Start()
		l.Do(func() {})
		l.Do(func() {
			write("posted")
			l.Tell("notice")
			l.OnTurn = func() { write("turn"); l.OnTurn = nil }
		})
		l.Do(func() {})
		if want := []string{"/turn0", "/settled", "/posted /told /turn"}; !slices.Equal(sent, want) {
			g.T.Errorf("sent %q, want %q", sent, want)
		}
		for name, err := range results {
			if err != nil {
				g.T.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestRunReturnsWhatSettledSays(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for what, want := range map[string]error{"done": nil, "failed": broken} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				l := g.NewLoop("a")
				end := false
				l.OnSettled = func() (bool, error) { return end && want == nil, map[bool]error{true: want}[end] }
				l.Start()
				l.Do(func() { end = true })
				if err := <-l.Ended; !errors.Is(err, want) {
					g.T.Errorf("Run = %v, want %v", err, want)
				}
			})
		})
	}
}

// A closure that comes after the end is dropped, and blocks nobody.
func TestAfterTheEnd(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		l := g.NewLoop("a")
		l.Start()
		var asked, answered atomic.Bool
		l.Do(func() {
			l.Async("request", func(ctx context.Context) func() {
				asked.Store(true)
				<-ctx.Done()
				return func() { answered.Store(true) }
			})
		})
		l.Stop()
		if err := <-l.Ended; !errors.Is(err, context.Canceled) {
			g.T.Errorf("Run = %v, want the cause of its context", err)
		}
		select {
		case <-l.Loop.Ended():
		default:
			g.T.Error("Ended is open")
		}
		l.Do(func() { answered.Store(true) })
		if !asked.Load() || answered.Load() {
			g.T.Errorf("asked %v, answered %v after the end", asked.Load(), answered.Load())
		}
	})
}

func TestErrorOfATaskEndsTheLoop(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		l := g.NewLoop("a")
		l.Start()
		broken := errors.New("broken")
		l.Do(func() { l.Go("task", func(context.Context) error { return broken }) })
		if err := <-l.Ended; !errors.Is(err, broken) {
			g.T.Errorf("Run = %v, want %v", err, broken)
		}
	})
}

// The loop knows its session before it passes an event on; an attempt to connect that fails is no
// event.
func TestConnectionIsFollowed(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		l := g.NewLoop("a")
		var events []string
		l.OnEvent = func(ev zkconn.Event) {
			events = append(events, fmt.Sprint(ev.Kind == zkconn.Connected, l.Connected(), l.Joined()))
		}
		l.Start()
		l.Do(func() { l.SetJoined(true) })
		roomtest.Pass(time.Second)
		lost := l.Now()
		l.Client.Partition()
		roomtest.Pass(30 * time.Second)
		var lostAt time.Duration
		l.Do(func() { lostAt = l.LostAt() })
		if lostAt < lost || lostAt > lost+roomtest.SessionTimeout {
			g.T.Errorf("lost at %v, want a session timeout after %v at the latest", lostAt, lost)
		}
		if want := []string{"true true false", "false false false"}; !slices.Equal(events, want) {
			g.T.Errorf("events %q, want %q", events, want)
		}
		l.Client.Heal()
		roomtest.Pass(10 * time.Second)
		if connected := l.Connected(); !connected || l.Joined() {
			g.T.Errorf("connected %v, joined %v; want a connection, and to join again", connected, l.Joined())
		}
	})
}

func TestJoinedIsLostAtOnce(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		l := g.NewLoop("a")
		l.Start()
		l.Do(func() { l.SetJoined(true) })
		roomtest.Pass(time.Second)
		l.Do(func() {
			before := l.LostAt()
			l.SetJoined(true)
			if l.LostAt() != before {
				g.T.Error("joining again counts as a loss")
			}
			l.SetJoined(false)
			if l.LostAt() != l.Now() {
				g.T.Errorf("lost at %v, want now, %v", l.LostAt(), l.Now())
			}
			if first, second := l.BeginAttempt(), l.BeginAttempt(); second != first+1 || l.Attempt() != second {
				g.T.Errorf("attempts %d, %d and %d", first, second, l.Attempt())
			}
		})
	})
}

// While ZooKeeper is unreachable, an instance logs why, once per session timeout.
func TestUnreachableZooKeeperIsLogged(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		count := func(l *roomtest.Loop) int { return strings.Count(l.Log.String(), "ZooKeeper cannot be reached") }
		a := g.NewLoop("a")
		a.Start()
		g.Server.Stop()
		b := g.NewLoop("b") // which never reaches it
		b.Start()
		roomtest.Pass(30 * time.Second)
		for _, l := range []*roomtest.Loop{a, b} {
			if n := count(l); n == 0 || n > int(30*time.Second/roomtest.SessionTimeout) {
				g.T.Errorf("%d messages in 30 s, want one per session timeout:\n%s", n, l.Log)
			}
			if text := l.Log.String(); !strings.Contains(text, zkdev.ErrStopped.Error()) || !strings.Contains(text, "for=4s") {
				g.T.Errorf("log %q, want it to say why, and for how long", text)
			}
		}
		if err := g.Server.Restart(zkdev.DropSessions); err != nil {
			g.T.Fatal(err)
		}
		roomtest.Pass(10 * time.Second)
		before := count(a) + count(b)
		roomtest.Pass(30 * time.Second)
		if after := count(a) + count(b); after != before {
			g.T.Errorf("%d messages while ZooKeeper is reachable", after-before)
		}
	})
}

// However short the session timeout is, the log is not flooded.
func TestUnreachableZooKeeperIsLoggedAtAPace(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Server.Stop()
		g.Session = time.Millisecond
		l := g.NewLoop("a")
		l.OnNext = func(time.Duration) time.Duration { return l.Now() + time.Millisecond }
		l.Start()
		roomtest.Pass(10 * time.Second)
		if n := strings.Count(l.Log.String(), "ZooKeeper cannot be reached"); n == 0 || n > 10 {
			g.T.Errorf("%d messages in 10 s, want at most one each second", n)
		}
	})
}
