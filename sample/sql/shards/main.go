// Command shards shows a job with shards on a real table with real processes: each tick of the job
// processes 600 rows in six shards, shard i those with id % 6 == i, on three processes. In the
// middle of a tick one process is killed (kill -9) and one is stopped (kill -STOP). The third runs
// that tick again for their shards and continues where they stopped. Then the stopped one continues
// (kill -CONT), and its late writes arrive with outdated tokens: the table refuses them. Finally
// every row was processed exactly once in every pass.
//
//	cd sample/sql/shards && go run .
//
// The last line is PASS with figures, or FAIL and the reason.
//
// rows.go is the application: table, statements, handler; instance.go declares the job. The rest is
// the demonstration: [instance] is the process that is started three times, [demonstrate] runs the
// scene, [judge] checks the outcome; package child starts processes and sends them signals.
//
// It is a separate module, so that the library does not depend on SQLite.
package main

import (
	"context"
	"errors"
	"strings"

	"github.com/swjobs/singleworker/sample/sql/child"
)

func main() {
	child.Main("shards", instance, func(ctx context.Context, dir string, say func(format string, args ...any)) (string, error) {
		o, err := demonstrate(ctx, dir, say)
		if err != nil {
			return "", err
		}
		f, wrong := judge(o)
		if len(wrong) > 0 {
			return "", errors.New(strings.Join(wrong, "; "))
		}
		return verdict(o, f), nil
	})
}
