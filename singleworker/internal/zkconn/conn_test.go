package zkconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Every test runs in virtual time, in a bubble, and fails if a closed connection leaves a goroutine
// behind.

func TestGet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/there", "data", 5)
		s.absent.Store(true)
		conn := s.open(t, Config{}, nil)
		if conn.SessionTimeout() != asked || conn.SessionID() != 0 {
			t.Errorf("before it is connected: timeout %v, session %d; want the %v asked for, none",
				conn.SessionTimeout(), conn.SessionID(), asked)
		}
		s.absent.Store(false)
		data, stat, err := conn.Get(t.Context(), "/there")
		if string(data) != "data" || stat.Version != 5 || err != nil {
			t.Errorf("Get = %q, %+v, %v; want data of version 5", data, stat, err)
		}
		if id := s.session(); conn.SessionTimeout() != granted || conn.SessionID() != id || id == 0 {
			t.Errorf("connected: timeout %v, session %d; want the %v granted, %d",
				conn.SessionTimeout(), conn.SessionID(), granted, id)
		}
		var op *OpError
		if _, _, err := conn.Get(t.Context(), "/gone"); !errors.Is(err, ErrNoNode) || !errors.As(err, &op) || op.Path != "/gone" {
			t.Errorf("Get of no node = %v, want ErrNoNode of /gone", err)
		}
		conn.Close()
		conn.Close() // idempotent
		s.wantRequests(t, "getData /there", "getData /gone", "closeSession ")
		if id := s.session(); id != 0 {
			t.Errorf("the server has session %d when the connection is closed", id)
		}
	})
}

func TestIdleSessionIsKeptAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		var events []EventKind
		conn := s.open(t, Config{}, func(ev Event) { events = append(events, ev.Kind) })
		time.Sleep(time.Hour)
		if id := s.session(); id == 0 || id != conn.SessionID() {
			t.Errorf("after an hour the server has session %d, the connection %d", id, conn.SessionID())
		}
		conn.Close()
		if want := []EventKind{Connected, Disconnected}; !slices.Equal(events, want) {
			t.Errorf("events %v, want %v: connected for an hour, then closed", events, want)
		}
	})
}

func TestCallsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	const timeout = 1500 * time.Millisecond // less than the library's own
	for what, call := range map[string]func(context.Context, *Conn) error{
		"get":      func(ctx context.Context, c *Conn) error { _, _, err := c.Get(ctx, "/a"); return err },
		"children": func(ctx context.Context, c *Conn) error { _, _, err := c.Children(ctx, "/a"); return err },
		"exists":   func(ctx context.Context, c *Conn) error { _, _, err := c.Exists(ctx, "/a"); return err },
		"multi":    func(ctx context.Context, c *Conn) error { _, err := c.Multi(ctx, DeleteOp("/a", 1)); return err },
		"create":   func(ctx context.Context, c *Conn) error { return c.EnsureRoot(ctx, "/a") },
		"sequential": func(ctx context.Context, c *Conn) error {
			_, err := c.CreateEphemeralSequential(ctx, "/a/n-", nil)
			return err
		},
		"getACL": func(ctx context.Context, c *Conn) error { return c.InheritACL(ctx, "/a") },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t)
			s.hang()
			conn := s.open(t, Config{}, nil)
			synctest.Wait()
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			err := call(ctx, conn)
			if !errors.Is(err, context.DeadlineExceeded) || !IsUnknown(err) || time.Since(start) != timeout {
				t.Errorf("%s: %v after %v, want its context's end after %v", what, err, time.Since(start), timeout)
			}
			if n := len(s.requests()); n != 1 {
				t.Errorf("%s: the server got %d requests, want the one that it did not answer", what, n)
			}
		})
	}
}

func TestCallsWithoutConnectionEndWithTheirContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.absent.Store(true)
		conn := s.open(t, Config{Servers: "zk1,zk2", Auth: "app:secret"}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if _, _, err := conn.Get(ctx, "/a"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("Get without a server = %v after %v, want the context's end after 1m", err, time.Since(start))
		}
	})
}

func TestCloseEndsCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.hang()
		conn := s.open(t, Config{}, nil)
		const calls = 20
		answers := make(chan error, calls)
		for range calls {
			go func() { _, _, err := conn.Get(t.Context(), "/a"); answers <- err }()
		}
		synctest.Wait()
		start := time.Now()
		conn.Close()
		if took := time.Since(start); took != time.Second {
			t.Errorf("Close took %v, want the second that a server has to answer", took)
		}
		for range calls {
			if err := <-answers; !errors.Is(err, ErrLost) || !errors.Is(err, ErrClosed) {
				t.Errorf("a call under way ended with %v, want ErrLost because of ErrClosed", err)
			}
		}
		if _, _, err := conn.Get(t.Context(), "/a"); !errors.Is(err, ErrClosed) || errors.Is(err, ErrLost) {
			t.Errorf("Get after Close = %v, want ErrClosed alone", err)
		}
	})
}

// Before Open and after Close, calls say why there is no connection, and nobody waits for one.
func TestCallsWithoutAConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		errNotYet := errors.New("not running")
		conn, err := New(Config{Servers: "zk1/app", SessionTimeout: asked, Logger: discard, Dial: s.dial, Closed: errNotYet})
		if err != nil {
			t.Fatal(err)
		}
		want := func(when string, err error) {
			t.Helper()
			if !errors.Is(err, errNotYet) || !errors.Is(err, ErrClosed) {
				t.Errorf("%s: %v, want ErrClosed and the reason", when, err)
			}
		}
		ask := func() error {
			return conn.Retry(t.Context(), func() error {
				_, err := conn.MultiOn(t.Context(), "/a", 0, DeleteOp("/a", AnyVersion))
				return err
			})
		}
		want("before Open", ask())
		if zxid := conn.Zxid(); zxid != 0 {
			t.Errorf("has seen transaction %d before Open", zxid)
		}
		s.absent.Store(true)
		if err := conn.Open(nil); err != nil {
			t.Fatal(err)
		}
		open, stop := conn.WhileOpen(t.Context())
		defer stop()
		short, stopShort := conn.WhileOpen(t.Context())
		stopShort()
		answer := make(chan error, 1)
		go func() { answer <- ask() }()
		time.Sleep(time.Minute)
		if len(answer) > 0 || open.Err() != nil || short.Err() == nil {
			t.Errorf("while the server is away: %d answers, contexts ended with %v and %v", len(answer), open.Err(), short.Err())
		}
		conn.Close()
		synctest.Wait()
		select {
		case err := <-answer:
			want("Close", err)
		default:
			t.Error("a call waits after Close")
		}
		want("the cause of the context", context.Cause(open))
		want("after Close", ask())
		late, stop := conn.WhileOpen(t.Context())
		defer stop()
		<-late.Done()
	})
}

func TestCloseWithoutAServer(t *testing.T) {
	t.Parallel()
	for what, auth := range map[string]string{"no credentials": "", "credentials not sent": "app:secret"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t)
				s.absent.Store(true)
				conn := s.open(t, Config{Auth: auth}, nil)
				answer := make(chan error, 1)
				go func() { _, _, err := conn.Get(t.Context(), "/a"); answer <- err }()
				time.Sleep(10 * time.Second)
				start := time.Now()
				conn.Close()
				if took := time.Since(start); took > 3*time.Second {
					t.Errorf("Close took %v", took)
				}
				if err := <-answer; !errors.Is(err, ErrLost) && !errors.Is(err, ErrClosed) {
					t.Errorf("the call ended with %v, want ErrLost or ErrClosed", err)
				}
				if _, _, err := conn.Get(t.Context(), "/a"); !errors.Is(err, ErrClosed) || errors.Is(err, ErrLost) {
					t.Errorf("Get after Close = %v, want ErrClosed alone", err)
				}
			})
		})
	}
}

func TestCallsFailOnLostConnectionThenRecover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/a", "data", 0)
		var events []EventKind
		conn := s.open(t, Config{}, func(ev Event) { events = append(events, ev.Kind) })
		time.Sleep(time.Minute)
		s.Control(zkdev.OpGetData, func(*zkdev.Request) zkdev.Action { return zkdev.Delay(time.Hour) })
		answer := make(chan error, 1)
		go func() { _, _, err := conn.Get(t.Context(), "/a"); answer <- err }()
		synctest.Wait()
		s.Disconnect(conn.SessionID())
		if err := <-answer; !errors.Is(err, ErrLost) || !IsUnknown(err) {
			t.Errorf("the call under way ended with %v, want ErrLost", err)
		}
		if data, _, err := conn.Get(t.Context(), "/a"); err != nil || string(data) != "data" {
			t.Errorf("Get afterwards = %q, %v", data, err)
		}
		synctest.Wait()
		if want := []EventKind{Connected, Disconnected, Connected}; !slices.Equal(events, want) {
			t.Errorf("events %v, want %v", events, want)
		}
	})
}

// A change while there was no connection is an event of the next one, also when much else is asked
// then. With the race detector it shows that the library's two loops share nothing: they did, with
// the last transaction of a reply.
func TestChangeWithoutConnectionIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/watched", "", 0)
		s.have(t, "/children", "", 0)
		changed := make(chan string, 10)
		conn := s.open(t, Config{}, func(ev Event) {
			if ev.Kind == NodeChanged {
				changed <- ev.Path
			}
		})
		for round := range 5 {
			if _, _, err := conn.GetW(t.Context(), "/watched"); err != nil {
				t.Fatal(err)
			}
			if _, _, err := conn.ChildrenW(t.Context(), "/children"); err != nil {
				t.Fatal(err)
			}
			s.absent.Store(true)
			s.Disconnect(conn.SessionID())
			synctest.Wait()
			s.have(t, fmt.Sprintf("/children/%d", round), "", 0)
			if _, err := s.hand.Multi(t.Context(), SetOp("/watched", nil, AnyVersion)); err != nil {
				t.Fatal(err)
			}
			s.absent.Store(false)
			var reading sync.WaitGroup
			for range 20 {
				reading.Go(func() {
					_ = conn.Retry(t.Context(), func() error {
						_, _, err := conn.Get(t.Context(), "/watched")
						return err
					})
				})
			}
			got := []string{<-changed, <-changed}
			reading.Wait()
			if slices.Sort(got); !slices.Equal(got, []string{"/children", "/watched"}) {
				t.Errorf("round %d: %v have changed", round, got)
			}
		}
	})
}

func TestExpiredSessionIsReportedAndReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/watched", "", 0)
		var events []Event
		conn := s.open(t, Config{}, func(ev Event) { events = append(events, ev) })
		if _, _, err := conn.GetW(t.Context(), "/watched"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		old := conn.SessionID()
		if err := s.ExpireSession(old); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it learns of the end from a timeout of 0 and requests a new session
		if _, _, err := conn.Get(t.Context(), "/watched"); err != nil {
			t.Fatal(err)
		}
		if got := conn.SessionTimeout(); got != granted || conn.SessionID() != s.session() || conn.SessionID() == old {
			t.Errorf("session %#x with timeout %v, want the new one %#x with %v", conn.SessionID(), got, s.session(), granted)
		}
		var kinds []EventKind
		for _, ev := range events {
			if ev.Kind != Disconnected { // depends on the number of attempts
				kinds = append(kinds, ev.Kind)
			}
		}
		if want := []EventKind{Connected, Expired, NodeChanged, Connected}; !slices.Equal(kinds, want) {
			t.Errorf("events %v, want %v: the watch went with the session", kinds, want)
		}
	})
}

func TestWatchIsSetOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/prod", "", 0)
		s.have(t, "/prod/a", "", 0)
		var mu sync.Mutex
		var events []Event
		conn := s.open(t, Config{Servers: "zk1/prod"}, func(ev Event) {
			mu.Lock()
			defer mu.Unlock()
			if ev.Kind == NodeChanged {
				events = append(events, ev)
			}
		})
		get := func(path string) { _, _, _ = conn.GetW(t.Context(), path) }
		list := func(path string) { _, _, _ = conn.ChildrenW(t.Context(), path) }

		get("/a")
		get("/a")
		list("/a") // another watch of the same node
		list("/a")
		if _, err := s.hand.Multi(t.Context(), SetOp("/prod/a", nil, AnyVersion)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		get("/a") // the event has consumed the watch
		get("/absent")
		s.have(t, "/prod/absent", "", 0)
		get("/absent") // it could not be set on the missing node
		get("/absent")
		conn.Close()
		s.wantRequests(t,
			"getData /prod/a and watch", "getData /prod/a", "getChildren2 /prod/a and watch", "getChildren2 /prod/a",
			"getData /prod/a and watch", "getData /prod/absent and watch", "getData /prod/absent and watch",
			"getData /prod/absent", "closeSession ")
		mu.Lock()
		defer mu.Unlock()
		if len(events) == 0 || events[0] != (Event{Kind: NodeChanged, Path: "/a"}) {
			t.Errorf("events %v, want first that of /a, as callers name it", events)
		}
	})
}

// breaking is a connection that breaks at the first write after the connect request.
type breaking struct {
	net.Conn
	writes int // of the one writer
}

func (c *breaking) Write(p []byte) (int, error) {
	if c.writes++; c.writes > 1 {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// The library blocks forever if the connection breaks while it repeats the credentials, unless only
// its reader reports the error.
func TestConnectionLostDuringAuthIsReplaced(t *testing.T) {
	t.Parallel()
	for what, breaks := range map[string]func(s *server, conn net.Conn) net.Conn{
		"as they are written": func(_ *server, conn net.Conn) net.Conn { return &breaking{Conn: conn} },
		"as they are answered": func(s *server, conn net.Conn) net.Conn {
			s.Control(zkdev.OpAuth, func(*zkdev.Request) zkdev.Action { return zkdev.CutBefore() })
			return conn
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t)
			s.have(t, "/a", "data", 0)
			var attempts atomic.Int32
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := s.dial(ctx, network, address)
				if attempts.Add(1) == 2 {
					return breaks(s, conn), err
				}
				return conn, err
			}
			c := s.open(t, Config{Auth: "user:secret", Dial: dial}, nil)
			if _, _, err := c.Get(t.Context(), "/a"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			s.Disconnect(c.SessionID())
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, _, err := c.Get(ctx, "/a")
			for IsUnknown(err) && ctx.Err() == nil { // sent on a connection that was lost
				_, _, err = c.Get(ctx, "/a")
			}
			if n := attempts.Load(); err != nil || n < 3 {
				t.Errorf("%s: Get = %v after %d attempts to connect, want an answer over the third", what, err, n)
			}
		})
	}
}

// A server that accepts but does not complete the handshake is abandoned after the attempt's
// timeout.
func TestSilentServerIsAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/a", "data", 0)
		s.Control(zkdev.OpConnect, func(*zkdev.Request) zkdev.Action { return zkdev.Delay(time.Hour) })
		conn := s.open(t, Config{Servers: "zk1,zk2"}, nil)
		start := time.Now()
		if _, _, err := conn.Get(t.Context(), "/a"); err != nil || time.Since(start) != asked/3 {
			t.Errorf("Get = %v after %v, want it answered by the other server after %v", err, time.Since(start), asked/3)
		}
	})
}

func TestSessionSurvivesSilentServer(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(s *server, session int64){
		"its server restarts":     func(s *server, session int64) { s.Disconnect(session) },
		"its server falls silent": func(s *server, _ int64) { s.client.Partition() },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t)
			s.have(t, "/a", "data", 0)
			attempts := 0
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				if attempts++; attempts == 1 {
					return s.dial(ctx, network, address)
				}
				return s.Dial(ctx, network, address) // another server
			}
			conn := s.open(t, Config{Servers: "zk1,zk2,zk3", Dial: dial}, nil)
			time.Sleep(time.Minute)
			session := conn.SessionID()
			s.Control(zkdev.OpConnect, func(*zkdev.Request) zkdev.Action { return zkdev.Delay(time.Hour) })
			lose(s, session)
			time.Sleep(granted)
			if _, _, err := conn.Get(t.Context(), "/a"); err != nil || conn.SessionID() != session || attempts != 3 {
				t.Errorf("%s: Get = %v in session %#x after %d attempts, want %#x still, from the third server",
					what, err, conn.SessionID(), attempts, session)
			}
		})
	}
}

// Trouble reports why there is no connection, until there is one.
func TestTrouble(t *testing.T) {
	t.Parallel()
	for want, greet := range map[string]zkdev.Action{
		"handshake with zk1:2181: EOF; " + WhyHungUp:                  zkdev.CutBefore(), // like a server without a quorum
		"handshake with zk1:2181: read in-process zkdev: i/o timeout": zkdev.Delay(time.Hour),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t)
			s.have(t, "/a", "data", 0)
			wantTrouble := func(c *Conn, want string) {
				t.Helper()
				if got := fmt.Sprint(c.Trouble()); got != want {
					t.Errorf("trouble %q, want %q", got, want)
				}
			}
			s.absent.Store(true)
			conn := s.open(t, Config{}, nil)
			synctest.Wait()
			wantTrouble(conn, errRefused.Error())

			s.absent.Store(false)
			greets := s.ControlKeep(zkdev.OpConnect, func(*zkdev.Request) zkdev.Action { return greet })
			time.Sleep(30 * time.Second)
			wantTrouble(conn, want)

			greets()
			time.Sleep(30 * time.Second)
			wantTrouble(conn, fmt.Sprint(nil))
			s.Disconnect(conn.SessionID())
			synctest.Wait()
			wantTrouble(conn, fmt.Sprint(nil)) // losing a connection is not a failed attempt
		})
	}
}

func TestSlowDialSucceeds(t *testing.T) {
	t.Parallel()
	for takes, connected := range map[time.Duration]time.Duration{
		2 * time.Second: 2 * time.Second,
		9 * time.Second: time.Minute, // later attempts get more time
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t)
			s.have(t, "/a", "data", 0)
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				select {
				case <-time.After(takes):
					return s.dial(ctx, network, address)
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			conn := s.open(t, Config{Servers: "zk1,zk2,zk3", SessionTimeout: 10 * time.Second, Dial: dial}, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			start := time.Now()
			_, _, err := conn.Get(ctx, "/a")
			for errors.Is(err, ErrLost) { // each round through the servers fails queued requests
				_, _, err = conn.Get(ctx, "/a")
			}
			if err != nil || time.Since(start) > connected {
				t.Errorf("Get over a Dial that takes %v = %v after %v, want an answer after %v", takes, err, time.Since(start), connected)
			}
		})
	}
}

func TestOpenRejectsInvalidConfig(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		`servers "": has an empty address, want "host:port,host:port/chroot"`: {},
		`ACL: entry "auth::r" needs Auth`:                                     {Servers: "zk1", ACL: "auth::r"},
	} {
		if conn, err := Open(cfg, nil); err == nil || err.Error() != want {
			t.Errorf("Open(%+v) = %v, %v; want %s", cfg, conn, err, want)
		}
	}
}
