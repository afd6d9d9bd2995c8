// Command fencing shows what a fencing token is for, on a real table with real
// processes: two instances share a job that writes a report; the owner is stopped
// (kill -STOP) between its last check and its write; the other one takes over and
// writes; the first goes on (kill -CONT), and its late write arrives. The table
// refuses it. A second table, the same without the condition, does not, and ends up
// with the older report.
//
//	cd sample/sql/fencing && go run .
//
// The last line is PASS with figures, or FAIL and why.
//
// report.go is the application: table, statement, handler. The README says what a target
// needs to be fenced. The rest is the demonstration: [instance] is the process
// that is started twice, [demonstrate] is the story, [judge] what has to come out.
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
		fmt.Fprintln(os.Stderr, "fencing:", err)
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
	dir, err := os.MkdirTemp("", "fencing-")
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
	show(o, say)
	if wrong := judge(o); len(wrong) > 0 {
		printLogs(out, dir)
		fmt.Fprintln(out, "FAIL ", strings.Join(wrong, "; "))
		return errFailed
	}
	fmt.Fprintln(out, verdict(o))
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
