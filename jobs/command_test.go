//go:build unix

package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/jobs"
	"github.com/swjobs/singleworker/singleworker"
)

// This variable tells the test binary to act as the program that the tests run.
const asProgram = "JOBS_TEST_PROGRAM"

// Programs built with the race detector sleep for a second before they exit, for the sake of
// running threads; this one has none.
const swiftExit = "GORACE=atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(program(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// program runs the command named by its first argument.
func program(args []string) int {
	switch args[0] {
	case "environment":
		fmt.Println(strings.Join(os.Environ(), "\n"))
		dir, err := os.Getwd()
		fmt.Println("dir", dir, err)
	case "arguments":
		fmt.Fprintf(os.Stderr, "%q", args[1:])
	case "fail":
		fmt.Println(args[1])
		return 3
	case "family": // FILE exit|wait: a child in the same group, which holds the output open
		child := exec.Command(os.Args[0], "wait", args[1]) //nolint:noctx,gosec // it outlives its parent and is this program
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			fmt.Println(err)
			return 1
		}
		if args[len(args)-1] == "wait" {
			return program([]string{"wait", args[1] + ".parent"})
		}
	case "wait": // writes its process id, so that a test can await its end
		pid := strconv.Itoa(os.Getpid())
		if err := os.WriteFile(args[1], []byte(pid+"\n"), 0o600); err != nil {
			return 1
		}
		time.Sleep(time.Minute)
	}
	return 0
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// command returns a handler that may run the test binary.
func command(t *testing.T, cfg jobs.CommandConfig) singleworker.Handler {
	t.Helper()
	cfg.Allow = append(cfg.Allow, self(t))
	cfg.Env = append(cfg.Env, asProgram+"=1", swiftExit)
	handler, err := jobs.Command(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// runOf returns a run of the test binary with the given arguments.
func runOf(t *testing.T, args string) *singleworker.Run {
	t.Helper()
	return &singleworker.Run{
		ID: "run-1", Job: "mirror", Tick: time.UnixMilli(1_800_000_000_000), Attempt: 2, Token: 77,
		Shard: singleworker.Shard{Index: 2, Total: 3, Parameter: "Bei\x00jing"},
		Args:  map[string]string{"program": self(t), "args": args},
	}
}

func TestCommandEnvironment(t *testing.T) {
	t.Setenv("APPLICATION_SECRET", "hush")
	var out bytes.Buffer
	handler := command(t, jobs.CommandConfig{Output: &out, Env: []string{"REGION=eu"}})
	if err := handler(t.Context(), runOf(t, `["environment"]`)); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"SINGLEWORKER_JOB=mirror",
		"SINGLEWORKER_RUN_ID=run-1",
		"SINGLEWORKER_TICK=2027-01-15T08:00:00Z",
		"SINGLEWORKER_ATTEMPT=2",
		"SINGLEWORKER_TOKEN=77",
		"SINGLEWORKER_SHARD=2",
		"SINGLEWORKER_SHARDS=3",
		"SINGLEWORKER_SHARD_PARAMETER=Beijing",
		"REGION=eu",
		asProgram + "=1",
		swiftExit,
		"dir / <nil>",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCommandUsesNoShell(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	handler := command(t, jobs.CommandConfig{Output: &out})
	if err := handler(t.Context(), runOf(t, `["arguments", "$HOME; ls *", "", "a b"]`)); err != nil {
		t.Fatal(err)
	}
	if want := `["$HOME; ls *" "" "a b"]`; out.String() != want {
		t.Errorf("got %s, want %s", &out, want)
	}
}

func TestCommandFailure(t *testing.T) {
	t.Parallel()
	handler := command(t, jobs.CommandConfig{})
	err := handler(t.Context(), runOf(t, `["fail", "no \"space\" left"]`))
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("%v, want exit status 3", err)
	}
	if want := self(t) + `: exit status 3: "no \"space\" left"`; err.Error() != want {
		t.Errorf("got  %v\nwant %v", err, want)
	}

	long := strings.Repeat("x", 10_000) + "the end"
	err = handler(t.Context(), runOf(t, fmt.Sprintf(`["fail", %q]`, long)))
	if text := err.Error(); len(text) > 2500 || !strings.HasSuffix(text, `the end"`) || !strings.Contains(text, "(7960 bytes and) ") {
		t.Errorf("the output is not cut: %d bytes: %s", len(text), text)
	}
}

func TestCommandInvalidArguments(t *testing.T) {
	t.Parallel()
	handler := command(t, jobs.CommandConfig{Allow: []string{"/no/such/program"}})
	for _, test := range []struct {
		args map[string]string
		want string
		is   error
	}{
		{nil, `argument "program" is missing`, nil},
		{map[string]string{"program": "/bin/sh"}, `program "/bin/sh": not allowed`, jobs.ErrNotAllowed},
		{map[string]string{"program": self(t) + "/"}, `not allowed`, jobs.ErrNotAllowed},
		{map[string]string{"program": filepath.Base(self(t))}, `not allowed`, jobs.ErrNotAllowed},
		{map[string]string{"program": self(t), "arg": "x"}, `unknown argument "arg": want program, args`, nil},
		{map[string]string{"program": self(t), "args": "-v"}, `argument "args": want a JSON array`, nil},
		{map[string]string{"program": "/no/such/program"}, `no such file`, os.ErrNotExist},
	} {
		err := handler(t.Context(), &singleworker.Run{Args: test.args})
		if err == nil || !strings.Contains(err.Error(), test.want) || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%v: %v, want %s", test.args, err, test.want)
		}
	}
}

func TestCommandConfig(t *testing.T) {
	t.Parallel()
	for _, allow := range [][]string{nil, {"rsync"}, {"./rsync"}, {"/usr/bin/../bin/rsync"}, {"/usr/bin/"}, {""}} {
		if _, err := jobs.Command(jobs.CommandConfig{Allow: allow}); err == nil {
			t.Errorf("allowed: %q", allow)
		}
	}
}

// When the context of a run ends, the program and its children are killed, and have ended when the
// handler returns.
func TestCommandIsKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	pidFile := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- command(t, jobs.CommandConfig{})(ctx, runOf(t, fmt.Sprintf(`["family", %q, "wait"]`, pidFile)))
	}()
	parent, child := awaitPid(t, pidFile+".parent"), awaitPid(t, pidFile)
	cancel(errLeaseLost)
	if err := <-done; !errors.Is(err, errLeaseLost) || !strings.Contains(err.Error(), "killed: the lease is lost") {
		t.Errorf("%v, want the cause", err)
	}
	if err := syscall.Kill(parent, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the program is still there, perhaps as a zombie: %v", err)
	}
	awaitEnd(t, child)
}

// A process that a program leaves behind could otherwise overlap with the job's next run.
func TestCommandKillsProcessesLeftBehind(t *testing.T) {
	t.Parallel()
	pidFile := filepath.Join(t.TempDir(), "pid")
	handler := command(t, jobs.CommandConfig{})
	err := handler(t.Context(), runOf(t, fmt.Sprintf(`["family", %q, "exit"]`, pidFile)))
	if err == nil || !strings.Contains(err.Error(), "left a child process behind that holds its output open") {
		t.Errorf("%v", err)
	}
	awaitEnd(t, awaitPid(t, pidFile))
}

func awaitPid(t *testing.T, file string) int {
	t.Helper()
	var pid int
	await(t, "a process id in "+file, func() bool {
		text, err := os.ReadFile(file)
		line, whole := strings.CutSuffix(string(text), "\n")
		pid, _ = strconv.Atoi(line)
		return err == nil && whole
	})
	return pid
}

// awaitEnd waits until a process has ended. It may be a zombie that the machine's init process has
// not reaped yet.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	await(t, fmt.Sprintf("the end of process %d", pid), func() bool {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return true
		}
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, state, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(state, "Z")
	})
}

// await polls until a condition on other processes holds: virtual time does not apply to them.
func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("waited 20 s for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func ExampleCommand() {
	echo, err := jobs.Command(jobs.CommandConfig{
		Allow:  []string{"/bin/echo"}, // required: Command returns an error without it
		Output: os.Stdout,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	job := &singleworker.Run{Job: "greeting", Args: map[string]string{"program": "/bin/echo", "args": `["hello", "world"]`}}
	fmt.Println(echo(context.Background(), job))

	job.Args["program"] = "/bin/sh"
	fmt.Println(echo(context.Background(), job))
	// Output:
	// hello world
	// <nil>
	// program "/bin/sh": not allowed by the application
}
