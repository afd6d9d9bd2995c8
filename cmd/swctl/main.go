// Command swctl submits, cancels and shows the timed jobs that the instances
// of an application share through ZooKeeper. Everything it knows of them comes
// from package admin; here are flags, output and exit codes.
//
// A command line takes this way: the pre-pass (prepass.go) sorts it into a
// command, its flags and its arguments; urfave/cli reads the flags; the
// command (one file each) calls admin and renders into a buffer; an error
// becomes one to three lines on stderr and an exit code (exit.go).
//
// Two commands are not of that kind: swctl dev is a server (dev.go), and swctl guard is the
// parent of an application (guard.go; processes in guard_unix.go).
package main

import (
	"context"
	"os"
	_ "time/tzdata" // a slim container has no zone files, and jobs name zones
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}
