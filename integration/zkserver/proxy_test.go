package zkserver_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
)

func TestStallHoldsDataBackUntilHeal(t *testing.T) {
	t.Parallel()
	proxy := zkserver.NewProxy(t, startEcho(t))
	before := dial(t, proxy.Addr())
	write(t, before, "a")
	wantRead(t, before, "a")

	proxy.Stall()
	proxy.Stall() // already stalled: no effect
	during := dial(t, proxy.Addr())
	write(t, before, "b")
	write(t, during, "c")
	wantSilence(t, before)
	wantSilence(t, during)

	proxy.Heal()
	wantRead(t, before, "b")
	wantRead(t, during, "c")
}

func TestStallInOneDirection(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	proxy := zkserver.NewProxy(t, listener.Addr().String())
	client := dial(t, proxy.Addr())
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for name, test := range map[string]struct {
		stall      func()
		flow, held [2]net.Conn // from, to
	}{
		"requests": {proxy.StallRequests, [2]net.Conn{server, client}, [2]net.Conn{client, server}},
		"replies":  {proxy.StallReplies, [2]net.Conn{client, server}, [2]net.Conn{server, client}},
	} {
		t.Log(name)
		test.stall()
		write(t, test.held[0], "held")
		write(t, test.flow[0], "a")
		wantRead(t, test.flow[1], "a")
		wantSilence(t, test.held[1])
		proxy.Heal()
		wantRead(t, test.held[1], "held")
	}
}

func TestDelayIsAddedUntilHeal(t *testing.T) {
	t.Parallel()
	const delay = 500 * time.Millisecond // much longer than wantSilence looks
	proxy := zkserver.NewProxy(t, startEcho(t))
	conn := dial(t, proxy.Addr())
	proxy.Delay(delay)
	began := time.Now()
	write(t, conn, "a")
	wantSilence(t, conn)
	wantRead(t, conn, "a")
	if took := time.Since(began); took < 2*delay {
		t.Errorf("there and back in %v, want at least %v", took, 2*delay)
	}
	proxy.Heal()
	write(t, conn, "b")
	wantRead(t, conn, "b")
}

func TestCutDropsConnectionsAndRefusesNewOnes(t *testing.T) {
	t.Parallel()
	proxy := zkserver.NewProxy(t, startEcho(t))
	conn := dial(t, proxy.Addr())
	proxy.Stall()
	write(t, conn, "lost")

	proxy.Cut()
	proxy.Cut() // already cut: no effect
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes through a cut proxy, want an error", n)
	}
	wantRefused(t, proxy.Addr())

	proxy.Heal()
	proxy.Heal() // already healed: no effect
	again := dial(t, proxy.Addr())
	write(t, again, "a")
	wantRead(t, again, "a")
}

func TestProxyForwardsEOF(t *testing.T) {
	t.Parallel()
	echo := startEcho(t)
	proxy := zkserver.NewProxy(t, echo)
	conn := dial(t, proxy.Addr())
	write(t, conn, "bye") // echo's last word
	wantRead(t, conn, "bye")
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read %d bytes, %v; want the end that the server sent", n, err)
	}
}

func TestProxyWithoutTarget(t *testing.T) {
	t.Parallel()
	target := zkserver.NewProxy(t, "127.0.0.1:1")
	target.Cut() // now nothing listens at its address
	proxy := zkserver.NewProxy(t, target.Addr())
	conn := dial(t, proxy.Addr())
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes from nowhere, want an error", n)
	}
}

// TestProxyManyTimes opens, cuts and heals under traffic, for the race detector and
// for the leak check of TestMain.
func TestProxyManyTimes(t *testing.T) {
	t.Parallel()
	proxy := zkserver.NewProxy(t, startEcho(t))
	for range 50 {
		var clients sync.WaitGroup
		for range 4 {
			conn := dial(t, proxy.Addr())
			clients.Go(func() {
				for {
					if _, err := io.WriteString(conn, "data"); err != nil {
						return
					}
				}
			})
			clients.Go(func() { _, _ = io.Copy(io.Discard, conn) })
		}
		proxy.Cut()
		clients.Wait()
		proxy.Heal()
	}
}

// startEcho starts a server that echoes, and ends a connection after "bye".
func startEcho(t *testing.T) (addr string) {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { echo(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return listener.Addr().String()
}

func echo(conn net.Conn) {
	defer conn.Close()
	buf := make([]byte, 1024)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		if _, err := conn.Write(buf[:n]); err != nil || string(buf[:n]) == "bye" {
			return
		}
	}
}
