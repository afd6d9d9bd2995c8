// Command elector shows gocron with a latch as its Elector: three processes have the same gocron
// scheduler with the same job, which runs on one of them. The leader is killed with SIGKILL, the
// next one is stopped cleanly; each time another takes over. The last line is PASS and the figures,
// or FAIL and the reason.
//
//	go run ./sample/elector                        # with an in-memory ZooKeeper
//	go run ./sample/elector -zk host:port/chroot   # with that one
//
// worker.go is the part that an application needs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

const (
	session = 2 * time.Second
	period  = 100 * time.Millisecond // of the job
)

func main() {
	if err := start(); err != nil {
		fmt.Println("FAIL:", err)
		os.Exit(1)
	}
}

func start() error {
	zk := flag.String("zk", "", "ZooKeeper's `connect string` (default: a temporary in-memory server)")
	id := flag.String("worker", "", "run the worker with this `id`; for internal use")
	path := flag.String("path", fmt.Sprintf("/elector-%08x", rand.Uint32()), "the election's `path`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *id != "" {
		return work(ctx, *zk, *path, *id)
	}
	return demonstrate(ctx, *zk, *path)
}

// demonstrate runs all steps.
func demonstrate(ctx context.Context, zk, path string) error {
	if zk == "" {
		server, err := zkdev.New(zkdev.Config{})
		if err == nil {
			err = server.Start()
		}
		if err != nil {
			return err
		}
		defer server.Stop()
		zk = server.Addr()
		fmt.Println("ZooKeeper in memory at", zk)
	}
	s := newStage(zk, path)
	defer s.end()
	for _, id := range []string{"one", "two", "three"} {
		if err := s.start(ctx, id); err != nil {
			return err
		}
	}
	first, err := s.reign(ctx, "")
	if err != nil {
		return err
	}
	killed := time.Now()
	fmt.Println("kill -9 of", first)
	s.workers[first].kill()
	second, err := s.reign(ctx, first)
	if err != nil {
		return err
	}
	stopped := time.Now()
	fmt.Println("clean stop of", second)
	if err := s.workers[second].stop(); err != nil {
		return err
	}
	third, err := s.reign(ctx, second)
	if err != nil {
		return err
	}
	if err := s.workers[third].stop(); err != nil {
		return err
	}
	v, err := judge(s.all(), killed, stopped)
	if err != nil {
		return err
	}
	fmt.Println("PASS:", v)
	return nil
}

// reign waits for a new leader and lets it lead for a while.
func (s *stage) reign(ctx context.Context, former string) (string, error) {
	leader, err := s.leader(ctx, former)
	if err != nil {
		return "", err
	}
	fmt.Printf("leadership acquired by %s, which runs the job every %v\n", leader, period)
	return leader, pause(ctx, 2*time.Second)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return errors.New("interrupted")
	}
}
