package bench

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// bareClaims returns how many claims a second ZooKeeper takes from one connection that does nothing
// else. A claim is as the library's: two checks and two writes, 500 to a transaction, with several
// transactions under way.
func (b *bench) bareClaims(addr string) float64 {
	b.t.Helper()
	const together, underWay = 500, 4
	conn, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	tick, beat := []byte(strings.Repeat("x", 300)), []byte(strings.Repeat("x", 13)) // as long as the records that a claim writes
	var wg sync.WaitGroup
	failed := make(chan error, underWay)
	counts := make([]int, underWay)
	begun := time.Now()
	for w := range underWay {
		wg.Go(func() {
			var create, claim []any
			for k := range together {
				job := fmt.Sprintf("/bare-%d-%03d", w, k)
				for _, path := range []string{job, job + "/alive", job + "/alive/owner", job + "/tick"} {
					create = append(create, &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll)})
				}
				claim = append(claim,
					&zk.CheckVersionRequest{Path: job + "/alive", Version: -1},
					&zk.SetDataRequest{Path: job + "/alive/owner", Data: beat, Version: -1},
					&zk.CheckVersionRequest{Path: job, Version: -1},
					&zk.SetDataRequest{Path: job + "/tick", Data: tick, Version: -1})
			}
			if _, err := conn.Multi(create...); err != nil && !errors.Is(err, zk.ErrNodeExists) { // by an earlier call
				failed <- err
				return
			}
			for time.Since(begun) < b.bare {
				if _, err := conn.Multi(claim...); err != nil {
					failed <- err
					return
				}
				counts[w] += together
			}
		})
	}
	wg.Wait()
	took := time.Since(begun)
	close(failed)
	for err := range failed {
		b.t.Fatalf("bare claims: %v", err)
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	return float64(total) / took.Seconds()
}
