package demo

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// The demonstration itself is tested where it is used: in cmd/swctl, whose binary its
// instances are.

// A group that has jobs or instances is somebody's.
func TestDemoKeepsOutOfAGroupInUse(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string][2]string{
		"jobs":      {`{"items":[{"name":"nightly"}]}`, `{"items":[]}`},
		"instances": {`{"items":[]}`, `{"items":[{"instance_id":"app-1"}]}`},
	} {
		var out strings.Builder
		var calls []string
		err := Run(t.Context(), Config{
			Servers: "zk:2181", ServerType: "billing", Out: &out, Instance: []string{"/nonexistent"},
			Swctl: func(_ context.Context, args ...string) (string, error) {
				calls = append(calls, args[0])
				if args[0] == "list" {
					return answers[0], nil
				}
				return answers[1], nil
			},
		})
		if !errors.Is(err, ErrFailed) || !strings.Contains(out.String(), "FAIL  server type billing at zk:2181 is in use") {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
		for _, call := range calls {
			if call != "list" && call != "instances" {
				t.Errorf("%s: swctl %s", name, call)
			}
		}
	}
}

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

func TestAwaitSaysWhatForAndWhyNot(t *testing.T) {
	t.Parallel()
	d := &demo{}
	err := d.await(t.Context(), 0, "godot", func() error { return errors.New("not today") })
	if want := "waited in vain for godot: not today"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if err := d.await(ctx, time.Hour, "godot", func() error { return errors.New("not today") }); !errors.Is(err, stopped) {
		t.Errorf("%v, want the cause", err)
	}
}
