package integration

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// shells are how each shell starts without anybody's configuration, and how it gets the script.
var shells = map[string][2]string{
	"bash": {"bash --norc --noprofile -i", "source <(swctl completion bash)"},
	"zsh":  {"zsh -f -i", "autoload -Uz compinit; compinit -D; source <(swctl completion zsh)"},
	"fish": {"fish --no-config -i", "swctl completion fish | source"},
}

// TestCompletion types lines on a terminal, with the Tab key, and checks the command that the shell
// starts then.
func TestCompletion(t *testing.T) {
	t.Parallel()
	number := strings.TrimPrefix(groupOf(t), t.Name()+"-") // with a dot behind it no other group begins like that
	c := newClusterOf(t, sharedServer.get(t), "", "", number+".shells")
	for _, name := range []string{"nightly", "a b [c] & 'd'", "レポート"} {
		c.submitJob(job.Job{Name: name, Schedule: "@yearly", Handler: work}, admin.SubmitOptions{})
	}
	c.start(options{ID: "inst-1"})
	c.eventually("the instance to publish its handlers", func() error {
		if handlers, err := c.admin.Handlers(t.Context()); err != nil || len(handlers) == 0 {
			return fmt.Errorf("%q, %w", handlers, err)
		}
		return nil
	})
	// It has only swctl's completion, and says how it was called.
	standIn := fmt.Sprintf("#!/bin/sh\ncase $1 in __complete | completion) exec '%s' \"$@\" ;; esac\nprintf 'GOT '; printf '<%%s>' \"$@\"; echo\n", buildSwctl(t))
	bin := t.TempDir()
	c.must(os.WriteFile(filepath.Join(bin, "swctl"), []byte(standIn), 0o700))
	for name, start := range shells {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startShell(t, name, start[0], bin, "SWCTL_ZK="+c.servers, "SWCTL_SERVER_TYPE="+c.group)
			s.enter(start[1])
			for _, line := range []struct{ typed, want string }{
				{"sho\t nigh\t", "<show><nightly>"},
				{"show a\t", "<show><a b [c] & 'd'>"},
				{"show レ\t", "<show><レポート>"},
				{"pause nightly レ\t --missed al\t", "<pause><nightly><レポート><--missed><all>"},
				{"instances dr\t in\t", "<instances><drain><inst-1>"},
				{"set nightly --handler " + work[:2] + "\t", "<set><nightly><--handler><" + work + ">"},
				{"set nightly --handler=" + work[:2] + "\t", "<set><nightly><--handler=" + work + ">"},
				{"list --outp\t jsonl", "<list><--output><jsonl>"},
				{"list --output=wi\t", "<list><--output=wide>"},
				{"--server-type " + number + ".\t list", "<--server-type><" + c.group + "><list>"},
				{"list --auth-file bill\t", "<list><--auth-file><billing.auth>"},
				{"list --auth-file=bill\t", "<list><--auth-file=billing.auth>"},
				{"import quar\t bill\t", "<import><quartz><billing.auth>"},
				{"frobnicate nigh\t", "<frobnicate><nigh>"},
			} {
				s.await("swctl "+line.typed, "GOT "+line.want)
			}
		})
	}
}

// shell is a shell on a terminal.
type shell struct {
	t     *testing.T
	keys  io.Writer
	lines <-chan string // its output
	seen  strings.Builder
}

// startShell starts a shell in a directory with one file, billing.auth. Script makes the terminal.
func startShell(t *testing.T, name, command, bin string, env ...string) *shell {
	t.Helper()
	for _, program := range []string{name, "script"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v; run integration/packages.sh bash zsh fish", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience) // for all lines
	cmd := exec.CommandContext(ctx, "script", "-qec", command, "/dev/null")
	cmd.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(cmd.Dir, "billing.auth"), []byte("a:b"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(slices.Clip(env), "HOME="+cmd.Dir, "PATH="+bin+":"+os.Getenv("PATH"), "TERM=xterm", "LANG=C.UTF-8", "INPUTRC=/dev/null", "SHELL=/bin/sh")
	keys, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for written := bufio.NewScanner(output); written.Scan(); {
			lines <- written.Text()
		}
	}()
	s := &shell{t: t, keys: keys, lines: lines}
	t.Cleanup(func() {
		s.enter("exit")
		for range lines { // until it has ended
		}
		cancel()
		_ = cmd.Wait() // an interactive shell ends with the code of its last command
	})
	s.enter("stty cols 200 rows 50")
	return s
}

// enter types a line.
func (s *shell) enter(line string) {
	if _, err := io.WriteString(s.keys, line+"\r"); err != nil {
		s.t.Errorf("type %q: %v", line, err)
	}
}

// await types a line, again as long as the shell starts something else than wanted: on a machine
// that is too busy, a completion comes too late to be of use.
func (s *shell) await(line, want string) {
	s.t.Helper()
	s.enter(line)
	for written := range s.lines {
		s.seen.WriteString(written + "\n")
		_, got, started := strings.Cut(written, "GOT ")
		switch got = "GOT " + strings.TrimRight(got, "\r"); {
		case !started:
		case got == want:
			return
		default:
			s.t.Logf("%q became %q, want %q", line, got, want)
			s.enter(line)
		}
	}
	s.t.Fatalf("%q did not become %q:\n%q", line, want, s.seen.String())
}
