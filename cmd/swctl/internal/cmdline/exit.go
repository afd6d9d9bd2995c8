package cmdline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
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
		{ExitNo, "no", "the command succeeded but the result is negative: the run of trigger --wait did not succeed"},
		{ExitUsage, "invalid", "wrong usage or invalid input: a flag, a schedule, a name, a file"},
		{ExitNotFound, "not_found", "no such job or shard, or no such instance is running"},
		{ExitConflict, "conflict", "conflict: the job exists and differs, no instance can run the job, it is not running, too many requests are pending, its record cannot be read, or others kept changing it"},
		{ExitUnavailable, "unavailable", "no ZooKeeper server answered"},
		{ExitDenied, "denied", "ZooKeeper refused access"},
		{ExitTimeout, "timeout", "not done within --timeout, although a server answered"},
		{ExitUnconfirmed, "unconfirmed", "needs a confirmation that was not given"},
		{ExitInternal, "internal", "a bug in swctl, or an error without a code"},
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
		invalid *admin.InvalidError
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
	case errors.Is(err, ErrUnconfirmed):
		return ExitUnconfirmed // nobody said yes, so nothing was done
	case errors.As(err, &invalid):
		return ExitUsage // the library refuses the input: trying again will not help
	case errors.Is(err, ErrNo):
		return ExitNo
	case errors.Is(err, admin.ErrNotFound), errors.Is(err, admin.ErrNoShard), errors.Is(err, admin.ErrNoInstance):
		return ExitNotFound // the job, the shard, or the instance, is not there, or no longer
	case errors.Is(err, admin.ErrExists):
		return ExitConflict // the submitter expected a free name
	case errors.Is(err, admin.ErrUnreadable), errors.Is(err, admin.ErrNoHandler),
		errors.Is(err, admin.ErrBusy), errors.Is(err, admin.ErrNotRunning):
		return ExitConflict // as the job is, it cannot be done
	case errors.Is(err, admin.ErrConflict), errors.Is(err, admin.ErrNotDraining):
		return ExitConflict // others were faster every time
	case errors.Is(err, admin.ErrDenied):
		return ExitDenied // a server answered, and refused
	case errors.Is(err, admin.ErrUnavailable):
		return ExitUnavailable // no server answered; that the time ran out as well is the consequence
	case errors.Is(err, context.DeadlineExceeded):
		return ExitTimeout // servers answered, but not with the end of it
	}
	return ExitInternal // nothing above knows it
}

// report writes an error to stderr and returns the exit code.
func (a *App) report(err error, asJSON bool) ExitCode {
	code, hint := classify(err), HintOf(err)
	if asJSON {
		var text bytes.Buffer
		document := api.Error{Error: api.ErrorBody{Code: code.name(), Message: err.Error(), Hint: hint}}
		if output.JSON(&text, "", document) == nil {
			_, _ = a.Stderr.Write(text.Bytes())
			return code
		}
	}
	a.Sayf("%v", err)
	if hint != "" {
		fmt.Fprintf(a.Stderr, "try: %s\n", output.OneLine(hint))
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
	return format == "json"
}
