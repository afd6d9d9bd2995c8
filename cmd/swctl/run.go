package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// ownerWait is how long submit waits at most for an instance to adopt the job.
const ownerWait = 2 * time.Second

// app is swctl and everything it touches of the outside world.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	env    func(string) string
	now    func() time.Time

	interactive bool // a person sits at stdin and reads stderr
	dial        func(context.Context, admin.Config) (client, error)
	whoami      func() string // who asks, for the records
	build       func() (*debug.BuildInfo, bool)
	serve       func(ctx context.Context, listen string, ready func(addr string) error) error // see serveDev
}

// run is swctl from its arguments to its exit code. The first interrupt ends
// it in order, the second one at once.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	ctx, stop := untilSignal(ctx)
	defer stop()
	a := &app{
		stdin: stdin, stdout: stdout, stderr: stderr, env: env, now: time.Now,
		interactive: isTerminal(stdin) && isTerminal(stderr),
		dial:        dialAdmin,
		whoami:      whoami,
		build:       debug.ReadBuildInfo,
		serve:       serveDev,
	}
	return int(a.run(ctx, args))
}

// run executes one command line and reports how it went.
func (a *app) run(ctx context.Context, args []string) exitCode {
	line := parseLine(a.commands(), args)
	err := a.dispatch(ctx, line)
	if err == nil {
		return exitOK
	}
	if child := (*childExitError)(nil); errors.As(err, &child) {
		return child.code // guard has passed the signal on, which the child may have survived
	}
	if stopped := signalOf(ctx); stopped != nil && !errors.Is(err, stopped) {
		err = fmt.Errorf("%w: %w", stopped, err) // what failed after a signal failed because of it
	}
	return a.report(err, a.wantsJSON(line))
}

func (a *app) dispatch(ctx context.Context, line line) error {
	switch {
	case line.unknown != "":
		return unknownCommand(a.commands(), line.unknown)
	case line.command == nil && (line.help || line.empty()):
		return a.print(appHelp(a.commands()))
	case line.help:
		return a.print(commandHelp(line.command))
	case line.err != nil:
		return line.err
	case line.command == nil:
		return usage("no command given").try("swctl help lists the commands")
	}
	return a.cli().RunContext(ctx, line.normal())
}

// commands lists swctl's commands in the order of its help.
func (a *app) commands() []*command {
	return []*command{
		a.submitCommand(), a.setCommand(), a.cancelCommand(), a.listCommand(), a.showCommand(), a.nextCommand(),
		a.historyCommand(), a.whyCommand(), a.triggerCommand(), a.stopRunCommand(),
		a.requestsCommand(), a.withdrawCommand(), a.pauseCommand(), a.resumeCommand(),
		a.instancesCommand(), a.drainCommand(), a.disableCommand(), a.enableCommand(),
		a.guardCommand(), a.devCommand(), a.versionCommand(), a.helpCommand(),
	}
}

// cli wires the commands into urfave/cli, which is left with reading flag
// values: the pre-pass has found the command and sorted its arguments, help is
// printed here, and no path leads to its os.Exit. Nothing of it that is global
// is touched, so apps can run side by side.
func (a *app) cli() *cli.App {
	top := &cli.App{
		Name: "swctl", Reader: a.stdin, Writer: a.stdout, ErrWriter: a.stderr,
		HideHelp: true, HideHelpCommand: true, HideVersion: true,
		DisableSliceFlagSeparator: true, // --arg x=1,2 is one value
		OnUsageError:              badFlagValue,
		ExitErrHandler:            func(*cli.Context, error) {},
		Action:                    func(c *cli.Context) error { return unknownCommand(a.commands(), c.Args().First()) },
	}
	for _, cmd := range a.commands() {
		top.Commands = append(top.Commands, &cli.Command{
			Name: cmd.name, Aliases: cmd.aliases, Usage: cmd.short, ArgsUsage: cmd.args,
			Flags: cmd.allFlags(), Action: cmd.run, OnUsageError: badFlagValue,
			HideHelp: true, HideHelpCommand: true,
		})
	}
	return top
}

func badFlagValue(c *cli.Context, err error, _ bool) error {
	return usage("%s: %v", c.Command.Name, err).try("swctl %s --help", c.Command.Name)
}

// print writes the finished output of a command in one piece.
func (a *app) print(text []byte) error {
	if _, err := a.stdout.Write(text); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// sayf writes a remark for people to stderr; it is no part of the output.
func (a *app) sayf(format string, args ...any) {
	fmt.Fprintf(a.stderr, "swctl: %s\n", oneLine(fmt.Sprintf(format, args...)))
}

// call is one run of a command: its flags and arguments, and the output that
// is printed when it has ended, also when it failed halfway.
type call struct {
	*app
	settings

	flags *cli.Context
	args  []string
	out   bytes.Buffer
	notes []string // remarks that follow the output, on stderr
}

func (c *call) notef(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// action makes of a command what urfave/cli calls.
func (a *app) action(do func(context.Context, *call) error) cli.ActionFunc {
	return func(flags *cli.Context) error {
		set, err := a.settings(flags)
		if err != nil {
			return err
		}
		c := &call{app: a, settings: set, flags: flags, args: flags.Args().Slice()}
		err = do(flags.Context, c)
		if c.out.Len() > 0 {
			err = errors.Join(err, a.print(c.out.Bytes()))
		}
		for _, note := range c.notes {
			a.sayf("%s", note)
		}
		return err
	}
}

// isTerminal reports whether a file is a terminal, or as good as one: of
// /dev/null a prompt reads the end of input at once.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
