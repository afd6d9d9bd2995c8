package sim

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets garbage lie for longer: a group in virtual time makes a lot of it in an instant,
// and keeps little.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
