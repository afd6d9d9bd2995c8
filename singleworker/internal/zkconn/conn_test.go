package zkconn

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
)

// Every test runs in virtual time, in a bubble: a goroutine that a closed connection
// leaves behind fails it.

// wantRequests compares what the server was asked for with what it should be.
func wantRequests(t *testing.T, p *peer, want ...string) {
	t.Helper()
	if got := p.requests(); !slices.Equal(got, want) {
		t.Errorf("requests:\n  %q\nwant:\n  %q", got, want)
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		p.answer = func(r request) reply {
			if r.path == "/there" {
				return node("data", 5)
			}
			return reply{code: codeNoNode}
		}
		p.refuse = errors.New("connection refused")
		conn := p.open(t, Config{}, nil)
		if conn.SessionTimeout() != 6*time.Second || conn.SessionID() != 0 {
			t.Errorf("before it is connected: timeout %v, session %d; want the 6s asked for, none",
				conn.SessionTimeout(), conn.SessionID())
		}
		p.mu.Lock()
		p.refuse = nil
		p.mu.Unlock()
		data, stat, err := conn.Get(t.Context(), "/there")
		if string(data) != "data" || stat.Version != 5 || err != nil {
			t.Errorf("Get = %q, %+v, %v; want data of version 5", data, stat, err)
		}
		if conn.SessionTimeout() != 4*time.Second || conn.SessionID() != sessionID {
			t.Errorf("connected: timeout %v, session %d; want the 4s granted, %d",
				conn.SessionTimeout(), conn.SessionID(), sessionID)
		}
		var op *OpError
		if _, _, err := conn.Get(t.Context(), "/gone"); !errors.Is(err, ErrNoNode) || !errors.As(err, &op) || op.Path != "/gone" {
			t.Errorf("Get of no node = %v, want ErrNoNode of /gone", err)
		}
		conn.Close()
		conn.Close() // idempotent
		wantRequests(t, p, "get /there", "get /gone", "close ")
	})
}

func TestSessionIsKeptAliveWhileNobodyCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		var events []EventKind
		conn := p.open(t, Config{}, func(ev Event) { events = append(events, ev.Kind) })
		time.Sleep(time.Hour)
		conn.Close()
		if want := []EventKind{Connected, Disconnected}; !slices.Equal(events, want) {
			t.Errorf("events %v, want %v: connected for an hour, then closed", events, want)
		}
	})
}

func TestCallsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		p.answer = func(request) reply { return reply{silent: true} }
		conn := p.open(t, Config{}, nil)
		for what, call := range map[string]func(context.Context) error{
			"get":      func(ctx context.Context) error { _, _, err := conn.Get(ctx, "/a"); return err },
			"children": func(ctx context.Context) error { _, _, err := conn.Children(ctx, "/a"); return err },
			"exists":   func(ctx context.Context) error { _, _, err := conn.Exists(ctx, "/a"); return err },
			"multi":    func(ctx context.Context) error { _, err := conn.Multi(ctx, DeleteOp("/a", 1)); return err },
			"create":   func(ctx context.Context) error { return conn.EnsureRoot(ctx, "/a") },
			"getACL":   func(ctx context.Context) error { return conn.ACLOf(ctx, "/a") },
		} {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			err := call(ctx)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || !IsUnknown(err) || time.Since(start) != 1500*time.Millisecond {
				t.Errorf("%s: %v after %v, want its context's end after 1.5s", what, err, time.Since(start))
			}
		}
	})
}

func TestCallsWaitForAConnectionNoLongerThanTheirContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		p.refuse = errors.New("connection refused")
		conn := p.open(t, Config{Servers: "zk1,zk2", Auth: "app:secret"}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if _, _, err := conn.Get(ctx, "/a"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("Get without a server = %v after %v, want the context's end after 1m", err, time.Since(start))
		}
	})
}

func TestCloseEndsCallsWithErrLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		p.answer = func(request) reply { return reply{silent: true} }
		conn := p.open(t, Config{}, nil)
		const calls = 20
		answers := make(chan error, calls)
		for range calls {
			go func() { _, _, err := conn.Get(t.Context(), "/a"); answers <- err }()
		}
		synctest.Wait()
		conn.Close()
		for range calls {
			if err := <-answers; !errors.Is(err, ErrLost) {
				t.Errorf("a call under way ended with %v, want ErrLost", err)
			}
		}
		if _, _, err := conn.Get(t.Context(), "/a"); !errors.Is(err, ErrLost) {
			t.Errorf("Get after Close = %v, want ErrLost", err)
		}
	})
}

func TestCloseWithoutAServer(t *testing.T) {
	t.Parallel()
	for what, auth := range map[string]string{"no credentials": "", "credentials not sent": "app:secret"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPeer()
				p.refuse = errors.New("connection refused")
				conn := p.open(t, Config{Auth: auth}, nil)
				answer := make(chan error, 1)
				go func() { _, _, err := conn.Get(t.Context(), "/a"); answer <- err }()
				time.Sleep(10 * time.Second)
				start := time.Now()
				conn.Close()
				if took := time.Since(start); took > 3*time.Second {
					t.Errorf("Close took %v", took)
				}
				if err := <-answer; !errors.Is(err, ErrLost) {
					t.Errorf("the call ended with %v, want ErrLost", err)
				}
			})
		})
	}
}

func TestLostConnectionEndsCallsAndTheNextOneWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		p.answer = func(r request) reply {
			if r.path == "/hangs" {
				return reply{silent: true}
			}
			return node("data", 1)
		}
		var events []EventKind
		conn := p.open(t, Config{}, func(ev Event) { events = append(events, ev.Kind) })
		answer := make(chan error, 1)
		go func() { _, _, err := conn.Get(t.Context(), "/hangs"); answer <- err }()
		time.Sleep(time.Minute)
		p.hangUp()
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

func TestExpiredSessionIsReportedAndANewOneFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		p.answer = func(request) reply { return node("", 1) }
		var events []Event
		conn := p.open(t, Config{}, func(ev Event) { events = append(events, ev) })
		if _, _, err := conn.GetW(t.Context(), "/watched"); err != nil {
			t.Fatal(err)
		}
		p.mu.Lock()
		p.session = 0
		p.mu.Unlock()
		time.Sleep(time.Minute)
		p.hangUp()
		time.Sleep(500 * time.Millisecond)
		p.mu.Lock()
		p.session = 0x5678
		p.mu.Unlock()
		if _, _, err := conn.Get(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		if got := conn.SessionTimeout(); got != 4*time.Second || conn.SessionID() != 0x5678 {
			t.Errorf("session %#x with timeout %v, want the new one with 4s", conn.SessionID(), got)
		}
		var kinds []EventKind
		for _, ev := range events {
			if ev.Kind != Disconnected { // how often it had to try
				kinds = append(kinds, ev.Kind)
			}
		}
		if want := []EventKind{Connected, Expired, NodeChanged, Connected}; !slices.Equal(kinds, want) {
			t.Errorf("events %v, want %v: the watch went with the session", kinds, want)
		}
	})
}

func TestAWatchIsSetOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		fail := true
		p.answer = func(r request) reply {
			if r.path == "/prod/absent" && fail {
				fail = false
				return reply{code: codeNoNode}
			}
			if r.op == "children" {
				return reply{body: putStat(put(nil, 0), 0)}
			}
			return node("", 1)
		}
		var mu sync.Mutex
		var events []Event
		conn := p.open(t, Config{Servers: "zk1/prod"}, func(ev Event) {
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
		p.notify(zk.EventNodeDataChanged, "/prod/a")
		synctest.Wait()
		get("/a") // the event has used it up
		get("/absent")
		get("/absent") // it could not be set before
		get("/absent")
		conn.Close()
		wantRequests(t, p,
			"get /prod/a and watch", "get /prod/a", "children /prod/a and watch", "children /prod/a",
			"get /prod/a and watch", "get /prod/absent and watch", "get /prod/absent and watch", "get /prod/absent", "close ")
		mu.Lock()
		defer mu.Unlock()
		if len(events) == 0 || events[0] != (Event{Kind: NodeChanged, Path: "/a"}) {
			t.Errorf("events %v, want first that of /a, as callers name it", events)
		}
	})
}

// The library waits for ever when the connection breaks as it repeats the credentials on
// it, unless it hears of that from its reader alone.
func TestAConnectionThatBreaksAsCredentialsAreRepeatedIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		p.answer = func(request) reply { return node("data", 1) }
		attempts := 0
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			if attempts++; attempts != 2 {
				return p.dial(ctx, network, address)
			}
			client, server := net.Pipe()
			go func() { // greets, and hangs up
				defer func() { _ = server.Close() }()
				if _, err := readFrame(server); err != nil {
					return
				}
				_, _ = server.Write(response(4 * time.Second))
			}()
			return client, nil
		}
		c := p.open(t, Config{Auth: "user:secret", Dial: dial}, nil)
		if _, _, err := c.Get(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		p.hangUp()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err := c.Get(ctx, "/b")
		for IsUnknown(err) && ctx.Err() == nil { // sent on a connection that broke
			_, _, err = c.Get(ctx, "/b")
		}
		if err != nil || attempts < 3 {
			t.Errorf("Get = %v after %d attempts to connect, want an answer over the third", err, attempts)
		}
	})
}
