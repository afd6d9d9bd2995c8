// Command app is an application as a user of the library would write it: start
// it several times, and the copies share the jobs that swctl submits.
//
//	ZK=127.0.0.1:2181 go run ./sample/app --id app-1 &
//	ZK=127.0.0.1:2181 go run ./sample/app --id app-2 &
//	swctl --zk 127.0.0.1:2181 --server-type demo submit hello '@every 1s' --handler print-time
//
// The 25 lines that matter are [run] in this file: a manager, its handlers,
// Run. The rest is flags (flags.go) and a middleware (ledger.go) that writes
// down every run, so that sample/check can prove what happened.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // a slim container has no zone files, and jobs name zones

	"github.com/swjobs/singleworker/singleworker"
)

func main() {
	opts, err := parseFlags(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(untilSignal(), opts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "app:", err)
		os.Exit(1)
	}
}

// untilSignal returns a context that ends with the first signal, for a stop in
// good order. The second signal ends the process at once.
func untilSignal() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

// run is an instance from its start to its end.
func run(ctx context.Context, opts options) error {
	m, err := singleworker.New(singleworker.Config{
		Servers:        opts.zk,
		ServerType:     opts.serverType,
		InstanceID:     opts.id,
		SessionTimeout: opts.sessionTimeout,
		SyncPeriod:     opts.syncPeriod,
		Logger:         slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	handlers, err := opts.handlers()
	if err != nil {
		return err
	}
	for name, handler := range handlers {
		if err := m.Handle(name, opts.ledger.record(handler)); err != nil {
			return err
		}
	}
	return m.Run(ctx)
}
