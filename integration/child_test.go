package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
)

// childEnv makes a process of this test binary an instance: it holds a childConfig.
const childEnv = "SINGLEWORKER_TEST_CHILD"

// A childConfig configures a child process.
type childConfig struct {
	Options options
	Ledger  string

	// The process's role instead of an instance.
	RunLog string    // a reader of the run log, with the directory of the log
	Notify *notifier // a sender of notifications
}

// runChild is the main function of a child process, which is an instance. SIGTERM stops it cleanly.
func runChild(config string) (exitCode int) {
	fewerThreads()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var cfg childConfig
	if err := json.Unmarshal([]byte(config), &cfg); err != nil {
		log.Error("config", "err", err)
		return 2
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	switch {
	case cfg.RunLog != "":
		return exitOf(log, keepRunLog(ctx, cfg, log))
	case cfg.Notify != nil:
		return exitOf(log, sendNotifications(ctx, cfg, log))
	}
	file, err := os.OpenFile(cfg.Ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		log.Error("ledger", "err", err)
		return 2
	}
	defer file.Close()

	m, err := newManager(cfg.Options, func(e entry) {
		e.At = time.Now().Round(0)
		line, err := json.Marshal(e)
		if err == nil {
			_, err = file.Write(append(line, '\n')) // in one write, so that lines do not mix
		}
		if err != nil {
			panic(err) // the test needs the ledger
		}
	}, log)
	if err != nil {
		log.Error("manager", "err", err)
		return 2
	}
	return exitOf(log, m.Run(ctx))
}

func exitOf(log *slog.Logger, err error) (exitCode int) {
	if err != nil {
		log.Error("run", "err", err)
		return 1
	}
	return 0
}

// A child is an instance in a separate process.
type child struct {
	id     string
	log    string // file
	ledger *ledger
	pid    int
	ended  chan struct{}
	err    error // how the process ended; read after ended is closed

	killing sync.Once
}

// spawn starts an instance in a separate process.
func (c *cluster) spawn(o options) *child {
	c.t.Helper()
	return c.spawnUnder(nil, o)
}

// spawnUnder starts an instance through another program, whose command line is given without the
// instance's. The child is that program.
func (c *cluster) spawnUnder(starter []string, o options) *child {
	c.t.Helper()
	return c.spawnConfig(starter, childConfig{Options: c.complete(o)})
}

// spawnConfig starts a process of this test binary. Its options are complete.
func (c *cluster) spawnConfig(starter []string, cfg childConfig) *child {
	c.t.Helper()
	o := cfg.Options
	cfg.Ledger = c.ledger.path
	config, err := json.Marshal(cfg)
	c.must(err)
	program, err := os.Executable()
	c.must(err)
	return c.spawnProgram(o.ID, childEnv+"="+string(config), append(slices.Clone(starter), program)...)
}

// spawnProgram starts a program with one more variable in its environment. Its output is in its
// log.
func (c *cluster) spawnProgram(id, env string, command ...string) *child {
	c.t.Helper()
	ch := &child{id: id, log: filepath.Join(c.dir, id+".log"), ledger: c.ledger, ended: make(chan struct{})}
	log, err := os.OpenFile(ch.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	c.must(err)
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // it lives until kill, which the test's end calls
	cmd.Env = append(os.Environ(), env)
	cmd.Stdout, cmd.Stderr = log, log
	// A test process that dies runs no cleanups.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	started := make(chan error)
	go func() {
		defer close(ch.ended)
		defer log.Close()
		// Pdeathsig is sent when the starting thread ends: keep it alive.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ch.err = cmd.Wait()
		}
	}()
	c.must(<-started)
	ch.pid = cmd.Process.Pid
	c.children = append(c.children, ch)
	c.t.Cleanup(c.stopAll)
	return ch
}

// kill sends SIGKILL to the process.
func (ch *child) kill() (at time.Time) {
	at = time.Now()
	ch.killing.Do(func() {
		ch.signal(syscall.SIGKILL)
		<-ch.ended
		// Recorded when it has certainly ended, so that a run that the process began
		// while it was killed does not count.
		ch.ledger.add(entry{Event: killed, SID: ch.id})
	})
	return at
}

// awaitDeath waits for the process to exit.
func (ch *child) awaitDeath(t *testing.T) {
	t.Helper()
	select {
	case <-ch.ended:
		ch.kill()
	case <-time.After(patience):
		t.Fatalf("process %s has not ended after %v", ch.id, patience)
	}
}

// freeze suspends the process until thaw.
func (ch *child) freeze(t *testing.T) {
	t.Helper()
	ch.signal(syscall.SIGSTOP)
	if err := zkserver.AwaitStop(ch.pid); err != nil {
		t.Fatal(err)
	}
	// Recorded when it stands still, as with kill.
	ch.ledger.add(entry{Event: frozen, SID: ch.id})
}

func (ch *child) thaw() { ch.signal(syscall.SIGCONT) }

func (ch *child) signal(sig syscall.Signal) {
	select {
	case <-ch.ended: // its id may be another's by now
	default:
		_ = syscall.Kill(ch.pid, sig)
	}
}

// terminate stops the process cleanly with SIGTERM and returns how it ended.
func (ch *child) terminate() error {
	ch.signal(syscall.SIGTERM)
	select {
	case <-ch.ended:
		return ch.err
	case <-time.After(patience):
		return fmt.Errorf("process %d has not ended after %v", ch.pid, patience)
	}
}

// cpu returns the CPU time that the process has used, as counted by Linux.
func (ch *child) cpu(t *testing.T) (total time.Duration) {
	t.Helper()
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every platform that Go supports
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", ch.pid))
	if err != nil {
		t.Fatal(err)
	}
	// utime and stime are fields 14 and 15; the name, field 2, may have spaces.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		total += time.Duration(n) * tick
	}
	return total
}

func (ch *child) logTail() string {
	text, err := os.ReadFile(ch.log)
	if err != nil {
		return err.Error()
	}
	return tailOf(string(text))
}
