//go:build unix

package commands

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// takenOverWithin is how long it may take from a death to the first run elsewhere
// on a busy machine. It takes milliseconds; without guard, guardedSession.
const takenOverWithin = guardedSession / 2

// However the process dies, its job runs elsewhere at once.
func TestGuardDeaths(t *testing.T) {
	t.Parallel()
	kill := func(t *testing.T, _ *guarded, pid int) {
		t.Helper()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	tell := func(t *testing.T, g *guarded, _ int) { t.Helper(); g.tell() }
	killLauncher := func(t *testing.T, _ *guarded, pid int) {
		t.Helper()
		kill(t, nil, parentOf(t, pid))
	}
	for name, c := range map[string]struct {
		does, how string
		die       func(t *testing.T, g *guarded, pid int)
		code      int
		says      string
	}{
		"kill -9":   {"instance", "", kill, 137, "was killed by signal 9 (killed); removed the registration of child ("},
		"panic":     {"instance", "panic", tell, 2, "exited with 2; removed the registration of child ("},
		"os.Exit":   {"instance", "exit", tell, 0, "exited with 0; removed the registration of child ("},
		"of parent": {"launch", "", killLauncher, 137, "was killed by signal 9 (killed); removed the registration of child ("},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.does == "launch" && runtime.GOOS != "linux" {
				t.Skip("only Linux tells that no descendant is left")
			}
			server := zkdev.Start(t, zkdev.Config{})
			g, h, pid := running(t, server, nil, c.does, server.Addr(), c.how)
			died := time.Now()
			c.die(t, g, pid)
			run := h.firstRun()
			took := time.Since(died)
			t.Logf("%s: first run elsewhere after %v", name, took)
			if run.Attempt != 2 || took > takenOverWithin {
				t.Errorf("attempt %d after %v, want the second within %v", run.Attempt, took, takenOverWithin)
			}
			g.wantEnd(c.code, c.says, "(pid "+strconv.Itoa(pid)+")")
			if alive(pid) {
				t.Errorf("process %d still exists", pid)
			}
		})
	}
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-o", "ppid=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		t.Fatal(err)
	}
	parent, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

// SIGTERM reaches the program, which hands over; guard has nothing to say.
func TestGuardCleanStop(t *testing.T) {
	t.Parallel()
	server := zkdev.Start(t, zkdev.Config{})
	g, h, _ := running(t, server, nil, "instance", server.Addr(), "")
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	g.wantEnd(0)
	h.firstRun()
}

// An instance that has left the process group outlives the one that was waited
// for: its registration stays.
func TestGuardKeepsTheLiving(t *testing.T) {
	t.Parallel()
	server := zkdev.Start(t, zkdev.Config{})
	g, _, pid := running(t, server, nil, "launch-apart", server.Addr(), "")
	if err := syscall.Kill(parentOf(t, pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	g.wantEnd(137, "NOT REMOVED: the registration of child: it runs in process "+strconv.Itoa(pid)+", which guard did not start")
	client, err := admin.Dial(t.Context(), admin.Config{Servers: server.Addr(), ServerType: guardedGroup})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	instances, err := client.Instances(t.Context())
	if err != nil || len(instances) != 2 || instances[0].PID != pid || !alive(pid) {
		t.Errorf("instances %+v, %v", instances, err)
	}
}

// The program starts and lives whatever becomes of ZooKeeper.
func TestGuardZooKeeperAway(t *testing.T) {
	t.Parallel()
	t.Run("at the start", func(t *testing.T) {
		t.Parallel()
		server := zkdev.Start(t, zkdev.Config{})
		addr := server.Addr()
		server.Stop()
		g := startWith(t, addr, nil, "signals")
		if line := g.next(); line != "ready" {
			t.Errorf("got %q", line)
		}
		if err := server.Restart(zkdev.KeepSessions); err != nil {
			t.Fatal(err)
		}
		if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		g.wantEnd(7, "exited with 7; it had no registration under server type guarded at "+addr)
	})
	t.Run("at the death", func(t *testing.T) {
		t.Parallel()
		server := zkdev.Start(t, zkdev.Config{})
		g, pid := runningAlone(t, server, []string{"--timeout", "500ms"}, "instance", server.Addr(), "")
		server.Stop()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		g.wantEnd(137, "NOT REMOVED: remove the registration: ZooKeeper did not answer in time", "; its jobs move when its session ends\n",
			server.Addr()+" (--zk or SWCTL_ZK)") // whether an attempt to connect was made within 500 ms, or none
	})
	t.Run("at the death, for a while", func(t *testing.T) {
		t.Parallel()
		server := zkdev.Start(t, zkdev.Config{})
		g, pid := runningAlone(t, server, []string{"--timeout", "0"}, "instance", server.Addr(), "")
		server.Stop()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(zkdev.KeepSessions); err != nil {
			t.Fatal(err)
		}
		g.wantEnd(137, "removed the registration of child")
		startHeir(t, server.Addr(), 0).firstRun()
	})
	t.Run("at the death, until a signal", func(t *testing.T) {
		t.Parallel()
		g := startWith(t, "127.0.0.1:1", []string{"--timeout", "0"}, "args")
		g.next()
		for ended := false; !ended; {
			_ = g.cmd.Process.Signal(syscall.SIGTERM) // the first ones may come too early
			select {
			case <-g.ended:
				ended = true
			case <-time.After(50 * time.Millisecond):
			}
		}
		// The last signal may find it on its way out, when nobody catches it any more.
		status, _ := g.cmd.ProcessState.Sys().(syscall.WaitStatus)
		late := status.Signaled() && status.Signal() == syscall.SIGTERM
		if code := g.cmd.ProcessState.ExitCode(); !late && code != 0 && code != int(cmdline.ExitTerminated) {
			t.Errorf("exit code %d, stderr %s", code, g.stderr.String())
		}
	})
}

func TestGuardSignals(t *testing.T) {
	t.Parallel()
	server := zkdev.Start(t, zkdev.Config{})
	g := startWith(t, server.Addr(), nil, "signals")
	g.next()
	for _, s := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTERM,
	} {
		if err := g.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if got := g.next(); got != s.String() {
			t.Errorf("signal %q arrives as %q", s, got)
		}
	}
	g.wantEnd(7, "exited with 7; it had no registration")
}

// nohup has a program ignore SIGHUP: so does guard, also when the program has ended.
func TestGuardIgnoresWhatNohupDoes(t *testing.T) {
	t.Parallel()
	g := startCommand(t, []string{
		"sh", "-c", `trap "" HUP; exec "$@"`, "sh", os.Args[0], "guard", "--zk", "127.0.0.1:1", "--server-type", guardedGroup,
		"--timeout", "0", "--", os.Args[0], childArgument, "signals",
	})
	g.next()
	tell := func(signals ...syscall.Signal) {
		for _, s := range signals {
			_ = g.cmd.Process.Signal(s) // it may have ended
		}
	}
	tell(syscall.SIGHUP, syscall.SIGUSR1)
	if got := g.next(); got != syscall.SIGUSR1.String() {
		t.Errorf("the program gets %q, want the second signal", got)
	}
	tell(syscall.SIGTERM)
	for ended := false; !ended; {
		tell(syscall.SIGHUP, syscall.SIGTERM)
		select {
		case <-g.ended:
			ended = true
		case <-time.After(50 * time.Millisecond):
		}
	}
	if text := g.stderr.String(); strings.Contains(text, "interrupted") {
		t.Errorf("SIGHUP has ended it: %s", text)
	}
}

func TestGuardExitCodes(t *testing.T) {
	t.Parallel()
	server := zkdev.Start(t, zkdev.Config{})
	dir := t.TempDir()
	text, script := filepath.Join(dir, "text"), filepath.Join(dir, "script")
	for path, mode := range map[string]os.FileMode{text: 0o600, script: 0o700} {
		if err := os.WriteFile(path, []byte("exit 3\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		command []string
		code    int
		says    []string
	}{
		{[]string{"true"}, 0, nil},
		{[]string{"sh", "-c", "exit 3"}, 3, []string{"exited with 3; it had no registration under server type guarded"}},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143, []string{"was killed by signal 15 (terminated); it had no registration"}},
		{[]string{"no-such-command"}, 127, []string{`swctl: guard: start the command: exec: "no-such-command": executable file not found in $PATH`}},
		{[]string{filepath.Join(dir, "nothing")}, 127, []string{"no such file or directory"}},
		{[]string{text}, 126, []string{"permission denied"}},
		{[]string{dir}, 126, []string{"start the command: "}},
		{[]string{script}, 126, []string{"exec format error\ntry: a script needs a first line such as #!/bin/sh"}},
		{nil, 2, []string{"swctl: guard: no command given\ntry: swctl guard -- COMMAND"}},
	} {
		t.Run(strings.Join(c.command, " "), func(t *testing.T) {
			t.Parallel()
			g := startGuard(t, append([]string{"guard", "--zk", server.Addr(), "--server-type", guardedGroup, "--"}, c.command...))
			g.wantEnd(c.code, c.says...)
		})
	}
}

// What guard cannot use is refused before anything is started.
func TestGuardRefuses(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"guard -- app":                             "swctl: no server type given",
		"guard --server-type a/b -- app":           `swctl: --server-type "a/b": contains '/'`,
		"guard --server-type a --zk , -- app":      `--zk ","`,
		"guard --server-type a --timeout x -- app": `swctl: --timeout "x": want a duration`,
		"guard --server-type a app --port 80":      "swctl: guard has no flag --port",
	} {
		h := newHarness(t)
		h.vars = map[string]string{}
		if code := h.exec(strings.Fields(line)...); code != cmdline.ExitUsage || !strings.Contains(h.errs.String(), says) {
			t.Errorf("%s: exit %d, %s", line, code, h.errs.String())
		}
	}
}

// The program gets its arguments as they were typed.
func TestGuardArguments(t *testing.T) {
	t.Parallel()
	server := zkdev.Start(t, zkdev.Config{})
	g := startWith(t, server.Addr(), nil, "args", "--zk", "-h", "", "--", "a=b", "guard", " x ", "--help")
	if got, want := g.next(), `["--zk" "-h" "" "--" "a=b" "guard" " x " "--help"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	g.wantEnd(0)
}

// As process 1 does, guard reaps orphans.
func TestGuardReaps(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere process 1 gets the orphans")
	}
	server := zkdev.Start(t, zkdev.Config{})
	g := startWith(t, server.Addr(), nil, "orphan")
	pid, err := strconv.Atoi(g.next())
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); alive(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
	}
}
