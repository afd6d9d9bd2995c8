//go:build unix

package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/supervise"
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// childArgument makes the test binary a program to be guarded; see runChild.
const childArgument = "guarded-program"

// The test binary is also swctl, which guards, and the program that is guarded: a test's
// arguments are flags, swctl's begin with a command.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-"):
		if signal.Ignored(syscall.SIGHUP) { // under nohup, as many test runners are; a caught signal is not ignored in children
			signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
		}
		os.Exit(m.Run())
	case os.Args[1] == childArgument:
		os.Exit(runChild(os.Args[2:]))
	}
	Main("swctl", nil, nil)
}

// runChild is the main function of a guarded program. Its first argument is its task, and it
// reports by lines on stdout.
func runChild(args []string) int {
	told := make(chan struct{})
	go func() {
		if _, err := os.Stdin.Read(make([]byte, 1)); err == nil {
			close(told)
			_, _ = io.Copy(io.Discard, os.Stdin)
		}
		os.Exit(1) // the process that started this is gone
	}()
	switch args[0] {
	case "args":
		fmt.Printf("%q\n", args[1:])
	case "signals":
		return printSignals()
	case "instance":
		return instanceToDie(args[1], args[2], told)
	case "orphan": // of a shell that has ended; so it is guard's
		pid, err := exec.Command("sh", "-c", "exit 0 & echo $!").Output() //nolint:noctx // it ends at once
		fmt.Printf("%s%v\n", pid, err)
		select {}
	case "launch", "launch-apart": // an instance, in a separate child process
		child := exec.Command(os.Args[0], append([]string{childArgument, "instance"}, args[1:]...)...) //nolint:noctx,gosec // it ends with stdin, and is this test
		child.Stdin, child.Stdout = os.Stdin, os.Stdout
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: args[0] == "launch-apart"}
		fmt.Println(child.Start())
		select {}
	}
	return 0
}

func printSignals() int {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, supervise.PassedOn()...)
	fmt.Println("ready")
	for s := range caught {
		fmt.Println(s)
		if s == syscall.SIGTERM {
			break
		}
	}
	return 7
}

// instanceToDie is an instance whose handler does not return before its context
// ends; it says who runs, and may end the process at once.
func instanceToDie(servers, how string, told <-chan struct{}) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	m, err := singleworker.New(singleworker.Config{
		Servers: servers, ServerType: guardedGroup, InstanceID: "child", StopGrace: time.Millisecond, SessionTimeout: guardedSession,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	err = m.Handle("job", func(ctx context.Context, _ *singleworker.Run) error {
		fmt.Printf("runs in %d\n", os.Getpid())
		select {
		case <-told: // the heir is there
		case <-ctx.Done():
		}
		switch how {
		case "panic":
			go panic("as told")
		case "exit":
			os.Exit(0)
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if err == nil {
		err = m.Run(ctx)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

const (
	guardedGroup   = "guarded"
	guardedSession = 10 * time.Second // far longer than what is measured
	patience       = 30 * time.Second // with what must happen
)

// guarded is swctl guard in a separate process, with a guarded program.
type guarded struct {
	*testing.T

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string // of the program's stdout
	stderr strings.Builder
	ended  chan struct{}
}

// startWith runs swctl guard on this test binary; it and all that it starts end
// with the test.
func startWith(t *testing.T, servers string, flags []string, program ...string) *guarded {
	t.Helper()
	args := append([]string{"guard", "--zk", servers, "--server-type", guardedGroup}, flags...)
	return startGuard(t, append(append(args, "--", os.Args[0], childArgument), program...))
}

func startGuard(t *testing.T, args []string) *guarded {
	t.Helper()
	return startCommand(t, append([]string{os.Args[0]}, args...))
}

func startCommand(t *testing.T, args []string) *guarded {
	t.Helper()
	g := &guarded{T: t, cmd: exec.Command(args[0], args[1:]...), lines: make(chan string, 100), ended: make(chan struct{})} //nolint:noctx,gosec // see Cleanup; this test
	var err error
	if g.stdin, err = g.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, w, err := os.Pipe() // not cmd's: the guarded program may keep it after guard
	if err != nil {
		t.Fatal(err)
	}
	g.cmd.Stdout, g.cmd.Stderr = w, &g.stderr
	g.cmd.WaitDelay = patience
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	t.Cleanup(func() {
		_ = g.stdin.Close()
		_ = g.cmd.Process.Kill()
		<-g.ended
		_ = stdout.Close()
		if t.Failed() {
			t.Logf("guard: %v, stderr %s", g.cmd.ProcessState, g.stderr.String())
		}
	})
	go func() {
		defer close(g.lines)
		for in := bufio.NewScanner(stdout); in.Scan(); {
			g.lines <- in.Text()
		}
	}()
	go func() {
		defer close(g.ended)
		_ = g.cmd.Wait()
	}()
	return g
}

// next waits for the program's next line, which may come before or after guard's end.
func (g *guarded) next() string {
	g.Helper()
	select {
	case line, open := <-g.lines:
		if !open {
			g.Fatal("the guarded program has ended")
		}
		return line
	case <-time.After(patience):
		g.Fatal("the guarded program says nothing")
	}
	return ""
}

// wantEnd waits for guard's end, and checks exit code and stderr.
func (g *guarded) wantEnd(code int, says ...string) {
	g.Helper()
	select {
	case <-g.ended:
	case <-time.After(patience):
		g.Fatal("guard does not end")
	}
	text := g.stderr.String()
	if got := g.cmd.ProcessState.ExitCode(); got != code {
		g.Errorf("exit code %d, want %d; stderr %s", got, code, text)
	}
	if len(says) == 0 && text != "" {
		g.Errorf("stderr %q, want nothing", text)
	}
	for _, part := range says {
		if !strings.Contains(text, part) {
			g.Errorf("stderr %q does not say %q", text, part)
		}
	}
}

// tell has the running handler do a task.
func (g *guarded) tell() {
	g.Helper()
	if _, err := g.stdin.Write([]byte{'\n'}); err != nil {
		g.Fatal(err)
	}
}

// heir is an instance in this process, which takes over.
type heir struct {
	*testing.T

	runs  chan *singleworker.Run
	ended chan error
	stop  context.CancelFunc
}

// startHeir returns when the instance is part of the group, beside a number of others.
func startHeir(t *testing.T, servers string, others int) *heir {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	h := &heir{T: t, runs: make(chan *singleworker.Run, 100), ended: make(chan error, 1), stop: stop}
	m, err := singleworker.New(singleworker.Config{
		Servers: servers, ServerType: guardedGroup, InstanceID: "heir", SessionTimeout: guardedSession, StopGrace: time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	err = errors.Join(err, m.Handle("job", func(_ context.Context, run *singleworker.Run) error { h.runs <- run; return nil }))
	if err != nil {
		t.Fatal(err)
	}
	go func() { h.ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-h.ended; err != nil {
			t.Errorf("heir: %v", err)
		}
	})
	client := operator(t, servers)
	defer client.Close()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		instances, err := client.Instances(t.Context())
		if err == nil && len(instances) == 1+others {
			return h
		}
		if time.Now().After(deadline) {
			t.Fatalf("the heir does not join: %v, %v", instances, err)
		}
	}
}

func operator(t *testing.T, servers string) *admin.Client {
	t.Helper()
	client, err := admin.Dial(t.Context(), admin.Config{Servers: servers, ServerType: guardedGroup})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// firstRun waits for the heir's first run of the job.
func (h *heir) firstRun() *singleworker.Run {
	h.Helper()
	select {
	case run := <-h.runs:
		return run
	case <-time.After(patience):
		h.Fatal("the heir does not run the job")
		return nil
	}
}

// running is a group whose job runs in the guarded program, with an heir.
func running(t *testing.T, server *zkdev.Server, flags []string, program ...string) (g *guarded, h *heir, pid int) {
	t.Helper()
	g, pid = runningAlone(t, server, flags, program...)
	return g, startHeir(t, server.Addr(), 1), pid
}

// runningAlone is a group whose job runs in the guarded program. The job is run manually, so that
// no test waits for a tick. Nothing in this process stays connected: a client whose server comes
// back has a race in go-zookeeper v1.0.4 (sendSetWatches, recvLoop).
func runningAlone(t *testing.T, server *zkdev.Server, flags []string, program ...string) (g *guarded, pid int) {
	t.Helper()
	g = startWith(t, server.Addr(), flags, program...)
	client := operator(t, server.Addr())
	defer client.Close()
	_, err := client.Submit(t.Context(), job.Job{Name: "job", Schedule: "@at 2099-01-01T00:00:00Z"}, admin.SubmitOptions{})
	if err == nil {
		_, err = client.Trigger(t.Context(), "job", admin.TriggerOptions{WaitForHandler: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	line := g.next()
	if line == "<nil>" { // of who launches the instance
		line = g.next()
	}
	if _, err := fmt.Sscanf(line, "runs in %d", &pid); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return g, pid
}

// alive reports whether there is a process with that ID.
func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
