// Command app is one instance of an application. Start it several times, and the instances share
// the jobs that swctl submits. Its code is in package instance.
//
//	swctl dev &
//	go run ./sample/app --id app-1 &
//	go run ./sample/app --id app-2 &
//	swctl --server-type demo submit hello '@every 1s' --handler print-time
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // jobs name time zones, and slim containers have no zone files

	"github.com/swjobs/singleworker/sample/instance"
)

func main() {
	if err := instance.Run(untilSignal(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "app:", err)
		os.Exit(1)
	}
}

// untilSignal returns a context that ends with the first signal, for a clean
// stop. A second signal ends the process at once.
func untilSignal() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}
