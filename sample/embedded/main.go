// Command embedded is a program of one replica that brings its server along: it needs no other
// process, and has a directory in its place. Whatever kills it, the next start goes on with the
// same jobs and their history, which also has the ticks that were missed meanwhile.
//
//	go run ./sample/embedded -data /var/lib/billing
//	swctl --zk file:/var/lib/billing --server-type billing list
//
// With -zk it leaves its server out, and connects to one that several processes share: swctl serve
// on the same directory, or an ensemble. Nothing else changes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/zkdev/durable"
)

func main() {
	dir := flag.String("data", "data", "`directory` of the jobs and their history")
	zk := flag.String("zk", "", "`servers` to connect to, such as 127.0.0.1:2181 (default: its own, in -data)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	var err error
	if *zk == "" {
		err = run(ctx, *dir)
	} else {
		err = work(ctx, singleworker.Config{Servers: *zk, ServerType: "billing"})
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "embedded:", err)
		os.Exit(1)
	}
}

// run is work with a server in the directory.
func run(ctx context.Context, dir string) error {
	server, err := durable.Open(durable.Config{Dir: dir, NoListen: true})
	if err != nil {
		return err // durable.ErrInUse: another process has the directory
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-server.Failed(): // the disk is full, for example
			cancel(server.Err())
		case <-ctx.Done():
		}
	}()
	err = work(ctx, singleworker.Config{
		Servers: "file:" + dir, ServerType: "billing",
		SessionTimeout: 2 * time.Second, // there is no network that could be slow
	})
	return errors.Join(err, server.Err(), server.Close())
}

// work runs the jobs until ctx ends.
func work(ctx context.Context, config singleworker.Config) error {
	m, err := singleworker.New(config)
	if err != nil {
		return err
	}
	err = m.Handle("report", func(_ context.Context, run *singleworker.Run) error {
		fmt.Println("ran", run.Tick.UTC().Format(time.RFC3339))
		return nil
	})
	if err != nil {
		return err
	}
	if err := m.Schedule(singleworker.Job{Name: "report", Schedule: "@every 1s"}); err != nil {
		return err
	}
	return m.Run(ctx)
}
