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
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/sample/record"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// With one of these arguments, the test binary acts as an instance of the demo.
const (
	demoArgument    = "demo"
	corruptArgument = "corrupt-instance" // records one run twice
	brokenArgument  = "broken-instance"  // cannot start
)

func TestMain(m *testing.M) {
	if len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-") {
		if signal.Ignored(syscall.SIGHUP) { // under nohup, as many test runners are; a caught signal is not ignored in children
			signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
		}
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case demoArgument:
		os.Args = slices.Delete(os.Args, 1, 2)
	case corruptArgument:
		os.Args[1] = instanceArgument
		go corrupt(os.Args[slices.Index(os.Args, "--ledger")+1])
	case brokenArgument:
		fmt.Fprintln(os.Stderr, "cannot start")
		os.Exit(exitError)
	}
	main()
}

// corrupt repeats the first line of a ledger.
func corrupt(ledger string) {
	for ; ; time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(ledger)
		line, _, found := bytes.Cut(text, []byte("\n"))
		if err != nil || !found {
			continue
		}
		file, err := os.OpenFile(ledger, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = file.Write(append(line, '\n'))
		}
		if err != nil {
			panic(err)
		}
		return
	}
}

// perform runs a demo with short times.
func perform(t *testing.T, cfg config, instance string) (code int, out, errs string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	cfg.Out, cfg.Runs, cfg.Instance = &stdout, 3, []string{program, instance}
	code = exitCodeOf(play(t.Context(), cfg), &stderr)
	return code, stdout.String(), stderr.String()
}

func TestDemoPasses(t *testing.T) {
	t.Parallel()
	code, out, errs := perform(t, config{Session: 2 * time.Second}, instanceArgument)
	want := regexp.MustCompile(`\nPASS  3 instances, 9 jobs, \d+ runs: 0 double, 0 overlapping, 0 missing .*` +
		`takeover max \d+ ms for jobs every 1 s \(bound 2000\); hand-over max \d+ ms; shares 3-3-3, .*\n$`)
	if code != 0 || errs != "" || !want.MatchString(out) {
		t.Errorf("exit %d, stderr %q, stdout\n%s", code, errs, out)
	}
	for _, step := range []string{
		"$ export SWCTL_ZK=127.0.0.1:", "$ swctl submit counter '@every 1s' --tz UTC --handler print-number\n",
		"kill -9 ", "kill -TERM ", "$ swctl cancel --yes metrics\n",
	} {
		if !strings.Contains(out, step) {
			t.Errorf("does not show %q:\n%s", step, out)
		}
	}
	for _, row := range []string{`(?m)^ +INSTANCE +STATE +HOST +PID$`, `(?m)^ +app-2 +active +\S+ +\d+$`,
		`(?m)^ +NAME +SCHEDULE +ZONE +STATE +OWNER$`, `(?m)^ +counter +@every 1s +UTC +owned +app-\d$`} {
		if !regexp.MustCompile(row).MatchString(out) {
			t.Errorf("no row like %s:\n%s", row, out)
		}
	}
}

func TestDemoFails(t *testing.T) {
	t.Parallel()
	code, out, errs := perform(t, config{Session: 2 * time.Second, Keep: true}, corruptArgument)
	_, rest, _ := strings.Cut(out, "kept ")
	dir, last, _ := strings.Cut(rest, "\n")
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if code != exitFail || errs != "" || !strings.HasPrefix(last, "FAIL  ") || !strings.Contains(last, "ran twice") {
		t.Errorf("exit %d, stderr %q, stdout\n%s", code, errs, out)
	}
	verdict, err := record.Dir(dir).Judge()
	if err != nil || verdict.String()+"\n" != last {
		t.Errorf("the record that is kept says %v, %v, want %s", verdict, err, last)
	}
}

// If an instance cannot start, the demo fails at once with a reason.
func TestDemoWithoutInstances(t *testing.T) {
	t.Parallel()
	code, out, _ := perform(t, config{Session: time.Second}, brokenArgument)
	if code != exitFail || !strings.Contains(out, "cannot start") ||
		!strings.Contains(out, "\nFAIL  app-") || !strings.HasSuffix(out, "exited unexpectedly: its log is above\n") {
		t.Errorf("exit %d, stdout\n%s", code, out)
	}
}

// The demo refuses a group that has jobs or instances, and accepts an empty one.
func TestDemoRefusesGroupInUse(t *testing.T) {
	t.Parallel()
	server := zkdev.Start(t, zkdev.Config{})
	client, err := admin.Dial(t.Context(), admin.Config{Servers: server.Addr(), ServerType: "billing"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Submit(t.Context(), job.Job{Name: "nightly", Schedule: "@daily"}, admin.SubmitOptions{}); err != nil {
		t.Fatal(err)
	}
	code, out, _ := perform(t, config{Servers: server.Addr(), ServerType: "billing"}, "never-started")
	if code != exitFail || !strings.Contains(out, "FAIL  server type billing at "+server.Addr()+" is in use, with 1 jobs and 0 instances") {
		t.Errorf("exit %d, stdout\n%s", code, out)
	}
	if jobs, err := client.List(t.Context()); err != nil || len(jobs) != 1 {
		t.Errorf("jobs %v, %v, want the one that was there", jobs, err)
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for line, code := range map[string]int{"now": exitUsage, "--bogus": exitUsage, "--zk": exitUsage, "--help": 0} {
		var stdout, stderr strings.Builder
		if got := run(t.Context(), strings.Fields(line), &stdout, &stderr); got != code || stdout.Len() > 0 || stderr.Len() == 0 {
			t.Errorf("%s: exit %d, want %d; stdout %q, stderr %q", line, got, code, stdout.String(), stderr.String())
		}
	}
}

// However and whenever the demo ends, it leaves no process behind, and no file unless it is killed.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		signal syscall.Signal
		at     string // what has been printed by then
		code   int
	}{
		{syscall.SIGINT, "three instances are running", 130},
		{syscall.SIGTERM, "$ swctl submit mails", 143},
		{syscall.SIGHUP, "$ swctl submit thumbs", 129},
		{syscall.SIGPIPE, "$ swctl submit counter", 141},
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
			cmd := exec.CommandContext(t.Context(), program, demoArgument)
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
			if code := cmd.ProcessState.ExitCode(); code != test.code {
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

// readUntil reads up to a line that contains a text, and the table of instances that may follow. It
// returns the ids of their processes.
func readUntil(t *testing.T, out io.Reader, text string) (pids []int) {
	t.Helper()
	instance := regexp.MustCompile(`^ +app-\d +active +\S+ +(\d+)$`)
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

// awaitEnd waits until a process has ended. It may remain as a zombie if nothing on this machine
// reaps it.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
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
