package bench

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// bareClaims returns how many claims a second ZooKeeper takes from one connection that does nothing else. A claim is as the
// library's: three checks and one write, 500 to a transaction, with several transactions under way.
func (b *bench) bareClaims(addr string) float64 {
	b.t.Helper()
	const together, underWay = 500, 4
	conn, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	record := []byte(strings.Repeat("x", 200)) // as long as a tick record
	var wg sync.WaitGroup
	failed := make(chan error, underWay)
	counts := make([]int, underWay)
	begun := time.Now()
	for w := range underWay {
		wg.Go(func() {
			var create, claim []any
			for k := range together {
				path := fmt.Sprintf("/bare-%d-%03d", w, k)
				create = append(create, &zk.CreateRequest{Path: path, Data: record, Acl: zk.WorldACL(zk.PermAll)})
				check := &zk.CheckVersionRequest{Path: path, Version: -1}
				claim = append(claim, check, check, check, &zk.SetDataRequest{Path: path, Data: record, Version: -1})
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
