package zkdev

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// A fakeListener accepts the connections that a test passes to it.
type fakeListener struct {
	accepts chan accepted
	closed  chan struct{}
}

type accepted struct {
	conn net.Conn
	err  error
}

func newFakeListener() *fakeListener {
	return &fakeListener{accepts: make(chan accepted), closed: make(chan struct{})}
}

func (l *fakeListener) Accept() (net.Conn, error) {
	select {
	case next := <-l.accepts:
		return next.conn, next.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *fakeListener) Close() error {
	close(l.closed)
	return nil
}

func (l *fakeListener) Addr() net.Addr { return pipeAddr("fake") }

// listening returns a life on a listener; it ends with the test.
func listening(t *testing.T, listener net.Listener) *life {
	t.Helper()
	config, err := Config{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	l := newLife(newCore(config, time.Now()), listener)
	t.Cleanup(l.end)
	return l
}

// TestAcceptContinuesAfterErrors: running out of file descriptors is temporary.
func TestAcceptContinuesAfterErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := newFakeListener()
		l := listening(t, listener)
		near, far := newPipe("client", "zkdev", Latency{})
		for _, next := range []accepted{{err: syscall.EMFILE}, {err: syscall.ECONNABORTED}, {conn: far}} {
			select {
			case listener.accepts <- next:
			case <-time.After(time.Minute):
				t.Fatalf("%+v was not accepted", next)
			}
		}
		if _, err := near.Write([]byte("ruok")); err != nil {
			t.Error(err)
		}
		answer := make([]byte, 4)
		if _, err := near.Read(answer); err != nil || string(answer) != "imok" {
			t.Errorf("ruok = %q, %v", answer, err)
		}

		// A life that ends does not wait for the next attempt.
		listener.accepts <- accepted{err: syscall.EMFILE}
		synctest.Wait()
		begin := time.Now()
		l.end()
		if took := time.Since(begin); took != 0 {
			t.Errorf("the end took %v", took)
		}
	})
}

// A checkingListener checks something when it is closed.
type checkingListener struct {
	*fakeListener

	check func()
}

func (l *checkingListener) Close() error {
	l.check()
	return l.fakeListener.Close()
}

// TestAddressIsFreeWhenALifeIsOver: another Start can then listen on it.
func TestAddressIsFreeWhenALifeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := &checkingListener{fakeListener: newFakeListener()}
		l := listening(t, listener)
		listener.check = func() {
			synctest.Wait()
			if l.isOver() {
				t.Error("the life is over before its listener is closed")
			}
		}
		l.end()
		if !l.isOver() {
			t.Error("the life is not over at its end")
		}
	})
}

// TestStopDoesNotWaitForClients: a client that has closed its side has some time to read the rest,
// but Stop cuts it off.
func TestStopDoesNotWaitForClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := Start(t, Config{NoListen: true})
		server.do(func(k *core) { // a reply that is larger than a pipe
			for range 10_000 {
				k.state.OpenSession(time.Now(), time.Minute)
			}
		})
		conn, err := server.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("dump")); err != nil {
			t.Fatal(err)
		}
		end, ok := conn.(*pipeEnd)
		if !ok {
			t.Fatalf("dialed a %T", conn)
		}
		end.out.endWrites() // as CloseWrite does
		synctest.Wait()
		begin := time.Now()
		server.Stop()
		if took := time.Since(begin); took != 0 {
			t.Errorf("Stop took %v", took)
		}
	})
}

// TestConnectionsAreLimited: one beyond the limit of all, or of an address, is closed, and makes no
// other wait for long. When one is closed, there is room.
func TestConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(l *life){
		"all": func(l *life) { l.room = 1 }, "of an address": func(l *life) { l.each = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				listener := newFakeListener()
				l := listening(t, listener)
				l.mu.Lock()
				limit(l)
				l.mu.Unlock()
				connect := func() net.Conn {
					near, far := newPipe("client", "zkdev", Latency{})
					listener.accepts <- accepted{conn: far}
					synctest.Wait()
					return near
				}
				first, second := connect(), connect()
				if n, err := second.Read(make([]byte, 1)); err == nil {
					t.Errorf("the second connection reads %d bytes", n)
				}
				_ = first.Close()
				synctest.Wait()
				third := connect()
				if _, err := third.Write([]byte("ruok")); err != nil {
					t.Error(err)
				}
				if n, err := third.Read(make([]byte, 4)); n != 4 || err != nil {
					t.Errorf("the third connection reads %d bytes, %v", n, err)
				}
			})
		})
	}
}

// TestSessionsAreLimited: a client beyond the limit is refused, and one that has a session is not.
func TestSessionsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := Start(t, Config{NoListen: true})
		connect := func(session int64) (granted []byte, err error) {
			conn, err := server.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			password := tree.Password(session)
			hello := append(make([]byte, 12), 0, 0, 0x10, 0) // version, zxid, timeout
			hello = binary.BigEndian.AppendUint64(hello, uint64(session))
			hello = append(binary.BigEndian.AppendUint32(hello, uint32(len(password))), password[:]...)
			if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(hello))), hello...)); err != nil {
				t.Fatal(err)
			}
			return wire.ReadFrame(conn)
		}
		var last int64
		open := func(n int) {
			server.do(func(k *core) {
				for range n {
					last, _ = k.state.OpenSession(time.Now(), time.Minute)
				}
			})
		}
		open(maxSessions - 1)
		if _, err := connect(0); err != nil {
			t.Errorf("the last one: %v", err)
		}
		if granted, err := connect(0); err == nil {
			t.Errorf("one too many is granted %x", granted)
		}
		if _, err := connect(last); err != nil {
			t.Errorf("a session that is there: %v", err)
		}
	})
}

// deaf is a connection whose client never reads.
type deaf struct {
	net.Conn
	closed chan struct{}
}

func (d deaf) Write([]byte) (int, error) {
	<-d.closed
	return 0, net.ErrClosed
}

func (d deaf) Close() error {
	select {
	case <-d.closed:
	default:
		close(d.closed)
	}
	return nil
}

func (d deaf) isClosed() bool {
	select {
	case <-d.closed:
		return true
	default:
		return false
	}
}

// TestUnsentBytesAreLimited, of one client and of all. A client that reads keeps its connection.
func TestUnsentBytesAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var unsent atomic.Int64
		var writers sync.WaitGroup
		frame := make([]byte, 1<<20)
		var open []deaf
		fill := func(frames int) deaf {
			d := deaf{closed: make(chan struct{})}
			out := newOutbox(d, &unsent)
			writers.Go(out.write)
			for range frames {
				out.put(frame)
				synctest.Wait() // part of it is being written
			}
			open = append(open, d)
			return d
		}
		if d := fill(maxUnsent/len(frame) + 1); !d.isClosed() {
			t.Error("a client that does not read keeps its connection")
		}
		each := maxUnsent / len(frame)
		for range maxUnsentOfAll / maxUnsent {
			if d := fill(each); d.isClosed() {
				t.Error("cut below the limit of one, and of all")
			}
		}
		if d := fill(1); !d.isClosed() {
			t.Error("not cut beyond the limit of all")
		}
		small := deaf{closed: make(chan struct{})}
		out := newOutbox(small, &unsent)
		writers.Go(out.write)
		out.put(frame[:100])
		if synctest.Wait(); small.isClosed() {
			t.Error("a client with little to read is cut, too")
		}
		for _, d := range append(open, small) {
			_ = d.Close()
		}
		writers.Wait()
		if n := unsent.Load(); n != 0 {
			t.Errorf("%d bytes count although nothing waits", n)
		}
	})
}
