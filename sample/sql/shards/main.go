// Command shards shows a job that is divided, on a real table with real processes: each tick
// of the job processes 600 rows in six shards, shard i those with id % 6 == i, on
// three processes. In the middle of a tick one of them is killed (kill -9) and one is
// stopped (kill -STOP). The third one runs that tick again for their shards, and
// goes on where they stopped. The stopped one is woken (kill -CONT), and its late writes
// arrive with tokens that are too old: the table refuses them. In the end every row was
// processed exactly once in every pass.
//
//	cd sample/sql/shards && go run .
//
// The last line is PASS with figures, or FAIL and why.
//
// rows.go is the application: table, statements, handler; and in instance.go is how the job is
// declared. The rest is the demonstration: [instance] is the process that is started
// three times, [demonstrate] is the story, [judge] what has to come out; package child starts
// processes and sends them signals.
//
// It is in a module of its own, so that the library does not depend on SQLite.
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
