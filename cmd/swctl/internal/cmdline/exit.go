package cmdline

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"

	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// ExitCode tells a script the result of a command.
type ExitCode int

// The exit codes; they do not change.
const (
	ExitOK            ExitCode = 0
	ExitNo            ExitCode = 1
	ExitUsage         ExitCode = 2
	ExitNotFound      ExitCode = 3
	ExitConflict      ExitCode = 4
	ExitUnavailable   ExitCode = 5
	ExitDenied        ExitCode = 6
	ExitTimeout       ExitCode = 7
	ExitUnconfirmed   ExitCode = 8
	ExitInternal      ExitCode = 70
	ExitOutput        ExitCode = 74
	ExitNotExecutable ExitCode = 126
	ExitNoCommand     ExitCode = 127
	ExitInterrupted   ExitCode = 130
	ExitTerminated    ExitCode = 143
)

// exitInfo is an exit code with its name in JSON errors.
type exitInfo struct {
	code    ExitCode
	name    string
	meaning string
}

func exitInfos() []exitInfo {
	return []exitInfo{
		{ExitOK, "ok", "done"},
		{ExitNo, "no", "the command succeeded but the result is negative: the run of trigger --wait did not succeed, audit found a violation, doctor found something wrong, a target did not take the message of notify test, or import could not translate everything"},
		{ExitUsage, "invalid", "wrong usage or invalid input: a flag, a schedule, a name, a file"},
		{ExitNotFound, "not_found", "no such job, shard, server type or namespace, or no such instance is running"},
		{ExitConflict, "conflict", "conflict: the job exists and differs, no instance can run the job, it is not running, too many requests are pending, its record cannot be read, the group has no room for more jobs, a node has too many children to be listed, instances of a group to be cleared are running, or others kept changing it"},
		{ExitUnavailable, "unavailable", "no ZooKeeper server answered"},
		{ExitDenied, "denied", "ZooKeeper refused access"},
		{ExitTimeout, "timeout", "not done within --timeout, although a server answered"},
		{ExitUnconfirmed, "unconfirmed", "needs a confirmation that was not given"},
		{ExitInternal, "internal", "a bug in swctl, or an error without a code"},
		{ExitOutput, "output", "the output could not be written; what it tells of is done"},
		{ExitNotExecutable, "not_executable", "guard: the command could not be started"},
		{ExitNoCommand, "no_command", "guard: no such command; once it is started, guard exits with its exit code"},
		{ExitInterrupted, "interrupted", "interrupted (SIGINT, Ctrl-C)"},
		{ExitTerminated, "terminated", "terminated (SIGTERM)"},
	}
}

func (code ExitCode) name() string {
	for _, info := range exitInfos() {
		if info.code == code {
			return info.name
		}
	}
	return ""
}

// codedError is an error that has its own exit code.
type codedError interface {
	error
	ExitCode() int
}

// classify is the one place that turns an error into an exit code. The order
// matters where an error is several things at once.
func classify(err error) ExitCode {
	var (
		stopped *SignalError
		misuse  *UsageError
		coded   codedError
	)
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &stopped) && stopped.Signal == syscall.SIGTERM:
		return ExitTerminated // the system wants us gone; anything else that failed did so because of that
	case errors.As(err, &stopped):
		return ExitInterrupted // likewise, a person
	case errors.As(err, &misuse):
		return ExitUsage // the command line, before anything was asked of a server
	case errors.As(err, &coded):
		return ExitCode(coded.ExitCode())
	}
	for _, known := range sentinels {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	return codeNamed(api.CodeOf(err))
}

// sentinels are the errors of the command line that have exit codes; package api knows package
// admin's.
var sentinels = []struct {
	err  error
	code ExitCode
}{
	{ErrUnconfirmed, ExitUnconfirmed},
	{ErrNo, ExitNo},
	{errOutput, ExitOutput},
}

func codeNamed(name string) ExitCode {
	for _, info := range exitInfos() {
		if info.name == name {
			return info.code
		}
	}
	return ExitInternal
}

// report writes an error to stderr and returns the exit code.
func (a *App) report(err error, asJSON bool) ExitCode {
	code, hint := classify(err), a.named(HintOf(err))
	if asJSON {
		var text bytes.Buffer
		document := api.Error{Error: api.ErrorBody{Code: code.name(), Message: err.Error(), Hint: hint}}
		if plain.JSON(&text, "", document) == nil {
			_, _ = a.Stderr.Write(text.Bytes())
			return code
		}
	}
	a.Sayf("%v", err)
	if hint != "" {
		fmt.Fprintf(a.Stderr, "try: %s\n", plain.OneLine(hint))
	}
	return code
}

// wantsJSON reports whether errors are to be JSON. It must know even when the
// command line is too broken to be run.
func (a *App) wantsJSON(l Line) bool {
	format := l.last(FlagOutput)
	if format == "" {
		format = a.Env(EnvOutput)
	}
	return format == formatJSON || format == formatLines || format == formatYAML // JSON is YAML, too
}
