// Package instance is an application as a user of the library would write it. Its instances share
// the jobs that swctl submits. sample/app runs one instance; sample/demo starts three.
//
// The 25 lines that matter are [Run] in this file: a manager, its handlers, Run. The rest is flags
// (flags.go) and a middleware (ledger.go) that records every run for package record.
package instance

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"

	"github.com/swjobs/singleworker/singleworker"
)

// Run runs an instance until ctx ends. Handlers print to stdout; the log goes to stderr.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	opts, err := parseFlags(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	m, err := singleworker.New(singleworker.Config{
		Servers:        opts.zk,
		ServerType:     opts.serverType,
		InstanceID:     opts.id,
		SessionTimeout: opts.sessionTimeout,
		SyncPeriod:     opts.syncPeriod,
		Auth:           opts.auth,
		Logger:         slog.New(slog.NewTextHandler(stderr, nil)),
	})
	if err != nil {
		return err
	}
	handlers, err := opts.handlers(stdout)
	if err != nil {
		return err
	}
	for name, handler := range handlers {
		if err := m.Handle(name, opts.ledger.middleware(handler)); err != nil {
			return err
		}
	}
	if opts.probes != "" {
		stop, err := serveProbes(ctx, opts.probes, m)
		if err != nil {
			return err
		}
		defer stop()
	}
	return m.Run(ctx)
}
