// Package supervise runs one child process: it starts it in its own process group, passes signals
// on to it, waits for it, and kills the rest of the group. On Linux it also adopts and reaps the
// orphans of the child, so it can be process 1 of a container.
package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Command is what to start.
type Command struct {
	Args           []string // the program and its arguments
	Env            string   // "NAME=value", added to this process's environment
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// StartError says that the child could not be started.
type StartError struct {
	Hint string // what to do about it; may be empty
	Err  error

	code int
}

// ExitCode is a shell's exit code: 127 if there is no such program, else 126.
func (e *StartError) ExitCode() int { return e.code }

func (e *StartError) Error() string { return "start the command: " + e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// MayRun returns nil if the process pid on that host has certainly ended, once the child
// has, and otherwise the reason why it may still run.
func (c *Child) MayRun(host string, pid int) error {
	here, err := os.Hostname()
	if err != nil {
		return err
	}
	switch {
	case host != here:
		return fmt.Errorf("it runs on host %q and guard on %q, so its process ID means nothing here", host, here)
	case pid <= 0:
		return errors.New("its registration has no process ID")
	case pid != c.pid() && !c.alone:
		return fmt.Errorf("it runs in process %d, which guard did not start, and descendants of the process that guard did start are still running", pid)
	case exists(pid):
		return fmt.Errorf("process %d exists", pid)
	}
	return nil
}
