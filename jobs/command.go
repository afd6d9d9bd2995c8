package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker"
)

// CommandConfig says what [Command] may run. Allow must be set; the zero value
// of every other field means its default.
type CommandConfig struct {
	// Allow lists the programs that a job may name: absolute paths, compared
	// letter by letter. A job chooses the arguments freely, so a program that
	// runs others by its arguments (a shell, env, find -exec, rsync -e)
	// allows everything; allow a script of your own in its place.
	Allow []string
	// Env is the environment of the programs, as "NAME=value". It is added to
	// PATH=/usr/local/bin:/usr/bin:/bin and the SINGLEWORKER_ variables;
	// nothing is inherited from the application. Default: nothing.
	Env []string
	// Dir is where programs start. Default: "/".
	Dir string
	// Output gets what programs write to their standard output and error, as
	// it comes and in one stream for all. Default: it is discarded, but for
	// the end of it in the error of a run that failed.
	Output io.Writer
}

const (
	// outputTail is how much of a failed program's output is kept for the
	// error. The whole error is recorded up to 4 KiB.
	outputTail = 2 << 10
	// pipeDelay is how long a program's output is waited for when it has
	// ended, because a process that it left behind may hold the pipe open.
	pipeDelay = time.Second
)

// Command returns a handler that runs a program; no shell is involved. The
// arguments of its jobs:
//
//	program  absolute path, one of CommandConfig.Allow
//	args     the program's arguments, as a JSON array of strings; default none
//
// as in
//
//	swctl submit mirror '0 3 * * *' --handler command \
//	    --arg program=/opt/billing/mirror --arg 'args=["--from","/data"]'
//
// The program finds what it runs for in its environment:
// SINGLEWORKER_JOB, SINGLEWORKER_RUN_ID, SINGLEWORKER_TICK (RFC 3339, UTC),
// SINGLEWORKER_ATTEMPT, SINGLEWORKER_TOKEN, and what shard it is:
// SINGLEWORKER_SHARD (from 0), SINGLEWORKER_SHARDS (how many there are, 1 when
// the job is not divided) and SINGLEWORKER_SHARD_PARAMETER. Its standard input
// is empty.
//
// It runs in a process group of its own. The group is killed when the run's
// context ends, at once and with SIGKILL, because another instance may be
// about to own the job; what the program left running is killed when it exits.
// On Linux the program also dies with the application, but not what it had
// started itself.
//
// A run fails with an error that wraps ErrNotAllowed, the cause of its
// context's end, or an *exec.ExitError, and ends with the last 2 KiB of
// the program's output. Command itself fails when Allow is empty or names
// something that is not an absolute path, and on systems other than Unix.
func Command(cfg CommandConfig) (singleworker.Handler, error) {
	if !hasProcessGroups {
		return nil, fmt.Errorf("jobs: Command: %w: no process groups", errors.ErrUnsupported)
	}
	if len(cfg.Allow) == 0 {
		return nil, errors.New("jobs: CommandConfig.Allow is empty: list the programs that jobs may run")
	}
	for _, program := range cfg.Allow {
		if !filepath.IsAbs(program) || filepath.Clean(program) != program {
			return nil, fmt.Errorf("jobs: CommandConfig.Allow: %q is not an absolute path in its shortest form", program)
		}
	}
	if cfg.Dir == "" {
		cfg.Dir = "/"
	}
	c := &command{
		allow: slices.Clone(cfg.Allow), env: slices.Clone(cfg.Env), dir: cfg.Dir,
		output: &lockedWriter{w: cfg.Output},
	}
	return c.run, nil
}

// command is a Command's configuration, checked.
type command struct {
	allow  []string
	env    []string
	dir    string
	output io.Writer
}

func (c *command) run(ctx context.Context, run *singleworker.Run) error {
	if err := checkArgs(run.Args, "program", "args"); err != nil {
		return err
	}
	program := run.Args["program"]
	if !slices.Contains(c.allow, program) {
		return fmt.Errorf("program %q: %w", program, ErrNotAllowed)
	}
	var args []string
	if text := run.Args["args"]; text != "" {
		if err := json.Unmarshal([]byte(text), &args); err != nil {
			return fmt.Errorf(`argument "args": want a JSON array of strings such as ["-v","/data"]: %w`, err)
		}
	}
	tail := &tailWriter{max: outputTail}
	output := io.MultiWriter(tail, c.output)

	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(environment(run), c.env...)
	cmd.Dir = c.dir
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = pipeDelay
	if err := runGroup(cmd); err != nil {
		return explain(ctx, program, err, tail)
	}
	return nil
}

func environment(run *singleworker.Run) []string {
	return []string{
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"SINGLEWORKER_JOB=" + run.Job,
		"SINGLEWORKER_RUN_ID=" + run.ID,
		"SINGLEWORKER_TICK=" + run.Tick.UTC().Format(time.RFC3339Nano),
		"SINGLEWORKER_ATTEMPT=" + strconv.Itoa(run.Attempt),
		"SINGLEWORKER_TOKEN=" + strconv.FormatInt(run.Token, 10),
		"SINGLEWORKER_SHARD=" + strconv.Itoa(run.Shard.Index),
		"SINGLEWORKER_SHARDS=" + strconv.Itoa(run.Shard.Total),
		"SINGLEWORKER_SHARD_PARAMETER=" + strings.ReplaceAll(run.Shard.Parameter, "\x00", ""), // which no environment can hold
	}
}

// explain makes the error of a run from that of its program.
func explain(ctx context.Context, program string, err error, tail *tailWriter) error {
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("killed: %w", cause)
	} else if errors.Is(err, exec.ErrWaitDelay) {
		err = errors.New("left a process behind, which was killed")
	}
	if len(tail.kept) == 0 {
		return fmt.Errorf("%s: %w", program, err)
	}
	return fmt.Errorf("%s: %w: %s", program, err, tail)
}

// tailWriter keeps the end of what is written to it.
type tailWriter struct {
	max  int
	kept []byte
	lost int // bytes before kept
}

func (t *tailWriter) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.max; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
		t.lost += over
	}
	return len(p), nil
}

func (t *tailWriter) String() string {
	if t.lost == 0 {
		return quote(t.kept)
	}
	return fmt.Sprintf("(%d bytes and) %s", t.lost, quote(t.kept))
}

// lockedWriter lets programs that run side by side share a writer, or none. A
// writer that fails is no reason to kill a program.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer // may be nil
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	if l.w != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		_, _ = l.w.Write(p)
	}
	return len(p), nil
}
