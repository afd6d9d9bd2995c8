package zkconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
)

// gate holds up writes while it is not nil, until the channel is closed.
type gate struct{ atomic.Pointer[chan struct{}] }

// gated is a connection whose writes a gate can hold up.
type gated struct {
	net.Conn
	gate *gate
}

func (c gated) Write(p []byte) (int, error) {
	if closed := c.gate.Load(); closed != nil {
		<-*closed
	}
	return c.Conn.Write(p)
}

// A process that is stopped, and whose session ends meanwhile, must not send in the next session
// the writes of the old one: by then, another process may have taken its place.
func TestRequestsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	// With one server, the library empties its queue in between; with more, by chance.
	for _, servers := range slices.Repeat([]string{"zk1", "zk1,zk2,zk3"}, 10) {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t)
			var gate gate
			conn := s.open(t, Config{Servers: servers, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				raw, err := s.dial(ctx, network, address)
				return gated{raw, &gate}, err
			}}, nil)
			if _, _, err := conn.Get(t.Context(), "/"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute) // after less than a second the library empties its queue
			old := s.session()
			opens := make(chan struct{})
			gate.Store(&opens)
			const calls = 50 // one in Write, 16 in the library's queue, the others wait for a place in it
			answers := make(chan error, calls)
			for i := range calls {
				go func() {
					_, err := conn.Multi(t.Context(), CreateOp(fmt.Sprintf("/late-%d", i), nil))
					answers <- err
				}()
			}
			synctest.Wait()
			if err := s.ExpireSession(old); err != nil {
				t.Fatal(err)
			}
			gate.Store(nil)
			close(opens)
			for range calls {
				if err := <-answers; !errors.Is(err, ErrLost) {
					t.Errorf("%s: a call of the old session ended with %v, want ErrLost", servers, err)
				}
			}
			var names []string
			err := conn.Retry(t.Context(), func() (err error) {
				names, _, err = conn.Children(t.Context(), "/")
				return err
			})
			if s.session() == old {
				t.Errorf("%s: session %#x has not ended", servers, old)
			}
			if err != nil || len(names) != 1 {
				t.Errorf("%s: nodes %v, %v, want no late one", servers, names, err)
			}
		})
	}
}

// After its session has expired, a connection of the library finds no server: it fails queued
// requests, and begins no other session.
func TestExpiredSessionFindsNoServer(t *testing.T) {
	t.Parallel()
	c := &Conn{closing: t.Context()}
	s := &session{conn: c, begun: make(chan struct{})}
	close(s.begun)
	s.over, s.end = context.WithCancel(t.Context())
	hosts := newHosts(t, "zk1:1", "zk2:1")
	s.event(zk.Event{Type: zk.EventSession, State: zk.StateExpired})
	if server, empties := (provider{hosts, s}).Next(); server != "" || !empties {
		t.Errorf("the next server is %q, the queue is emptied: %v; want none, and that it is", server, empties)
	}
	if _, err := c.dial(s, "tcp", "zk1:1"); !errors.Is(err, errExpired) {
		t.Errorf("dial: %v, want that the session has expired", err)
	}
	if s.over.Err() == nil {
		t.Error("the session is not over")
	}
}

// Each subscriber hears of everything in the same order, from when it has subscribed until it ends
// that.
func TestSubscribers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/a", "", 0)
		conn, err := New(Config{Servers: "zk1", SessionTimeout: asked, Logger: discard, Dial: s.dial})
		if err != nil {
			t.Fatal(err)
		}
		heard := make([][]EventKind, 3)
		subscribe := func(i int) (stop func()) {
			return conn.Subscribe(func(ev Event) { heard[i] = append(heard[i], ev.Kind) })
		}
		subscribe(0)
		stop := subscribe(1)
		if err := conn.Open(nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		subscribe(2)
		if _, _, err := conn.GetW(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		s.change(t, SetOp("/a", nil, AnyVersion))
		synctest.Wait()
		stop()
		if err := s.ExpireSession(conn.SessionID()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		conn.Close()
		first := []EventKind{Connected, NodeChanged}
		if !slices.Equal(heard[1], first) || !slices.Equal(heard[0][:2], first) || !slices.Contains(heard[0], Expired) {
			t.Errorf("heard %v and, until the end of the first session, %v", heard[0], heard[1])
		}
		if !slices.Equal(heard[2], heard[0][1:]) {
			t.Errorf("heard %v since the first Connected, want %v", heard[2], heard[0][1:])
		}
	})
}

// A forgetful connection asks the server for a new session, as if the client had none: the reply is
// the one of a server that continues no sessions, such as ClickHouse Keeper.
type forgetful struct {
	net.Conn

	asked bool
}

func (f *forgetful) Write(p []byte) (int, error) {
	if !f.asked {
		f.asked = true
		p = bytes.Clone(p)
		clear(p[connectSessionAt : connectSessionAt+8])
	}
	return f.Conn.Write(p)
}

// A server that answers with another session than the one that was to be continued has ended that:
// the client hears so, and nothing that was asked in the old session is done in the new one.
func TestAnotherSessionIsAnExpiredOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		var kinds []EventKind
		conn := s.open(t, Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := s.dial(ctx, network, address)
			return &forgetful{Conn: raw}, err
		}}, func(ev Event) { kinds = append(kinds, ev.Kind) })
		if _, err := conn.Multi(t.Context(), CreateEphemeralOp("/first", nil)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			old := conn.SessionID()
			time.Sleep(time.Minute) // after less than a second the library empties its queue
			kinds = nil
			s.absent.Store(true)
			s.Disconnect(old)
			time.Sleep(500 * time.Millisecond) // the library waits for a second
			s.absent.Store(false)
			if _, err := conn.Multi(t.Context(), CreateEphemeralOp(fmt.Sprintf("/in-%x", old), nil)); !errors.Is(err, ErrLost) {
				t.Errorf("a request of session %#x: %v, want that it was lost", old, err)
			}
			time.Sleep(5 * time.Second)
			if id := conn.SessionID(); id == old || id != s.session() {
				t.Errorf("session %#x after %#x, the server has %#x", id, old, s.session())
			}
			attempts := func(kind EventKind) bool { return kind == Disconnected }
			if got := slices.DeleteFunc(kinds, attempts); !slices.Equal(got, []EventKind{Expired, Connected}) {
				t.Errorf("events %v, want that the session has expired, and the next", got)
			}
			if n := len(s.Sessions()); n != 2 {
				t.Errorf("%d sessions, want ours and the other client's", n)
			}
		}
	})
}
