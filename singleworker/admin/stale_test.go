package admin

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// dialed is a Client of an ensemble in which zk2 is the world's server, and the others are away,
// but for zk3 if third is not nil.
func (w *world) dialed(allowStale bool, third func(ctx context.Context, network, address string) (net.Conn, error)) (*Client, error) {
	c, err := Dial(w.Context(), Config{
		Servers: "zk1,zk2,zk3", ServerType: "billing", AllowStale: allowStale,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			switch name, _, _ := strings.Cut(address, ":"); {
			case name == "zk2":
				return w.server.Dial(ctx, network, address)
			case name == "zk3" && third != nil:
				return third(ctx, network, address)
			}
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		},
		OnTrouble: func(err *ServersError) error { return err },
	})
	if err == nil {
		w.Cleanup(c.Close)
	}
	return c, err
}

// A server that has lost its quorum answers those who allow that, and tells the last sign of life.
// It changes nothing.
func TestStale(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		cease := w.beating()
		time.Sleep(time.Minute)
		cease()
		_, last, err := w.hand.optional(w.Context(), w.c.tree.Life("app-1-1"))
		w.must(err)
		w.must(w.server.SetReadOnly(true))
		time.Sleep(10 * time.Minute)

		_, err = w.dialed(false, nil)
		if want := "zk2:2181 is read-only, because it has lost its quorum"; !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		c, err := w.dialed(true, nil)
		w.must(err)
		begun := time.Now()
		jobs, err := c.List(w.Context())
		w.must(err)
		if len(jobs) != 1 || jobs[0].Name != "job" || time.Since(begun) > time.Second {
			t.Errorf("after %v: %+v", time.Since(begun), jobs)
		}
		if sign, stale := c.Stale(); !stale || !sign.Equal(last.Mtime) {
			t.Errorf("stale: %t, since %v, want %v", stale, sign, last.Mtime)
		}
		for _, s := range c.Servers(w.Context()) {
			if of := s.Address == "zk2:2181"; of != (s.Mode == modeReadOnly) || of != (s.State == ServerWaiting) {
				t.Errorf("%+v", s)
			}
		}
		g, err := c.Group(w.Context())
		w.must(err)
		if e, err := c.Examine(w.Context(), g); err != nil || !e.Stale || len(e.Instances) != 1 {
			t.Errorf("%+v, %v", e, err)
		}
		_, submitErr := c.Submit(w.Context(), job.Job{Name: "new", Schedule: "@daily"}, SubmitOptions{})
		_, pauseErr := c.Pause(w.Context(), "job", PauseOptions{})
		for _, err := range []error{submitErr, pauseErr} {
			if want := "the server is read-only"; !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		for event, err := range c.Watch(w.Context(), WatchOptions{}) {
			if !errors.Is(err, ErrUnavailable) {
				t.Errorf("watch: %+v, %v", event, err)
			}
		}
	})
}

// A server with a quorum is preferred, also if it takes long to answer and stands behind the other.
// When the only server has one again, nothing is stale.
func TestStaleWithAQuorum(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.must(w.server.SetReadOnly(true))
		serving := zkdev.Start(w, zkdev.Config{NoListen: true})
		c, err := w.dialed(true, serving.Dial)
		w.must(err)
		if _, stale := c.Stale(); stale {
			t.Error("stale, although a server has a quorum")
		}
		serving.ControlKeep(zkdev.OpConnect, func(*zkdev.Request) zkdev.Action { return zkdev.Delay(1500 * time.Millisecond) })
		if _, err = w.dialed(true, serving.Dial); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "zk3:2181 serves requests") {
			t.Errorf("a slow server with a quorum: %v", err)
		}
		w.must(w.server.SetReadOnly(false))
		if c, err = w.dialed(true, nil); err != nil {
			t.Fatal(err)
		}
		if _, stale := c.Stale(); stale {
			t.Error("stale, although the quorum is back")
		}
	})
}
