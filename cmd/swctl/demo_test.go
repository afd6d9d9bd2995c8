//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/sample/demo"
	"github.com/swjobs/singleworker/sample/record"
)

// spoiledInstance is instanceCommand, but for one run that it writes down twice.
const spoiledInstance = "spoiled-instance"

// The test binary is also swctl, and so the instances of a demo: a test's arguments
// are flags, swctl's begin with a command.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-"):
		os.Exit(m.Run())
	case os.Args[1] == wardCommand:
		os.Exit(runWard(os.Args[2:]))
	case os.Args[1] == spoiledInstance:
		os.Args[1] = instanceCommand
		go spoil(os.Args[slices.Index(os.Args, "--ledger")+1])
	}
	main()
}

// spoil repeats the first line of a ledger.
func spoil(ledger string) {
	for ; ; time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(ledger) //nolint:gosec // the demo names it
		line, _, found := bytes.Cut(text, []byte("\n"))
		if err != nil || !found {
			continue
		}
		file, err := os.OpenFile(ledger, os.O_APPEND|os.O_WRONLY, 0) //nolint:gosec // the same
		if err == nil {
			_, err = file.Write(append(line, '\n'))
		}
		if err != nil {
			panic(err)
		}
		return
	}
}

// newDemoHarness has a demonstration that takes no longer than it must.
func newDemoHarness(t *testing.T, instance string, session time.Duration) *harness {
	t.Helper()
	h := newHarness(t)
	h.serve, h.dial, h.now = serveDev, dialAdmin, time.Now
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h.demo = demo.Config{Session: session, Runs: 3, Instance: []string{program, instance}}
	// These are of a production cluster, and nothing to the demo.
	h.vars = map[string]string{envZK: "127.0.0.1:1", envServerType: "billing"}
	return h
}

func TestDemoPasses(t *testing.T) {
	t.Parallel()
	h := newDemoHarness(t, instanceCommand, 2*time.Second)
	code := h.exec("dev", "--demo")
	out := h.out.String()
	want := regexp.MustCompile(`\nPASS  3 instances, 9 jobs, \d+ runs: 0 double, 0 overlapping, 0 missing .*` +
		`takeover max \d+ ms for jobs every 1 s \(bound 3500\); hand-over max \d+ ms; shares 3-3-3, .*\n$`)
	if code != exitOK || h.errs.Len() > 0 || !want.MatchString(out) {
		t.Errorf("exit %d, stderr %q, stdout\n%s", code, h.errs.String(), out)
	}
	for _, step := range []string{
		"$ export SWCTL_ZK=127.0.0.1:", "$ swctl submit counter '@every 1s' --tz UTC --handler print-number\n",
		"$ swctl list\n", "kill -9 ", "kill -TERM ", "$ swctl cancel --yes metrics\n         cancelled metrics (was v0, owner app-",
	} {
		if !strings.Contains(out, step) {
			t.Errorf("does not show %q:\n%s", step, out)
		}
	}
}

func TestDemoFails(t *testing.T) {
	t.Parallel()
	h := newDemoHarness(t, spoiledInstance, time.Second)
	code := h.exec("dev", "--demo", "--keep")
	out := h.out.String()
	_, rest, _ := strings.Cut(out, "kept ")
	dir, last, _ := strings.Cut(rest, "\n")
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if code != exitNo || h.errs.Len() > 0 || !strings.HasPrefix(last, "FAIL  ") || !strings.Contains(last, "ran twice") {
		t.Errorf("exit %d, stderr %q, stdout\n%s", code, h.errs.String(), out)
	}
	verdict, err := record.Dir(dir).Judge()
	if err != nil || verdict.String()+"\n" != last {
		t.Errorf("the record that is kept says %v, %v, want %s", verdict, err, last)
	}
}

// An instance that cannot start is a failure with a reason, and at once.
func TestDemoWithoutInstances(t *testing.T) {
	t.Parallel()
	h := newDemoHarness(t, "no-such-command", time.Second)
	code := h.exec("dev", "--demo")
	if out := h.out.String(); code != exitNo || !strings.Contains(out, `no command "no-such-command"`) ||
		!strings.Contains(out, "\nFAIL  app-") || !strings.HasSuffix(out, "has ended by itself: its log is above\n") {
		t.Errorf("exit %d, stdout\n%s", code, out)
	}
}

// However and whenever the demo is ended, it leaves no process and no file; only when it
// is killed it leaves the file.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		signal syscall.Signal
		at     string // what has been printed by then
		code   exitCode
	}{
		{syscall.SIGINT, "$ swctl instances", exitInterrupted},
		{syscall.SIGTERM, "$ swctl submit mails", exitTerminated},
		{syscall.SIGHUP, "$ swctl submit thumbs", exitInterrupted},
		{syscall.SIGPIPE, "$ swctl submit counter", exitInterrupted},
		{syscall.SIGKILL, "$ swctl submit backup", -1},
	} {
		t.Run(fmt.Sprintf("%v at %s", test.signal, test.at), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), program, "dev", "--demo")
			cmd.Env = append(os.Environ(), "TMPDIR="+dir)
			cmd.Stderr = &stderr
			stdout, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			pids := readUntil(t, stdout, test.at)
			if err := cmd.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			rest, _ := io.ReadAll(stdout)
			_ = cmd.Wait()
			if code := exitCode(cmd.ProcessState.ExitCode()); code != test.code {
				t.Errorf("exit %d, want %d; stderr %q, stdout\n%s", code, test.code, stderr.String(), rest)
			}
			for _, pid := range pids {
				awaitEnd(t, pid)
			}
			left, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(left) > 0 && test.signal != syscall.SIGKILL {
				t.Errorf("left %q, %v", left, err)
			}
		})
	}
}

// readUntil reads up to a line that has a text in it, and then what is there of a table of
// instances; it returns the ids of their processes.
func readUntil(t *testing.T, out io.Reader, text string) (pids []int) {
	t.Helper()
	instance := regexp.MustCompile(`^ +app-\d +active +\d+ +\d+ +\S+ +(\d+) `)
	var seen strings.Builder
	found := false
	for lines := bufio.NewScanner(out); len(pids) < 3 || !found; {
		if !lines.Scan() {
			t.Fatalf("ended before it printed %q: %v\n%s", text, lines.Err(), seen.String())
		}
		seen.WriteString(lines.Text() + "\n")
		found = found || strings.Contains(lines.Text(), text)
		if m := instance.FindStringSubmatch(lines.Text()); m != nil {
			pid, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// awaitEnd waits until a process is gone, or a zombie that whoever adopts orphans on
// this machine does not bury.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		stat, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if bytes.Contains(stat, []byte(") Z ")) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is left", pid)
		}
	}
}
