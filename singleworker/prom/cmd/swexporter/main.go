// Command swexporter exports the state of a group to Prometheus, as ZooKeeper's records have it. It
// asks no instance, so it also tells that none lives. See package group for the metrics.
//
//	swexporter -zk zk1:2181,zk2:2181/prod -server-type billing
//
// It listens on 127.0.0.1:9468 unless -listen says otherwise: anyone who reaches it can read the
// names and states of jobs and instances, but nothing else, and change nothing. /metrics has the
// metrics, and /livez answers while the process works.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stderr)
	stop()
	os.Exit(code)
}
