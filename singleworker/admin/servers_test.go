package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

const follower = `Zookeeper version: 3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on 2022-02-25 08:49 UTC
Latency min/avg/max: 0/1.25/170
Received: 100
Sent: 99
Connections: 7
Outstanding: 3
Zxid: 0x100000002
Mode: follower
Node count: 5
`

func TestServerOf(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, tt := range []struct {
		answer string
		err    error
		want   ServerState
		says   string
	}{
		{follower, nil, ServerServing, "zk1:2181 serves requests (follower)"},
		{"This ZooKeeper instance is not currently serving requests\n", nil, ServerWaiting, "zk1:2181 is up, and says that it serves no requests"},
		{strings.Replace(follower, "follower", "read-only", 1), nil, ServerWaiting, "zk1:2181 is read-only, because it has lost its quorum"},
		{"srvr is not executed because it is not in the whitelist.\n", nil, ServerMute, "zk1:2181 accepts connections, and does not say how it stands"},
		{"", nil, ServerMute, "zk1:2181 accepts connections, and does not say how it stands"},
		{"", refused, ServerAway, "zk1:2181 accepts no connections: connection refused"},
		{"", context.DeadlineExceeded, ServerAway, "zk1:2181 accepts no connections: context deadline exceeded"},
	} {
		got := serverOf("zk1:2181", tt.answer, tt.err)
		if got.State != tt.want || got.String() != tt.says {
			t.Errorf("%q, %v: %s, %s; want %s, %s", tt.answer, tt.err, got.State, got, tt.want, tt.says)
		}
	}
	got := serverOf("zk1:2181", follower, nil)
	want := Server{
		Address: "zk1:2181", State: ServerServing, Mode: "follower", Version: "3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f",
		Connections: 7, Outstanding: 3, Latency: 1250 * time.Microsecond, MaxLatency: 170 * time.Millisecond,
	}
	if got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

func TestServersThatReadWell(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"3.4.13-6--1": false, "3.6.4": false, "3.7.0": true, "3.10.1-abc": true, "4.0": true, "": false} {
		for _, mode := range []string{modeReadOnly, "follower"} {
			if got := (Server{Mode: mode, Version: version}).readsWell(); got != (want && mode == modeReadOnly) {
				t.Errorf("%s %q: %t", mode, version, got)
			}
		}
	}
}

// ensemble dials servers by the name of their address, and each answers srvr, and hangs up on
// whatever else it reads.
func ensemble(answers map[string]string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(_ context.Context, _, address string) (net.Conn, error) {
		name, _, _ := strings.Cut(address, ":")
		answer, listens := answers[name]
		if !listens {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		near, far := net.Pipe()
		go func() {
			word := make([]byte, 4)
			if _, err := io.ReadFull(far, word); err == nil && string(word) == "srvr" {
				_, _ = io.WriteString(far, answer)
			}
			_ = far.Close()
		}()
		return near, nil
	}
}

const notServing = "This ZooKeeper instance is not currently serving requests\n"

// Dial says after a second how each server stands. A quorum is missed only if a server says so,
// and nothing is asserted of one that says nothing.
func TestDialTellsHowServersStand(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answers    map[string]string
		says, does string
	}{
		"nobody listens": {nil, "ZooKeeper did not answer: zk1:2181 accepts no connections: connection refused; zk2:2181 accepts no ", "start ZooKeeper, or correct the address"},
		"no quorum": {
			map[string]string{"zk1": notServing},
			"ZooKeeper has no quorum: zk1:2181 is up, and says that it serves no requests; zk2:2181 accepts no connections: connection refused",
			"start the servers that are away",
		},
		"mute": {
			map[string]string{"zk1": "", "zk2": "srvr is not executed because it is not in the whitelist."},
			"ZooKeeper did not answer: zk1:2181 accepts connections, and does not say how it stands; zk2:2181 accepts connections, ",
			"look at the logs of the servers: one may have no quorum, be starting, expect TLS",
		},
		"too many connections": {
			map[string]string{"zk1": follower, "zk2": notServing},
			"ZooKeeper did not answer: zk1:2181 serves requests (follower); zk2:2181 is up, ",
			"look at the log of a server that serves requests",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			cfg := Config{Servers: "zk1,zk2", ServerType: "billing", Dial: ensemble(tt.answers)}
			var told []string
			cfg.OnTrouble = func(err *ServersError) error {
				told = append(told, err.Error(), err.Remedy(), time.Since(begun).String())
				return err
			}
			_, err := Dial(t.Context(), cfg)
			servers := new(ServersError)
			if !errors.Is(err, ErrUnavailable) || !errors.As(err, &servers) {
				t.Errorf("%s: %v", name, err)
			}
			if len(told) != 3 || !strings.HasPrefix(told[0], tt.says) || !strings.HasPrefix(told[1], tt.does) || told[2] != "1s" {
				t.Errorf("%s: %q", name, told)
			}
			if refused := len(tt.answers) < 2; errors.Is(err, syscall.ECONNREFUSED) != refused {
				t.Errorf("%s: %v: refused is %v", name, err, !refused)
			}

			cfg.OnTrouble = func(*ServersError) error { return nil }
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err = Dial(ctx, cfg); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), tt.says) || ctx.Err() == nil {
				t.Errorf("%s: with patience: %v", name, err)
			}
		})
	}
}

// A server that comes back meanwhile is found by who has patience, and each server is asked of a
// Client that is connected.
func TestServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := zkdev.Start(t, zkdev.Config{NoListen: true})
		begun := time.Now()
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "zk2") || time.Since(begun) < 5*time.Second {
				return nil, syscall.ECONNREFUSED
			}
			return server.Dial(ctx, network, address)
		}
		c, err := Dial(t.Context(), Config{
			Servers: "zk1,zk2", ServerType: "billing", Dial: dial, OnTrouble: func(*ServersError) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var states []ServerState
		for _, s := range c.Servers(t.Context()) {
			states = append(states, s.State)
		}
		if want := []ServerState{ServerServing, ServerAway}; !slices.Equal(states, want) {
			t.Errorf("%v, want %v", states, want)
		}
	})
}

// With TLS, servers are asked over TLS; one that does not know it is up.
func TestServersOverTLS(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	var found *ServersError
	_, err = Dial(t.Context(), Config{
		Servers: listener.Addr().String(), ServerType: "billing", TLS: &tls.Config{MinVersion: tls.VersionTLS12},
		OnTrouble: func(err *ServersError) error { found = err; return err },
	})
	want := fmt.Sprintf("%s accepts connections, and no TLS handshake with ", listener.Addr())
	if found == nil || found.Servers[0].State != ServerMute || !strings.HasPrefix(found.Servers[0].String(), want) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, want %q in it", err, want)
	}
}
