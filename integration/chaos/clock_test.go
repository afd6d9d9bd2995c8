package chaos

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A process's wall clock is off by what its file says, and its monotonic clock is not.
func TestClockOffset(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := buildInstance(t, dir)
	for _, offset := range []time.Duration{0, 1500 * time.Millisecond, -20*time.Second - time.Millisecond} {
		clock, path := filepath.Join(dir, "clock"), filepath.Join(dir, "ledger"+offset.String())
		setClock(t, clock, offset)
		before, wall := Mono(), time.Now()
		cmd := exec.CommandContext(t.Context(), program, "-ledger", path, "-servers", "127.0.0.1:1", "-group", "g", "-id", "a")
		cmd.Env = append(os.Environ(), clockEnv+"="+clock)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var lines []Line
		for deadline := time.Now().Add(time.Minute); len(lines) == 0 && time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
			lines, _ = ReadLedger(path)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if len(lines) == 0 {
			t.Fatal("the instance has written nothing")
		}
		up := lines[0]
		passed := up.Mono - before
		off := time.UnixMilli(up.Wall).Sub(wall.Add(passed)) - offset
		if up.Event != Up || passed < 0 || passed > time.Minute || off.Abs() > 5*time.Millisecond {
			t.Errorf("offset %v: %+v, %v after the start; its clock is off by another %v", offset, up, passed, off)
		}
	}
}
