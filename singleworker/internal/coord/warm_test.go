package coord

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

const startupDelay = 20 * time.Second

// joinCold is join for an instance with a startup delay.
func (g *group) joinCold(sid string) *instance {
	g.T.Helper()
	was := g.configure
	g.configure = func(cfg *Config) {
		if was != nil {
			was(cfg)
		}
		cfg.Member.StartupDelay = startupDelay
	}
	defer func() { g.configure = was }()
	return g.join(sid)
}

func TestStartupDelay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do   func(g *group, a *instance) // in the middle of the delay
		then string                      // the state right after it
		last string                      // the state after the delay
	}{
		"ends by itself": {func(*group, *instance) {}, zkrec.InstanceWarming, zkrec.InstanceActive},
		"ends with Warm": {func(_ *group, a *instance) { a.Warm() }, zkrec.InstanceActive, zkrec.InstanceActive},
		"ends twice":     {func(_ *group, a *instance) { a.Warm(); a.Warm() }, zkrec.InstanceActive, zkrec.InstanceActive},
		"goes on in another session": {func(g *group, a *instance) {
			if err := g.Server.ExpireSession(a.loop.Conn.SessionID()); err != nil {
				g.T.Fatal(err)
			}
			roomtest.Pass(startupDelay / 4)
		}, zkrec.InstanceWarming, zkrec.InstanceActive},
		"ends disabled": {func(g *group, a *instance) {
			g.order("a", zkrec.Order{By: "alice"})
			a.Warm()
		}, zkrec.InstanceDisabled, zkrec.InstanceDisabled},
	} {
		t.Run(name, func(t *testing.T) {
			inGroup(t, func(g *group) {
				g.Submit("job")
				a := g.joinCold("a")
				roomtest.Pass(startupDelay / 2)
				g.wantState("a", zkrec.InstanceWarming, "job", "")
				if got := a.Health().State; got != zkrec.InstanceWarming {
					t.Errorf("Health says %q", got)
				}
				test.do(g, a)
				roomtest.Pass(moment)
				owner := map[bool]string{true: "a"}
				g.wantState("a", test.then, "job", owner[test.then == zkrec.InstanceActive])
				roomtest.Pass(startupDelay)
				g.wantState("a", test.last, "job", owner[test.last == zkrec.InstanceActive])
			})
		})
	}
}

// Others neither offer anything to an instance that is warming, nor keep its share free. It gets
// that when it is warm.
func TestOthersTakeTheShareOfAColdInstance(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job 1")
		g.Submit("job 2")
		g.joinCold("a")
		b := g.join("b")
		roomtest.Pass(startupDelay / 2)
		g.wantState("a", zkrec.InstanceWarming, "job 1", "b")
		g.wantState("a", zkrec.InstanceWarming, "job 2", "b")
		roomtest.Pass(startupDelay)
		if n := b.owner.Count(); n != 1 {
			t.Errorf("b owns %d jobs beside a warm instance, want 1", n)
		}
	})
}

// An instance that is warming stands in no queue, so another one leads.
func TestColdInstanceDoesNotLead(t *testing.T) {
	inGroup(t, func(g *group) {
		g.configure = func(cfg *Config) { cfg.Member.Latch, cfg.Member.Instance.Mode = true, zkrec.ModeLatch }
		g.Submit("job")
		a := g.joinCold("a")
		roomtest.Pass(startupDelay / 4)
		g.wantState("a", zkrec.InstanceWarming, "job", "")
		g.join("b")
		roomtest.Pass(2 * roomtest.SyncPeriod)
		g.wantState("a", zkrec.InstanceWarming, "job", "b")
		a.Warm()
		roomtest.Pass(5 * roomtest.SyncPeriod)
		g.wantState("a", zkrec.InstanceStandby, "job", "b")
	})
}
