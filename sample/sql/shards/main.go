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
// three times, [demonstrate] is the story, [judge] what has to come out.
//
// It is in a module of its own, so that the library does not depend on SQLite.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// instanceCommand as the first argument, followed by an id, a ZooKeeper and a directory,
// makes this program an instance.
const instanceCommand = "instance"

// errFailed is the answer "no", which has been printed.
var errFailed = errors.New("failed")

func main() {
	err := run(os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, errFailed) {
		fmt.Fprintln(os.Stderr, "shards:", err)
	}
	if err != nil {
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) (err error) {
	if len(args) == 4 && args[0] == instanceCommand {
		return instance(args[1], args[2], args[3])
	}
	if len(args) > 0 {
		return fmt.Errorf("unexpected %q: start it without arguments", args[0])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	dir, err := os.MkdirTemp("", "shards-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	begun := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(out, "%4.1f s  %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}
	o, err := demonstrate(ctx, dir, say)
	if err != nil {
		printLogs(out, dir)
		fmt.Fprintln(out, "FAIL ", err)
		return errFailed
	}
	f, wrong := judge(o)
	if len(wrong) > 0 {
		printLogs(out, dir)
		fmt.Fprintln(out, "FAIL ", strings.Join(wrong, "; "))
		return errFailed
	}
	fmt.Fprintln(out, verdict(o, f))
	return nil
}

// printLogs prints the logs of the instances, which are about to be removed.
func printLogs(out io.Writer, dir string) {
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log")) // the pattern is a good one
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			text = []byte(err.Error() + "\n")
		}
		fmt.Fprintf(out, "%s:\n%s", filepath.Base(log), text)
	}
}
