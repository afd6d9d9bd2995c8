package sim

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
)

// TestMakeSimFails runs make sim, with this test binary in place of go test: the recipe exits with
// 1, and so make with an error, if there are violations, and says last how many.
func TestMakeSimFails(t *testing.T) {
	t.Parallel()
	simkit.Slow(t)
	if _, err := exec.LookPath("make"); err != nil {
		t.Fatal("there is no make; install it")
	}
	sim := func(breach string) (lastLine string, err error) {
		command := exec.CommandContext(t.Context(), "make", "-s", "-C", "../../..", "sim", "SIM="+os.Args[0], //nolint:gosec // ourselves
			"SEEDS=1", "SEED_BASE=1", "MINUTES=0.5", "BREACH="+breach)
		command.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
		out, err := command.Output()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return lines[len(lines)-1], err
	}
	if last, err := sim(""); err != nil || last != "violations: 0" {
		t.Errorf("the protocol as it is: %v, last line %q", err, last)
	}
	last, err := sim("lease")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.HasPrefix(last, "violations: ") || last == "violations: 0" {
		t.Errorf("the protocol broken: %v, last line %q", err, last)
	}
}
