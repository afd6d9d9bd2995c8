package coord

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/election"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// An instance that is denied access to the election says so, even if it cannot give up the place
// that it may have.
func TestElectionThatIsDenied(t *testing.T) {
	inGroup(t, func(g *group) {
		g.configure = func(cfg *Config) { cfg.Member.Latch, cfg.Member.Instance.Mode = true, zkrec.ModeLatch }
		g.Server.Control(zkdev.OpCreate, func(r *zkdev.Request) zkdev.Action {
			if strings.HasPrefix(r.Path, g.Tree.Leader()+"/") {
				return zkdev.CutAfter()
			}
			return zkdev.Pass()
		})
		g.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if r.Ops[0].Path == g.Tree.Leader() {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		})
		a := g.join("a")
		roomtest.Pass(time.Minute)
		select {
		case err := <-a.ended:
			if !errors.Is(err, zkconn.ErrDenied) {
				g.T.Errorf("Run = %v, want zkconn.ErrDenied", err)
			}
		default:
			g.T.Error("Run continues, and the instance never leads")
		}
	})
}

// The end of a term is told also when the loop ends at the same moment.
func TestTermThatEndsWithTheLoop(t *testing.T) {
	inGroup(t, func(g *group) {
		g.configure = func(cfg *Config) { cfg.Member.Latch, cfg.Member.Instance.Mode = true, zkrec.ModeLatch }
		a := g.join("a")
		roomtest.Pass(time.Minute)
		a.stop() // without Leave
		if err := <-a.ended; !errors.Is(err, context.Canceled) {
			g.T.Errorf("Run = %v, want context.Canceled", err)
		}
		if want := []string{"leads", election.ErrStopped.Error()}; !slices.Equal(a.Terms, want) {
			g.T.Errorf("told %q, want %q", a.Terms, want)
		}
	})
}
