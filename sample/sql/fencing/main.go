// Command fencing shows the use of a fencing token, on a real table with real processes: two
// instances share a job that writes a report; the owner is stopped (kill -STOP) between its last
// check and its write; the other one takes over and writes; then the first continues (kill -CONT),
// and its late write arrives. The table refuses it. A second table, without the fence, does not,
// and ends up with the older report.
//
//	cd sample/sql/fencing && go run .
//
// The last line is PASS with figures, or FAIL and the reason.
//
// report.go is the application: tables, transaction, handler, on package once. The README describes
// the needs of a target that is to be fenced. The rest is the demonstration: [instance] is the
// process that is started twice, [demonstrate] runs the scene, [judge] checks the outcome; package
// child starts processes and sends them signals.
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
	child.Main("fencing", instance, func(ctx context.Context, dir string, say func(format string, args ...any)) (string, error) {
		o, err := demonstrate(ctx, dir, say)
		if err != nil {
			return "", err
		}
		show(o, say)
		if wrong := judge(o); len(wrong) > 0 {
			return "", errors.New(strings.Join(wrong, "; "))
		}
		return verdict(o), nil
	})
}
