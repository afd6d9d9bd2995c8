package singleworker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// The memory of an instance for each idle job that it owns and has declared, with the server's for
// its watches. Not parallel: it looks at all that is allocated. There are so many jobs because a
// map of a thousand keys takes once or twice its space, by the keys' hashes.
//
//nolint:paralleltest // see above
func TestMemoryOfIdleJobs(t *testing.T) {
	const few, many, most = 1000, 5000, 5000 // most: bytes
	used := most + 1
	for try := 0; try < 3 && used > most; try++ { // buffers that happen to be larger add some hundred bytes
		used = (usedBy(t, many) - usedBy(t, few)) / (many - few)
		t.Logf("%d bytes per job", used)
	}
	if used > most {
		t.Errorf("%d bytes per job, want at most %d", used, most)
	}
}

// usedBy is the memory that is freed when an instance ends that owns so many jobs.
func usedBy(t *testing.T, jobs int) (bytes int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := zkdev.Start(t, zkdev.Config{NoListen: true, KeepLog: -1})
		client := server.Client("i1")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		var owned atomic.Int64
		go func() { ended <- runWith(ctx, client, jobs, func(singleworker.Ownership) { owned.Add(1) }) }()
		time.Sleep(20 * time.Second)
		with := heap()
		if n := owned.Load(); n != int64(jobs) {
			t.Errorf("%d jobs are owned, want %d", n, jobs)
		}
		client.Partition() // so that it releases nothing, and the server keeps the same nodes
		stop()
		if err := <-ended; !errors.Is(err, singleworker.ErrNotHandedBack) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second) // its session expires
		bytes = with - heap()
	})
	return bytes
}

// runWith runs an instance with so many jobs, none of which is due.
func runWith(ctx context.Context, client *zkdev.Client, jobs int, onOwned func(singleworker.Ownership)) error {
	m, err := singleworker.New(singleworker.Config{
		Servers: "zkdev:2181", ServerType: "group", InstanceID: "i1", Dial: client.Dial, Logger: slog.New(slog.DiscardHandler),
		StopGrace: time.Second, Hooks: singleworker.Hooks{OnOwned: onOwned},
	})
	if err != nil {
		return err
	}
	for k := range jobs {
		name := fmt.Sprintf("job-%05d", k)
		if err := m.Handle(name, func(context.Context, *singleworker.Run) error { return nil }); err != nil {
			return err
		}
		if err := m.Schedule(singleworker.Job{Name: name, Schedule: "0 0 12 1 7 ?"}); err != nil { // a bubble's clock begins in January
			return err
		}
	}
	return m.Run(ctx)
}

// heap is how much is allocated when all is at rest.
func heap() int {
	synctest.Wait()
	var m runtime.MemStats
	for range 2 { // what is pooled lives for one collection longer
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
