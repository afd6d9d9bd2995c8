package zkconn

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A word is answered without a session, and only a connection that was not accepted is an error.
func TestAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.ControlKeep(zkdev.OpConnect, func(*zkdev.Request) zkdev.Action { return zkdev.CutBefore() })
		conn := s.open(t, Config{Servers: "zk1,zk2:2182"}, nil)
		for _, address := range conn.Addresses() {
			if answer, err := conn.Ask(t.Context(), address, "srvr"); err != nil || !strings.Contains(answer, "Mode: standalone") {
				t.Errorf("Ask(%s, srvr) = %q, %v", address, answer, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if answer, err := conn.Ask(ctx, "zk1", "\x00\x00"); err != nil || answer != "" || ctx.Err() == nil {
			t.Errorf("half a word: %q, %v; want nothing, at the end of the context", answer, err)
		}
		s.absent.Store(true)
		if answer, err := conn.Ask(t.Context(), "zk1", "srvr"); !errors.Is(err, errRefused) || answer != "" {
			t.Errorf("nobody listens: %q, %v", answer, err)
		}
	})
}
