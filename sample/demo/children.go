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

// work is the duration of every run, so that runs could overlap.
const work = "50ms"

// runInstance is the main function of a child process: it runs an instance of the sample's
// application until ctx ends or stdin is closed.
func runInstance(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	go func() {
		// The demo holds the other end, and the kernel closes it however the demo dies.
		// A clean stop would be pointless then, and the server may be gone.
		_, _ = io.Copy(io.Discard, stdin)
		os.Exit(1)
	}()
	return instance.Run(ctx, args, stdout, stderr)
}

// children are the processes of the demo, by instance name.
type children struct {
	alive   context.Context //nolint:containedctx // of all children: they end with it
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
	if _, err := cmd.StdinPipe(); err != nil { // to detect the demo's end: see runInstance
		return err
	}
	var files []*os.File
	defer func() {
		for _, file := range files {
			_ = file.Close() // the child has a copy
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
		_ = cmd.Wait() // the log shows how it ended
	}()
	return nil
}

func (c *children) pid(name string) int { return c.running[name].cmd.Process.Pid }

// signal sends a child a signal and waits until it has ended.
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
		return fmt.Errorf("%s has not exited within %v of signal %v", name, grace, signal)
	}
}

// endedByItself returns a child that has exited unexpectedly, or "".
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

// runningIDs returns the running instances.
func (c *children) runningIDs() []string { return slices.Sorted(maps.Keys(c.running)) }

// end stops all children concurrently and waits until they have exited. No more can be started.
func (c *children) end() {
	c.endAll()
	for _, child := range c.running {
		<-child.ended
	}
	clear(c.running)
}
