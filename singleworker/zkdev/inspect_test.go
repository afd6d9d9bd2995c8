package zkdev

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// TestDumpIsConsistent: nodes and sessions in a dump match, even while sessions start and end.
func TestDumpIsConsistent(t *testing.T) {
	t.Parallel()
	server := Start(t, Config{NoListen: true})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 { // sessions that come and go, each with a node
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var id int64
				server.do(func(k *core) {
					id, _ = k.state.OpenSession(time.Now(), time.Minute)
					k.state.Apply(time.Now(), tree.Client{Session: id}, &wire.Request{
						Header: wire.Header{Op: wire.OpCreate}, Path: "/n-", Flags: wire.FlagEphemeralSequential,
						ACL: []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "world", ID: "anyone"}}},
					})
				})
				_ = server.ExpireSession(id)
			}
		})
	}
	for range 1000 {
		var text strings.Builder
		if err := server.Dump(&text); err != nil {
			t.Error(err)
		}
		nodes, sessions := strings.Count(text.String(), " owner="), strings.Count(text.String(), " ephemerals=1")
		if nodes != sessions {
			t.Errorf("%d nodes with an owner, %d owners:\n%s", nodes, sessions, &text)
			break
		}
	}
	close(stop)
	wg.Wait()
}
