package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/once"
)

// ownerCommand has the test binary be an owner: own.
const ownerCommand = "once-owner"

// own runs ticks, one after the other, and tells of each. An owner whose run is fenced off ends, as
// one that has lost its job.
func own(args []string) {
	ctx := context.Background()
	dialect, _ := strconv.Atoi(args[2])
	g := target{driver: args[0], dsn: args[1], d: once.Dialect(dialect)}
	slot := args[3]
	token, _ := strconv.ParseInt(args[4], 10, 64)
	tick, _ := strconv.ParseInt(args[5], 10, 64)
	var err error
	if g.raw, err = sql.Open(g.driver, g.dsn); err == nil {
		g.db, err = once.New(g.raw, g.d)
	}
	for attempt := 0; err == nil || !errors.Is(err, once.ErrFenced) && attempt < 1000; attempt++ {
		run := runOf(slot, tick, token, fmt.Sprintf("run-%d-%d-%d", token, tick, attempt))
		if err = once.Do(ctx, g.db, run, g.effectOf(ctx, run)); err == nil || errors.Is(err, once.ErrDone) {
			fmt.Println(tick)
			tick, err, attempt = tick+1, nil, 0
			<-time.After(time.Millisecond) // to the next tick, in which another owner finds SQLite unlocked
		}
	}
	if !errors.Is(err, once.ErrFenced) {
		fmt.Fprintln(os.Stderr, "an owner ends:", err)
	}
}

// An owner is a process.
type owner struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startOwner(t *testing.T, g target, slot string, token, tick int64) *owner {
	t.Helper()
	cmd := exec.Command(os.Args[0], ownerCommand, g.driver, g.dsn+g.limit, strconv.Itoa(int(g.d)), slot, strconv.FormatInt(token, 10), strconv.FormatInt(tick, 10)) //nolint:noctx,gosec // it is killed; this test
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &owner{cmd, bufio.NewScanner(out)}
}

func (o *owner) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := o.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

// next is the next tick that the owner has done, or after its end the one before.
func (o *owner) next(last int64) int64 {
	if !o.lines.Scan() {
		return last
	}
	tick, err := strconv.ParseInt(strings.TrimSpace(o.lines.Text()), 10, 64)
	if err != nil {
		return last
	}
	return tick
}

// testDeaths has owners killed, and stopped, at random moments. The next owner begins with the last
// tick of which it is told. One that was stopped goes on when its successor has done something, or
// cannot, because SQLite has no time limit for who holds a lock.
func testDeaths(t *testing.T, g target) {
	t.Helper()
	const owners = 16
	slot, tick := g.newSlot(t), int64(0)
	late := &owner{}
	for token := range int64(owners) {
		o := startOwner(t, g, slot, token+1, tick)
		if late.cmd != nil && g.d == once.SQLite {
			late.signal(t, syscall.SIGCONT)
		}
		for range 2 + rand.N(4) {
			tick = o.next(tick)
		}
		if late.cmd != nil {
			late.signal(t, syscall.SIGCONT)
			for i := range int64(20) { // it is fenced off, or ends by itself
				if late.next(-i-1) == -i-1 {
					break
				}
			}
			_ = late.cmd.Wait()
			late = &owner{}
		}
		<-time.After(rand.N(4 * time.Millisecond)) // the moment of the death
		if token%3 == 0 {
			o.signal(t, syscall.SIGSTOP)
			late = o
			continue
		}
		o.signal(t, syscall.SIGKILL)
		for last := tick; ; last = tick { // it may have told of more
			if tick = o.next(tick); tick == last {
				break
			}
		}
		_ = o.cmd.Wait()
	}
	if late.cmd != nil {
		late.signal(t, syscall.SIGKILL)
		_ = late.cmd.Wait()
	}
	effects := g.effects(t, slot)
	for i, e := range effects {
		if e.n != int64(i)+1 || e.tick != 1_000_000+int64(i) || i > 0 && e.token < effects[i-1].token {
			t.Errorf("effect %d is %+v, of an owner after %+v", i, e, effects[max(0, i-1)])
		}
	}
	if len(effects) <= int(tick) {
		t.Errorf("%d effects of ticks 0 to %d", len(effects), tick)
	}
	t.Logf("%d owners, %d ticks, each once", owners, len(effects))
}
