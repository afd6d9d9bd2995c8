// Package commands is swctl, in whichever binary. A binary differs by the stores of run logs that
// it links.
//
// Each command is a file here, and a line in commands. It defines its flags, its requests to the
// group, and its output. It is a function that does three things, each with as little as that
// needs: it reads its line from a cmdline.Call, asks a group that a call connects to, and answers
// with a reply. A command that asks no group has no call. No command knows another one. Beside
// commands there are only the parts that several share, below them, and main.go above them.
//
// The rest is in rooms, of which each knows only those before it, all below cmd/swctl:
//
//   - internal/output: tables,
//   - internal/cmdline: reading the line, asking a person, errors and exit codes,
//   - internal/fields: the fields of a job as flags and lines,
//   - internal/files: jobs in files, and how a group differs from them,
//   - internal/effects: the comparison of an application's database with the run log,
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
// and knows the stores of run logs that are given, beside files, and the databases with markers, by
// the schemes of their URLs.
func Main(program string, stores map[string]StoreOpener, databases map[string]DatabaseOpener) {
	ctx, stop := cmdline.UntilSignal(context.Background())
	a := &app{
		env:   env{dial: group.Dial, whoami: admin.Self},
		build: debug.ReadBuildInfo, serve: serveDev, serveFiles: serveDurable, audit: txnaudit.Run, stores: stores, databases: databases,
	}
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
	e := &a.env
	return []*cmdline.Command{
		submitCommand(e), applyCommand(e), diffCommand(e), validateCommand(), exportCommand(e), importCommand(e), setCommand(e), rollbackCommand(e), cancelCommand(e), undeleteCommand(e), clearCommand(e), doctorCommand(e), listCommand(e), treeCommand(e), topCommand(e), showCommand(e), nextCommand(e),
		historyCommand(e, a.stores), logCommand(e), whyCommand(e), watchCommand(e), runlogCommand(e, a.stores), notifyCommand(e), testNotifyCommand(e), uiCommand(e, a.stores), triggerCommand(e), retryCommand(e), backfillCommand(e), stopRunCommand(e),
		requestsCommand(e), cancelRequestsCommand(e), pauseCommand(e), resumeCommand(e), freezeCommand(e), unfreezeCommand(e), repairCommand(e),
		auditCommand(a.audit), checkOnceCommand(a.databases, a.stores), resetOnceCommand(e, a.databases), instancesCommand(e), showInstanceCommand(e), drainCommand(e), disableCommand(e), enableCommand(e), calendarsCommand(e), showCalendarCommand(e), setCalendarCommand(e), deleteCalendarCommand(e), limitsCommand(e), showLimitCommand(e), setLimitCommand(e), deleteLimitCommand(e), freeLimitCommand(e), showACLCommand(e), initACLCommand(e), checkACLCommand(e),
		guardCommand(), devCommand(a.serve), serveCommand(a.serveFiles), exportServerCommand(), restoreServerCommand(), completionCommand(), configCommand(), versionCommand(a.build),
	}
}

// app has the outside world of all commands, beside their lines. Each command is given its part.
type app struct {
	env

	build      buildInfo
	serve      devServing
	serveFiles durableServing
	audit      auditing
	stores     stores
	databases  databases
}
