package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/integration/zkserver"
)

// BenchmarkServeWrites measures writes that are on disk, of 1, 8 and 64 clients, with swctl serve
// and with a ZooKeeper that syncs, one after the other. Elsewhere in the tests it does not. The
// first rounds warm ZooKeeper up.
//
//	go test -run '^$' -bench ServeWrites -benchtime 2s -count 4 ./integration
func BenchmarkServeWrites(b *testing.B) {
	b.Setenv("ZOOKEEPER_SYNC", "yes")
	addr, end := startServe(b, buildSwctl(b), filepath.Join(b.TempDir(), "data"), "127.0.0.1:0")
	servers := []struct{ name, addr string }{{"zookeeper", zkserver.Start(b).Addr()}, {"serve", addr}}
	run := 0 // each has nodes of its own
	for _, clients := range []int{1, 8, 64} {
		for _, server := range servers {
			b.Run(fmt.Sprintf("clients=%d/server=%s", clients, server.name), func(b *testing.B) {
				run++
				benchmarkWrites(b, server.addr, clients, run)
			})
		}
	}
	if err := end(syscall.SIGTERM); err != nil {
		b.Error(err)
	}
}

func benchmarkWrites(b *testing.B, addr string, clients, run int) {
	b.Helper()
	data := make([]byte, 300) // about as long as a claim
	var writers sync.WaitGroup
	conns := make([]*zk.Conn, clients)
	for i := range conns {
		conns[i] = join(b, addr)
		if _, err := conns[i].Create(fmt.Sprintf("/n%d-%d", run, i), data, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
			b.Fatal(err)
		}
	}
	took := make([][]time.Duration, clients)
	b.ResetTimer()
	for i, conn := range conns {
		writers.Go(func() {
			for n := i; n < b.N; n += clients {
				sent := time.Now()
				if _, err := conn.Set(fmt.Sprintf("/n%d-%d", run, i), data, -1); err != nil {
					b.Error(err)
					return
				}
				took[i] = append(took[i], time.Since(sent))
			}
		})
	}
	writers.Wait()
	b.StopTimer()
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
	if len(all) > 0 {
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-us")
	}
	for _, conn := range conns {
		conn.Close()
	}
}
