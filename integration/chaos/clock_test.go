package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/wrongclock"
)

// A process's wall clock is off by its file's amount, and its monotonic clock is not.
func TestClockOffset(t *testing.T) {
	t.Parallel()
	const (
		precise = 5 * time.Millisecond
		tries   = 20 // a busy machine may stop a process between its readings of the two clocks
	)
	dir := t.TempDir()
	program := wrongclock.Build(t, dir, "./instance")
	for _, offset := range []time.Duration{0, 1500 * time.Millisecond, -20*time.Second - time.Millisecond} {
		clock := filepath.Join(dir, "clock")
		wrongclock.Set(t, clock, offset)
		var off []time.Duration
		for len(off) < tries && (len(off) == 0 || off[len(off)-1] > precise) {
			path := filepath.Join(dir, fmt.Sprintf("ledger%v-%d", offset, len(off)))
			off = append(off, (clockOf(t, program, clock, path) - offset).Abs())
		}
		if off[len(off)-1] > precise {
			t.Errorf("offset %v: the clock is off by another %v", offset, off)
		}
	}
}

// clockOf starts a process, and returns by how much its wall clock differs.
func clockOf(t *testing.T, program, clock, ledger string) time.Duration {
	t.Helper()
	here := newWallToMono()
	before := Mono()
	cmd := exec.CommandContext(t.Context(), program, "-ledger", ledger, "-servers", "127.0.0.1:1", "-group", "g", "-id", "a")
	cmd.Env = append(os.Environ(), wrongclock.Env+"="+clock)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var lines []Line
	for deadline := time.Now().Add(time.Minute); len(lines) == 0 && time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		lines, _ = ReadLedger(ledger)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if len(lines) == 0 {
		t.Fatal("the instance has written nothing")
	}
	up := lines[0]
	if passed := up.Mono - before; up.Event != Up || passed < 0 || passed > time.Minute {
		t.Errorf("%+v, %v after the start", up, passed)
	}
	return here.monoOf(up.Wall) - up.Mono
}
