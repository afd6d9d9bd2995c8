package curator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/latch"
)

// childEnv makes a process of this test binary a contender: its kind, servers, path, id, lock file,
// session.
const childEnv = "LATCH_TEST_CHILD"

func TestMain(m *testing.M) {
	if config, isChild := os.LookupEnv(childEnv); isChild {
		kind, args, _ := strings.Cut(config, " ")
		run := map[string]func([]string) error{"go": contend, "manager": manage}[kind]
		if err := run(strings.Split(args, " ")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(zkserver.Main(m.Run))
}

// contend is the main function of a process that contends with package latch;
// testdata/Contender.java is the same in Java.
func contend(args []string) error {
	session, err := time.ParseDuration(args[4])
	if err != nil {
		return err
	}
	j, err := newJudged(args[3])
	if err != nil {
		return err
	}
	l, err := latch.New(latch.Config{
		Servers: args[0], Path: args[1], ID: args[2], SessionTimeout: session,
		Hooks: latch.Hooks{OnGained: j.gained, OnLost: j.lost},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go j.watch(l)
	go func() {
		commands := bufio.NewScanner(os.Stdin)
		for commands.Scan() {
			switch commands.Text() {
			case "participants":
				list, err := l.Participants(ctx)
				if err != nil {
					say("violation", err)
				}
				var ids []string
				for _, p := range list {
					ids = append(ids, p.ID)
				}
				say("participants", strings.Join(ids, ","))
			case "freeze": // the leader is going to be stopped, and cannot give the lock back
				j.yield()
				say("frozen")
			case "stop":
				cancel()
				return
			}
		}
		os.Exit(1) // the parent has exited
	}()
	return l.Run(ctx)
}

// manage is the main function of a process that contends with a Manager in latch mode. It leads
// while it owns its job.
func manage(args []string) error {
	session, err := time.ParseDuration(args[4])
	if err != nil {
		return err
	}
	j, err := newJudged(args[3])
	if err != nil {
		return err
	}
	m, err := singleworker.New(singleworker.Config{
		Servers: args[0], ServerType: "app", InstanceID: args[2], SessionTimeout: session,
		Mode: singleworker.LatchMode, LatchPath: args[1],
		Hooks: singleworker.Hooks{
			OnOwned:    func(singleworker.Ownership) { j.gained(latch.Term{}) },
			OnReleased: func(_ singleworker.Ownership, cause error) { j.lost(latch.Term{}, cause) },
		},
	})
	if err != nil {
		return err
	}
	err = errors.Join(
		m.Handle("job", func(context.Context, *singleworker.Run) error { return nil }),
		m.Schedule(singleworker.Job{Name: "job", Schedule: "@hourly"}),
	)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		commands := bufio.NewScanner(os.Stdin)
		for commands.Scan() {
			if commands.Text() == "stop" {
				cancel()
				return
			}
		}
		os.Exit(1) // the parent has exited
	}()
	return m.Run(ctx)
}

var saying sync.Mutex

// say prints an event with the time.
func say(what string, more ...any) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(append([]any{what, time.Now().UnixMicro()}, more...)...)
}

// judged holds the file lock while this process leads.
type judged struct {
	mu   sync.Mutex
	file *os.File
}

func newJudged(path string) (*judged, error) {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	return &judged{file: file}, err
}

func (j *judged) lock(kind int16) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	// The kind of lock that Java's FileChannel takes.
	return syscall.FcntlFlock(j.file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: kind, Whence: io.SeekStart})
}

func (j *judged) gained(term latch.Term) {
	if err := j.lock(syscall.F_WRLCK); err != nil {
		say("violation", "leads while another process does:", err)
	}
	if term.Token == 0 { // of a Manager, whose token is that of the job
		say("gained", "")
		return
	}
	say("gained", term.Token)
}

func (j *judged) lost(_ latch.Term, cause error) {
	j.yield()
	say("lost", cause)
}

func (j *judged) yield() {
	if err := j.lock(syscall.F_UNLCK); err != nil {
		say("violation", err)
	}
}

// watch polls whether this process leads, and prints the first answer after it was suspended.
func (*judged) watch(l *latch.Latch) {
	const pause = 500 * time.Millisecond
	for last := time.Now(); ; last = time.Now() {
		time.Sleep(time.Millisecond)
		if time.Since(last) > pause {
			_, held := l.Held()
			say("woken", held)
		}
	}
}
