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

// CommandConfig configures [Command]. Allow must be set; the zero value of every
// other field means its default.
type CommandConfig struct {
	// Allow lists the programs that jobs may run, as absolute paths, which are
	// compared byte by byte. A job chooses the arguments freely, so a program
	// that runs other programs by its arguments (a shell, env, find -exec,
	// rsync -e) allows everything. Allow a wrapper script instead.
	Allow []string
	// Env is added to the programs' environment, as "NAME=value". They also get
	// PATH=/usr/local/bin:/usr/bin:/bin and the SINGLEWORKER_ variables; nothing
	// is inherited from the application. Default: none.
	Env []string
	// Dir is the programs' working directory. Default: "/".
	Dir string
	// Output receives the standard output and error of all programs, as they are
	// written. Default: discarded, except that the error of a failed run has the
	// last 2 KiB.
	Output io.Writer
}

const (
	// outputTail is how many bytes of a failed program's output its error has.
	// Errors are recorded up to 4 KiB.
	outputTail = 2 << 10
	// pipeDelay limits the wait for output after a program has exited, because a
	// process that it left behind may hold the pipe open.
	pipeDelay = time.Second
)

// Command returns a handler that runs a program, without a shell. Its jobs have
// these arguments:
//
//	program  absolute path, one of CommandConfig.Allow
//	args     the program's arguments, as a JSON array of strings; default none
//
// as in
//
//	swctl submit mirror '0 3 * * *' --handler command \
//	    --arg program=/opt/billing/mirror --arg 'args=["--from","/data"]'
//
// The program's environment describes the run: SINGLEWORKER_JOB,
// SINGLEWORKER_RUN_ID, SINGLEWORKER_TICK (RFC 3339, UTC), SINGLEWORKER_ATTEMPT,
// SINGLEWORKER_TOKEN, SINGLEWORKER_SHARD (from 0), SINGLEWORKER_SHARDS (the
// number of shards, 1 for a job without) and SINGLEWORKER_SHARD_PARAMETER. Its
// standard input is empty.
//
// The program runs in a new process group. When the run's context ends, the whole
// group is killed at once with SIGKILL, because another instance may be about to
// own the job. When the program exits, processes that it left behind in its group
// are killed; one that has left the group (setsid) lives on.
// On Linux the program, but not its children, is also killed when the application
// dies.
//
// The error of a failed run wraps ErrNotAllowed, the cause of its context, or an
// *exec.ExitError, and ends with the last 2 KiB of the program's output. Command
// returns an error if Allow is empty or has an entry that is not an absolute
// path, and on systems other than Unix.
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

// command is a checked CommandConfig.
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
		"SINGLEWORKER_SHARD_PARAMETER=" + strings.ReplaceAll(run.Shard.Parameter, "\x00", ""), // an environment cannot hold NUL
	}
}

// explain returns the error of a run for an error of its program.
func explain(ctx context.Context, program string, err error, tail *tailWriter) error {
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("killed: %w", cause)
	} else if errors.Is(err, exec.ErrWaitDelay) {
		err = errors.New("left a child process behind that holds its output open; it was killed unless it has left the process group")
	}
	if len(tail.kept) == 0 {
		return fmt.Errorf("%s: %w", program, err)
	}
	return fmt.Errorf("%s: %w: %s", program, err, tail)
}

// tailWriter keeps the last max bytes written to it.
type tailWriter struct {
	max  int
	kept []byte
	lost int // number of bytes before kept
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

// lockedWriter is a writer that concurrent programs share. It ignores errors, so
// that a failing writer does not kill the programs.
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
