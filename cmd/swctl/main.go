// Command swctl submits, cancels and shows the timed jobs that the instances of an
// application share through ZooKeeper.
//
// Each command is a file here that composes four rooms, and a line in commands:
//
//   - internal/cmdline reads the line and turns errors into exit codes,
//   - group.go connects, and package admin does the work,
//   - internal/explain and internal/output print,
//   - internal/supervise is the parent of a process, for swctl guard.
//
// To add a command, write a function that returns a cmdline.Command and add it to commands.
package main

import (
	"context"
	"os"
	"os/user"
	"runtime/debug"
	"time"
	_ "time/tzdata" // a slim container has no zone files, and jobs name zones

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
)

func main() {
	ctx, stop := cmdline.UntilSignal(context.Background())
	a := &app{dial: dialAdmin, whoami: whoami, build: debug.ReadBuildInfo, serve: serveDev}
	line := &cmdline.App{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv, Now: time.Now,
		Interactive: cmdline.IsTerminal(os.Stdin) && cmdline.IsTerminal(os.Stderr),
		Commands:    a.commands(),
	}
	code := line.Run(ctx, os.Args[1:])
	stop()
	os.Exit(int(code))
}

// commands are swctl's commands in the order of its help.
func (a *app) commands() []*cmdline.Command {
	return []*cmdline.Command{
		a.submitCommand(), a.setCommand(), a.cancelCommand(), a.listCommand(), a.showCommand(), a.nextCommand(),
		a.historyCommand(), a.whyCommand(), a.triggerCommand(), a.stopRunCommand(),
		a.requestsCommand(), a.cancelRequestsCommand(), a.pauseCommand(), a.resumeCommand(), a.repairCommand(),
		a.instancesCommand(), a.drainCommand(), a.disableCommand(), a.enableCommand(),
		a.guardCommand(), a.devCommand(), a.versionCommand(),
	}
}

// app is what commands touch of the outside world beside their line.
type app struct {
	dial   func(context.Context, admin.Config) (client, error)
	whoami func() string // who asks, for the records
	build  func() (*debug.BuildInfo, bool)
	serve  func(ctx context.Context, listen string, ready func(addr string) error) error // see serveDev
}

// call is one run of a command.
type call struct {
	*cmdline.Call
	*app
}

// run is the Run of a command.
func (a *app) run(do func(context.Context, *call) error) func(context.Context, *cmdline.Call) error {
	return func(ctx context.Context, c *cmdline.Call) error { return do(ctx, &call{c, a}) }
}

// whoami is user@host, as far as the system knows.
func whoami() string {
	name, host := "unknown", "unknown"
	if current, err := user.Current(); err == nil {
		name = current.Username
	}
	if this, err := os.Hostname(); err == nil {
		host = this
	}
	return name + "@" + host
}
