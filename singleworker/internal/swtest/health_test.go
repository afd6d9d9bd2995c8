package swtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/latch"
)

// ready says whether an instance is, and if not, why.
func ready(i *swtest.Instance) string {
	if err := i.Manager().Health().Ready(); err != nil {
		return err.Error()
	}
	return "ready"
}

// Ready returns when the instance is part of the group and has read its jobs, and says why it has
// to wait.
func TestReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		c.Server.Stop()
		i := c.Start("i0", swtest.Setup{})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("enough"))
		defer cancel()
		err := i.Manager().Ready(ctx)
		if err == nil || !strings.HasSuffix(err.Error(), "enough: not connected to ZooKeeper: the session is connecting") {
			t.Errorf("without a server: %v", err)
		}
		if err := c.Server.Start(); err != nil {
			t.Fatal(err)
		}
		if err := i.Manager().Ready(t.Context()); err != nil {
			t.Error(err)
		}
		h := i.Manager().Health()
		if err := h.Ready(); err != nil || h.State != admin.InstanceActive || !h.JobsRead || h.SessionTimeout != 10*time.Second {
			t.Errorf("Health = %+v, %v", h, err)
		}
		if err := i.Stop(); err != nil {
			t.Error(err)
		}
		if err := i.Manager().Ready(t.Context()); !errors.Is(err, singleworker.ErrNotRunning) {
			t.Errorf("after Run: %v, want ErrNotRunning", err)
		}
		if h := i.Manager().Health(); h.State != singleworker.InstanceEnded || h.Live() == nil {
			t.Errorf("after Run: %+v", h)
		}
	})
}

// Ready may be called before Run, and an instance that is refused is never ready.
func TestReadyOfAnInstanceThatIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		if err := c.Start("i0", swtest.Setup{}).Manager().Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Start("i0", swtest.Setup{}).Manager().Ready(t.Context()); !errors.Is(err, singleworker.ErrNotRunning) {
			t.Errorf("with the ID of another one: %v, want ErrNotRunning", err)
		}
	})
}

// An instance whose start is delayed is not ready, and owns nothing, until its program is warm. One
// that was warm before Run has no delay.
func TestReadyOnceWarm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		setup := sharing(t, c, 2, "@every 1s", func(context.Context, *singleworker.Run) error { return nil })
		setup.Configure = func(cfg *singleworker.Config) { cfg.StartupDelay = 10 * time.Minute }
		i := c.Start("i0", setup)
		time.Sleep(settled)
		if got, want := ready(i), "the instance is warming"; got != want || i.Manager().Health().Owned != 0 {
			t.Errorf("cold: %s, want %s; it owns %d", got, want, i.Manager().Health().Owned)
		}
		i.Manager().Warm()
		time.Sleep(settled)
		if h := i.Manager().Health(); ready(i) != "ready" || h.Owned != 2 {
			t.Errorf("warm: %s, %+v", ready(i), h)
		}
		if err := i.Stop(); err != nil {
			t.Error(err)
		}
		m, err := singleworker.New(singleworker.Config{
			Servers: "zkdev1:2181", ServerType: "group", InstanceID: "i1", StartupDelay: 10 * time.Minute,
			Dial: c.Server.Dial,
		})
		if err != nil {
			t.Fatal(err)
		}
		m.Warm()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		if err := m.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		if state := m.Health().State; state != admin.InstanceActive {
			t.Errorf("warm before Run: %s", state)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// An instance reports on itself while it works, is drained, and loses ZooKeeper; the hooks tell of
// its sessions.
func TestHealth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		setup := sharing(t, c, 2, "@every 1s", func(context.Context, *singleworker.Run) error { return nil })
		var told []string
		setup.Configure = func(cfg *singleworker.Config) {
			cfg.MaxSlots = 3
			cfg.Hooks.OnSession = func(e singleworker.SessionEvent) {
				told = append(told, fmt.Sprintf("%s after %v", e.State, e.At.Sub(c.Begun()).Round(time.Second)))
			}
		}
		i := c.Start("i0", setup)
		wellFor := func(d time.Duration) {
			t.Helper()
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				if err := i.Manager().Health().Live(); err != nil {
					t.Errorf("after %v: %v", time.Since(c.Begun()), err)
				}
			}
		}
		wellFor(settled)
		h := i.Manager().Health()
		if h.Owned != 2 || h.MaxSlots != 3 || h.Leads || h.Session != singleworker.SessionConnected || !h.Since.Equal(c.Begun()) ||
			h.At.Sub(h.LastClaim) > 2*time.Second || h.At.Sub(h.LastSync) > 4*time.Second || ready(i) != "ready" {
			t.Errorf("Health = %+v, %s", h, ready(i))
		}
		i.Partition()
		wellFor(8 * time.Second)
		if got, want := ready(i), "not connected to ZooKeeper: the session is suspended for "; !strings.HasPrefix(got, want) {
			t.Errorf("8 s after the network has gone: %s, want %s...", got, want)
		}
		i.Heal()
		wellFor(settled)
		if ready(i) != "ready" {
			t.Error(ready(i))
		}
		i.Partition()
		wellFor(5 * time.Minute) // a restart would not help
		i.Heal()
		wellFor(settled)
		if ready(i) != "ready" || i.Manager().Health().SessionTimeout != 10*time.Second {
			t.Errorf("Health = %+v, %s", i.Manager().Health(), ready(i))
		}
		if err := i.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if got, want := ready(i), "the instance is drained"; got != want || i.Manager().Health().Live() != nil {
			t.Errorf("drained: %s, want %s", got, want)
		}
		if err := i.Stop(); err != nil { // the hooks have returned, too
			t.Error(err)
		}
		var states []string
		for _, text := range told {
			state, _, _ := strings.Cut(text, " ")
			states = append(states, state)
		}
		if want := []string{"connected", "suspended", "reconnected", "suspended", "expired", "connected"}; !slices.Equal(states, want) {
			t.Errorf("hooks told %q, want %q", told, want)
		}
	})
}

// blocking is a logger whose handler blocks at one message, as a full pipe does.
type blocking struct {
	slog.Handler
	at    string
	until <-chan struct{}
}

func (b blocking) Enabled(context.Context, slog.Level) bool { return true }

func (b blocking) Handle(_ context.Context, r slog.Record) error {
	if r.Message == b.at {
		<-b.until
	}
	return nil
}

// A coordinator that hangs is noticed after a minute, by who asks.
func TestHungCoordinatorIsNotAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		until := make(chan struct{})
		i := c.Start("i0", swtest.Setup{Configure: func(cfg *singleworker.Config) {
			cfg.Logger = slog.New(blocking{slog.DiscardHandler, "connection lost", until})
		}})
		time.Sleep(settled)
		i.Partition()
		i.Client.Disconnect()
		time.Sleep(time.Minute - 5*time.Second)
		if err := i.Manager().Health().Live(); err != nil {
			t.Errorf("in the first minute: %v", err)
		}
		time.Sleep(10 * time.Second)
		err := i.Manager().Health().Live()
		if err == nil || !strings.HasPrefix(err.Error(), "the coordinator hangs: it has not worked for 1m") || ready(i) != err.Error() {
			t.Errorf("after it: %v; ready: %s", err, ready(i))
		}
		close(until)
		i.Heal()
		time.Sleep(settled)
		if ready(i) != "ready" {
			t.Errorf("when it works again: %s", ready(i))
		}
	})
}

// An instance that seldom has anything to do is alive, too.
func TestAliveWithALongSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{SessionTimeout: time.Hour, SyncPeriod: time.Hour})
		c.Server.SetMaxSession(time.Hour)
		i := c.Start("i0", swtest.Setup{})
		for range 200 {
			time.Sleep(time.Minute - time.Second)
			if err := i.Manager().Health().Live(); err != nil {
				t.Fatalf("after %v: %v", time.Since(c.Begun()), err)
			}
		}
		if got := i.Manager().Health().SessionTimeout; got != time.Hour {
			t.Errorf("the session is of %v, want 1h", got)
		}
	})
}

// In latch mode the leader is told of each of its terms, in order, and the one that stands by is
// ready.
func TestHooksTellOfLeadership(t *testing.T) {
	exact(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		setup := sharing(t, c, 1, "@hourly", func(context.Context, *singleworker.Run) error { return nil })
		var mu sync.Mutex
		told := make(map[string][]string)
		tokens := make(map[int64]string)
		start := func(name string) *swtest.Instance {
			setup := setup
			setup.Configure = func(cfg *singleworker.Config) {
				cfg.Mode = singleworker.LatchMode
				cfg.Hooks.OnLeadershipGained = func(l singleworker.Leadership) {
					mu.Lock()
					defer mu.Unlock()
					told[name] = append(told[name], "gained")
					tokens[l.Token] = name
				}
				cfg.Hooks.OnLeadershipLost = func(l singleworker.Leadership, cause error) {
					mu.Lock()
					defer mu.Unlock()
					told[name] = append(told[name], "lost: "+cause.Error())
					if tokens[l.Token] != name {
						t.Errorf("%s lost a term that it did not have: %+v", name, l)
					}
				}
			}
			i := c.Start(name, setup)
			time.Sleep(settled)
			return i
		}
		a, b := start("a"), start("b")
		if !a.Manager().Health().Leads || b.Manager().Health().Leads || b.Manager().Health().State != admin.InstanceStandby || ready(b) != "ready" {
			t.Errorf("a: %+v\nb: %+v, %s", a.Manager().Health(), b.Manager().Health(), ready(b))
		}
		if err := a.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(settled)
		if a.Manager().Health().Leads || !b.Manager().Health().Leads {
			t.Error("b does not lead after a was drained")
		}
		b.Client.Disconnect()
		time.Sleep(settled)
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		want := map[string][]string{
			"a": {"gained", "lost: " + latch.ErrStopped.Error()},
			"b": {"gained", "lost: " + latch.ErrSuspended.Error(), "gained", "lost: " + latch.ErrStopped.Error()},
		}
		for name, texts := range want {
			if !slices.Equal(told[name], texts) {
				t.Errorf("%s was told %q, want %q", name, told[name], texts)
			}
		}
	})
}
