package main

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

func TestServerTick(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]time.Duration{
		"clientPort=2181\ntickTime=500\nserverId=0\n":                 500 * time.Millisecond,
		"conf is not executed because it is not in the whitelist.\n":  defaultTick,
		"This ZooKeeper instance is not currently serving requests\n": defaultTick,
		"": defaultTick,
	} {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(conn, make([]byte, len("conf")))
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}()
		addr := listener.Addr().String()
		if got := serverTick(t.Context(), addr+",127.0.0.1:1/chroot"); got != want {
			t.Errorf("%q: %v, want %v", answer, got, want)
		}
		_ = listener.Close()
		if got := serverTick(t.Context(), addr); got != defaultTick {
			t.Errorf("of nobody: %v", got)
		}
	}
}

func TestAwaitReportsGoalAndReason(t *testing.T) {
	t.Parallel()
	d := &demo{}
	err := d.await(t.Context(), 0, "godot", func() error { return errors.New("not today") })
	if want := "godot did not happen: not today"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if err := d.await(ctx, time.Hour, "godot", func() error { return errors.New("not today") }); !errors.Is(err, stopped) {
		t.Errorf("%v, want the cause", err)
	}
}
