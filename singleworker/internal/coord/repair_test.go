package coord

import (
	"errors"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// A record that was emptied manually says nothing about earlier ticks; they are not run a second
// time.
func TestTickRecordIsEmptied(t *testing.T) {
	t.Parallel()
	for _, empty := range []string{"", `{"schema":1}`} {
		t.Run(empty, func(t *testing.T) {
			inGroup(t, func(g *group) {
				g.Submit("job")
				a := g.join("a")
				o := a.Ownership()
				claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", time.Now().UnixMilli()))
				ended := a.MustCommit(roomtest.Outcome(claimed, history.StateOK))
				roomtest.Pass(10 * time.Minute)
				emptied := time.Now().UnixMilli()
				g.Set(g.Tree.Tick("job"), []byte(empty))
				roomtest.Pass(10 * time.Second)
				current, err := roomtest.Written(a, roomtest.Claim(o, ended, "r2", time.Now().UnixMilli()))
				if !errors.Is(err, ticks.ErrConflict) || current.Watermark != emptied {
					g.T.Errorf("Commit = %+v, %v; want a conflict with Watermark = %d", current, err, emptied)
				}
				a.Leave()
				if err := <-a.ended; err != nil {
					g.T.Error(err)
				}
				if o := g.join("b").Ownership(); o.Record.Watermark != emptied {
					g.T.Errorf("adopted with %+v, want Watermark = %d", *o.Record, emptied)
				}
			})
		})
	}
}
