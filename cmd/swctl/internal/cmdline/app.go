// Package cmdline is how a program of several commands reads its command line and ends: it finds
// the command, its flags and its arguments in any order, prints help, suggests a likely spelling,
// asks for confirmation, and turns an error into a message, a hint and an exit code.
//
// A line is sorted first (line.go); then urfave/cli reads the flags; the command renders into
// a buffer that is printed when it returns (call.go); the error that it returns becomes one
// to three lines on stderr (exit.go).
package cmdline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// Command is one command of the program.
type Command struct {
	Name     string // one word or two
	Aliases  []string
	Args     string // synopsis of the arguments
	Short    string // one line for the list of commands
	Long     string // more for its own help
	Examples string // lines to copy and paste
	Flags    []Flag
	Run      func(context.Context, *Call) error
	// Lenient commands run whatever the shared flags and their variables contain.
	Lenient bool
}

func find(commands []*Command, name string) *Command {
	for _, c := range commands {
		if c.Name == name || slices.Contains(c.Aliases, name) {
			return c
		}
	}
	return nil
}

// App is the program and everything it touches of the outside world.
type App struct {
	Program        string // the command by which users call it
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            func(string) string
	Now            func() time.Time
	Interactive    bool // a person types on stdin and reads stderr
	Commands       []*Command
	// Names lists the names of a kind in the group, to complete a word. It has a fifth of a second.
	Names func(ctx context.Context, set Settings, kind Kind) ([]Offer, error)
	// Terminal is the size of the one that Stdout is, see TerminalSize; nil if it is none.
	Terminal func() (columns, rows int)
}

// Run executes one command line and returns the exit code.
func (a *App) Run(ctx context.Context, args []string) ExitCode {
	if len(args) > 1 && args[0] == completeWord {
		a.complete(ctx, args[1:])
		return ExitOK
	}
	l := ParseLine(a.commands(), args)
	err := a.dispatch(ctx, l)
	if err == nil {
		return ExitOK
	}
	if silent := (*SilentError)(nil); errors.As(err, &silent) {
		return silent.Code
	}
	if stopped := SignalOf(ctx); stopped != nil && !errors.Is(err, stopped) {
		err = fmt.Errorf("%w: %w", stopped, err) // what failed after a signal failed because of it
	}
	return a.report(err, a.wantsJSON(l))
}

// commands are the program's, and help.
func (a *App) commands() []*Command { return append(slices.Clip(a.Commands), a.helpCommand()) }

func (a *App) dispatch(ctx context.Context, l Line) error {
	switch {
	case l.Unknown != "":
		return unknownCommand(a.commands(), l.Unknown)
	case l.Command == nil && (l.Help || l.empty()):
		return a.print(a.appHelp())
	case l.Help:
		return a.print(a.commandHelp(l.Command))
	case l.Err != nil:
		return l.Err
	case l.Command == nil:
		return Usage("no command given").Try("swctl help lists the commands")
	}
	return a.cli(l.Command).RunContext(ctx, l.Normal())
}

// cli passes the command to urfave/cli, which only reads flag values: the line is sorted
// already, help is printed here, and its os.Exit is never reached. Nothing global is touched,
// so apps can run side by side.
func (a *App) cli(cmd *Command) *cli.App {
	var flags []cli.Flag
	for _, f := range append(slices.Clip(cmd.Flags), SharedFlags()...) {
		flags = append(flags, f.cli())
	}
	return &cli.App{
		Name: a.Program, Reader: a.Stdin, Writer: a.Stdout, ErrWriter: a.Stderr,
		HideHelp: true, HideHelpCommand: true, HideVersion: true,
		DisableSliceFlagSeparator: true, // --arg x=1,2 is one value
		OnUsageError:              badFlagValue,
		ExitErrHandler:            func(*cli.Context, error) {},
		Commands: []*cli.Command{{
			Name: cmd.Name, Flags: flags, Action: a.action(cmd), OnUsageError: badFlagValue,
			HideHelp: true, HideHelpCommand: true,
		}},
	}
}

func badFlagValue(c *cli.Context, err error, _ bool) error {
	return Usage("%s: %v", c.Command.Name, err).Try("swctl %s --help", c.Command.Name)
}

// print writes finished output in one piece.
func (a *App) print(text []byte) error {
	if _, err := a.Stdout.Write(text); err != nil {
		return fmt.Errorf("%w: %w", errOutput, err)
	}
	return nil
}

// Sayf writes a remark to stderr at once; it is not part of the output.
func (a *App) Sayf(format string, args ...any) {
	fmt.Fprintf(a.Stderr, "%s: %s\n", a.Program, plain.OneLine(fmt.Sprintf(a.named(format), args...)))
}

// itself finds the program's name in the texts of this package and its users, which all say swctl.
var itself = regexp.MustCompile(`(?m)(^|[\s(])swctl([\s:,;.)']|$)`)

// named puts the name by which users call the program into a text.
func (a *App) named(text string) string {
	return itself.ReplaceAllString(text, "${1}"+a.Program+"${2}")
}

// Screen is the size of the terminal that Stdout is; 0 if it is none. It has colors unless NO_COLOR
// is set, or TERM is dumb.
func (a *App) Screen() (columns, rows int, colors bool) {
	if a.Terminal == nil {
		return 0, 0, false
	}
	columns, rows = a.Terminal()
	return columns, rows, columns > 0 && a.Env("NO_COLOR") == "" && a.Env("TERM") != "dumb"
}

// TerminalSize is how many columns and rows a stream has: 0 if it is no terminal. If the terminal
// does not tell, it is the variable COLUMNS, or 80, which comes first if it is set.
func TerminalSize(stream *os.File, env func(string) string) (columns, rows int) {
	if !IsTerminal(stream) {
		return 0, 0
	}
	columns, rows = windowSize(stream)
	if set, err := strconv.Atoi(env("COLUMNS")); err == nil && set > 0 {
		columns = set
	}
	return cmp.Or(columns, 80), rows
}

// IsTerminal reports whether a stream is a terminal or another character device: reading an
// answer from /dev/null returns the end of input at once.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
