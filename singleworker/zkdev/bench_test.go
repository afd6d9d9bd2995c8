package zkdev_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// The benchmarks include go-zookeeper's client, which uses most of the time.

func BenchmarkSet(b *testing.B) {
	server := zkdev.Start(b, zkdev.Config{KeepLog: -1})
	conn, _ := connect(b, server)
	create(b, conn, "/a", 0)
	for b.Loop() {
		if _, err := conn.Set("/a", []byte("x"), -1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMulti sets 500 nodes in one transaction.
func BenchmarkMulti(b *testing.B) {
	server := zkdev.Start(b, zkdev.Config{KeepLog: -1})
	conn, _ := connect(b, server)
	var ops []any
	for i := range 500 {
		path := "/" + strconv.Itoa(i)
		create(b, conn, path, 0)
		ops = append(ops, &zk.SetDataRequest{Path: path, Data: []byte("x"), Version: -1})
	}
	for b.Loop() {
		if _, err := conn.Multi(ops...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(ops))/b.Elapsed().Seconds(), "sets/s")
}

// TestBusyHour simulates an hour of six clients that write every second. It logs how long that
// took: about a quarter of a second.
func TestBusyHour(t *testing.T) {
	begin := time.Now()
	t.Cleanup(func() { t.Log("a virtual hour took", time.Since(begin)) })
	bubble(t, func(t *virtual) {
		for i := range 6 {
			conn, _ := connect(t, t.server)
			path := "/" + strconv.Itoa(i)
			create(t, conn, path, zk.FlagEphemeral)
			go func() {
				for range 3600 {
					time.Sleep(time.Second)
					_, _ = conn.Set(path, []byte("beat"), -1)
				}
			}()
		}
		time.Sleep(time.Hour + time.Second)
		if zxid := t.server.Zxid(); zxid < 6*3600 {
			t.Errorf("%d transactions", zxid)
		}
	})
}
