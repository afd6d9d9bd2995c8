package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/swjobs/singleworker/cmd/swctl/internal/supervise"
	"github.com/swjobs/singleworker/singleworker/admin"
)

// exitCode tells a script how a command went.
type exitCode int

// The exit codes; they do not change.
const (
	exitOK            exitCode = 0
	exitNo            exitCode = 1
	exitUsage         exitCode = 2
	exitNotFound      exitCode = 3
	exitConflict      exitCode = 4
	exitUnavailable   exitCode = 5
	exitDenied        exitCode = 6
	exitTimeout       exitCode = 7
	exitUnconfirmed   exitCode = 8
	exitInternal      exitCode = 70
	exitNotExecutable exitCode = 126
	exitNoCommand     exitCode = 127
	exitInterrupted   exitCode = 130
	exitTerminated    exitCode = 143
)

// exitInfo is an exit code with its name in JSON errors.
type exitInfo struct {
	code    exitCode
	name    string
	meaning string
}

func exitInfos() []exitInfo {
	return []exitInfo{
		{exitOK, "ok", "done"},
		{exitNo, "no", "ran well, and the answer is no: the run of trigger --wait did not end well"},
		{exitUsage, "invalid", "wrong usage or invalid input: a flag, a schedule, a name, a file"},
		{exitNotFound, "not_found", "no such job or shard, or no such instance runs"},
		{exitConflict, "conflict", "the job stands in the way: it exists and differs, nobody can run it, it does not run, too many requests wait, its record cannot be read; or somebody else kept changing it"},
		{exitUnavailable, "unavailable", "no ZooKeeper server answered"},
		{exitDenied, "denied", "ZooKeeper refused access"},
		{exitTimeout, "timeout", "not done within --timeout, though a server answered"},
		{exitUnconfirmed, "unconfirmed", "needs a confirmation that was not given"},
		{exitInternal, "internal", "a bug in swctl, or an error that no other code fits"},
		{exitNotExecutable, "not_executable", "guard: the command could not be started"},
		{exitNoCommand, "no_command", "guard: no such command; if it was started, guard has its exit code"},
		{exitInterrupted, "interrupted", "stopped by an interrupt (SIGINT, Ctrl-C)"},
		{exitTerminated, "terminated", "stopped by SIGTERM"},
	}
}

func (code exitCode) name() string {
	for _, info := range exitInfos() {
		if info.code == code {
			return info.name
		}
	}
	return ""
}

// classify is the one place that turns an error into an exit code. The order
// matters where an error is several things at once.
func classify(err error) exitCode {
	var (
		stopped *signalError
		misuse  *usageError
		invalid *admin.InvalidError
		command *supervise.StartError
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &stopped) && stopped.signal == syscall.SIGTERM:
		return exitTerminated // the system wants us gone; whatever else failed, failed because of it
	case errors.As(err, &stopped):
		return exitInterrupted // likewise, a person
	case errors.As(err, &misuse):
		return exitUsage // the command line, before anything was asked of a server
	case errors.As(err, &command):
		return exitCode(command.Code) // as in a shell
	case errors.Is(err, errUnconfirmed):
		return exitUnconfirmed // nobody said yes, so nothing was done
	case errors.As(err, &invalid):
		return exitUsage // the library refuses the input: trying again will not help
	case errors.Is(err, errNo):
		return exitNo
	case errors.Is(err, admin.ErrNotFound), errors.Is(err, admin.ErrNoShard), errors.Is(err, admin.ErrNoInstance):
		return exitNotFound // the job, the shard, or the instance, is not there, or no longer
	case errors.Is(err, admin.ErrExists):
		return exitConflict // the submitter expected a free name
	case errors.Is(err, admin.ErrUnreadable), errors.Is(err, admin.ErrNoHandler),
		errors.Is(err, admin.ErrBusy), errors.Is(err, admin.ErrNotRunning):
		return exitConflict // as the job is, it cannot be done
	case errors.Is(err, admin.ErrConflict), errors.Is(err, admin.ErrNotDraining):
		return exitConflict // others were faster every time
	case errors.Is(err, admin.ErrDenied):
		return exitDenied // a server answered, and refused
	case errors.Is(err, admin.ErrUnavailable):
		return exitUnavailable // no server answered; that the time ran out as well is the consequence
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout // servers answered, but not with the end of it
	}
	return exitInternal // nothing above knows it
}

// usageError refuses a command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usage makes a usageError; a hint can be hung on with try.
func usage(format string, args ...any) *hintError {
	return &hintError{err: &usageError{fmt.Errorf(format, args...)}}
}

// hintError is an error with the way out: what to type or look at.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

func (e *hintError) try(format string, args ...any) *hintError {
	e.hint = fmt.Sprintf(format, args...)
	return e
}

func withHint(err error, format string, args ...any) error {
	return (&hintError{err: err}).try(format, args...)
}

// hintOf is the hint of an error, or empty.
func hintOf(err error) string {
	if hinted := new(hintError); errors.As(err, &hinted) {
		return hinted.hint
	}
	return ""
}

// report writes an error to stderr and returns the exit code.
func (a *app) report(err error, asJSON bool) exitCode {
	code, hint := classify(err), hintOf(err)
	if asJSON {
		var text bytes.Buffer
		body := jsonErrorBody{Code: code.name(), Message: err.Error(), Hint: hint}
		if putJSON(&text, "", jsonError{body}) == nil {
			_, _ = a.stderr.Write(text.Bytes())
			return code
		}
	}
	a.sayf("%v", err)
	if hint != "" {
		fmt.Fprintf(a.stderr, "try: %s\n", oneLine(hint))
	}
	return code
}

// wantsJSON reports whether errors are to be JSON. It must know even when the
// command line is too broken to be run.
func (a *app) wantsJSON(l line) bool {
	format := l.last(flagOutput)
	if format == "" {
		format = a.env(envOutput)
	}
	return format == "json"
}
