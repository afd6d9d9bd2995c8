package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/swjobs/singleworker/sample/instance"
)

// grace is how long a child may take to stop before it is killed.
const grace = 5 * time.Second

// work is how long every run pretends to work, so that runs can overlap.
const work = "50ms"

// runInstance is what a child process does: it is an instance of the sample's application
// until ctx ends, or stdin does.
func runInstance(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	go func() {
		// The demo holds the other end, and the kernel closes it however the demo dies.
		// An orderly stop would be pointless then, and there may be no server.
		_, _ = io.Copy(io.Discard, stdin)
		os.Exit(1)
	}()
	return instance.Run(ctx, args, stdout, stderr)
}

// children are the processes of the demo, by the names of their instances.
type children struct {
	alive   context.Context //nolint:containedctx // of all that are started: they end with it
	endAll  context.CancelFunc
	dir     string
	running map[string]*child
}

type child struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// startInstance adds an instance to the group.
func (d *demo) startInstance(sid string) error {
	args := append(slices.Clone(d.Instance[1:]), "--zk", d.Servers, "--server-type", d.ServerType, "--id", sid,
		"--ledger", d.record.Ledger(), "--session-timeout", d.Session.String(), "--work", work)
	if err := d.start(sid, d.Instance[0], args); err != nil {
		return fmt.Errorf("start %s: %w", sid, err)
	}
	return nil
}

func (c *children) start(name, program string, args []string) error {
	cmd := exec.CommandContext(c.alive, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	cmd.SysProcAttr = ownGroup()
	if _, err := cmd.StdinPipe(); err != nil { // nothing is sent: see runInstance
		return err
	}
	var files []*os.File
	defer func() {
		for _, file := range files {
			_ = file.Close() // the child has its own
		}
	}()
	for suffix, stream := range map[string]*io.Writer{".out": &cmd.Stdout, ".log": &cmd.Stderr} {
		path := filepath.Join(c.dir, name+suffix)
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		files = append(files, file)
		*stream = file
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	started := &child{cmd: cmd, ended: make(chan struct{})}
	c.running[name] = started
	go func() {
		defer close(started.ended)
		_ = cmd.Wait() // how it ended is in its log
	}()
	return nil
}

func (c *children) pid(name string) int { return c.running[name].cmd.Process.Pid }

// signal sends a child a signal that ends it, and returns when it has ended.
func (c *children) signal(name string, signal os.Signal) error {
	ending := c.running[name]
	delete(c.running, name)
	if err := ending.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("signal to %s: %w", name, err)
	}
	select {
	case <-ending.ended:
		return nil
	case <-time.After(grace):
		_ = ending.cmd.Process.Kill()
		<-ending.ended
		return fmt.Errorf("%s has not ended within %v of the signal (%v)", name, grace, signal)
	}
}

// endedByItself is a child that has ended though nobody told it to, or "".
func (c *children) endedByItself() string {
	for name, child := range c.running {
		select {
		case <-child.ended:
			return name
		default:
		}
	}
	return ""
}

// runningIDs are the instances that run.
func (c *children) runningIDs() []string { return slices.Sorted(maps.Keys(c.running)) }

// end stops all children side by side, and returns when none is left. No other can be
// started.
func (c *children) end() {
	c.endAll()
	for _, child := range c.running {
		<-child.ended
	}
	clear(c.running)
}
