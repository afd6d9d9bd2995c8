// Package commands is swctl, in whichever binary. A binary differs by the stores of run logs that
// it links.
//
// Each command is a file here, and a line in commands. It defines its flags, its requests to the
// group, and its output. The rest is in rooms, of which each knows only those before it, all below
// cmd/swctl:
//
//   - internal/output: tables,
//   - internal/cmdline: reading the line, asking a person, errors and exit codes,
//   - internal/fields: the fields of a job as flags and lines,
//   - internal/files: jobs in files, and how a group differs from them,
//   - internal/group: connecting, --timeout, hints; package admin does the work,
//   - internal/render: printing for people, with the sentences of package admin/words and the safe
//     text of admin/plain; package admin/api is for programs,
//   - internal/imports: jobs from what other schedulers keep, for swctl import,
//   - internal/supervise: the parent of a process, for swctl guard.
package commands

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/txnaudit"
)

// Main runs the command line of the process, and exits. It names itself as program in its texts,
// and knows the stores of run logs that are given, by the schemes of their URLs, beside files.
func Main(program string, stores map[string]StoreOpener) {
	ctx, stop := cmdline.UntilSignal(context.Background())
	a := &app{dial: group.Dial, whoami: admin.Self, build: debug.ReadBuildInfo, serve: serveDev, audit: txnaudit.Run, stores: stores}
	line := &cmdline.App{
		Program: program,
		Stdin:   os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv, Now: time.Now, Names: a.names,
		Interactive: cmdline.IsTerminal(os.Stdin) && cmdline.IsTerminal(os.Stderr),
		Terminal:    func() (int, int) { return cmdline.TerminalSize(os.Stdout, os.Getenv) },
		Commands:    a.commands(),
	}
	code := line.Run(ctx, os.Args[1:])
	stop()
	os.Exit(int(code))
}

// commands are swctl's commands in the order of its help.
func (a *app) commands() []*cmdline.Command {
	return []*cmdline.Command{
		a.submitCommand(), a.applyCommand(), a.diffCommand(), a.validateCommand(), a.exportCommand(), a.importCommand(), a.setCommand(), a.rollbackCommand(), a.cancelCommand(), a.undeleteCommand(), a.clearCommand(), a.doctorCommand(), a.listCommand(), a.topCommand(), a.showCommand(), a.nextCommand(),
		a.historyCommand(), a.logCommand(), a.whyCommand(), a.watchCommand(), a.runlogCommand(), a.notifyCommand(), a.testNotifyCommand(), a.uiCommand(), a.triggerCommand(), a.stopRunCommand(),
		a.requestsCommand(), a.cancelRequestsCommand(), a.pauseCommand(), a.resumeCommand(), a.repairCommand(),
		a.auditCommand(), a.instancesCommand(), a.showInstanceCommand(), a.drainCommand(), a.disableCommand(), a.enableCommand(), a.showACLCommand(), a.initACLCommand(), a.checkACLCommand(),
		a.guardCommand(), a.devCommand(), a.completionCommand(), a.configCommand(), a.versionCommand(),
	}
}

// app is what commands touch of the outside world beside their line.
type app struct {
	dial   group.Dialer
	whoami func() string // who asks, for the records
	build  func() (*debug.BuildInfo, bool)
	serve  func(ctx context.Context, listen string, ready func(addr string) error) error // see serveDev
	audit  func(context.Context, txnaudit.Options) (txnaudit.Report, error)
	stores map[string]StoreOpener // of run logs beside files, by the scheme of their URLs
}
