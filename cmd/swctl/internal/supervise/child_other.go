//go:build !(linux || darwin || freebsd)

package supervise

import (
	"context"
	"errors"
	"os"
)

// Child needs processes as Unix has them.
type Child struct{ alone bool }

// Start fails on this system.
func Start(context.Context, Command) (*Child, error) {
	return nil, errors.New("guard needs process groups and signals: use Linux, macOS or FreeBSD")
}

// StopSignals are the signals that ask this process to end.
func StopSignals() []os.Signal { return []os.Signal{os.Interrupt} }

func (*Child) pid() int         { return 0 }
func (*Child) Wait()            {}
func (*Child) Terminate() error { return nil }
func (*Child) ExitCode() int    { return 0 }
func (*Child) String() string   { return "" }
func (*Child) Close()           {}
func exists(int) bool           { return true }
