package session

import (
	"runtime"
	"testing"
	"weak"
)

// A loop does not hold the closures that its turns have run: they may hold the readings of all
// slots.
func TestLoopHoldsNothingThatWasDone(t *testing.T) {
	t.Parallel()
	l := new(Loop)
	value := new([64]byte)
	held := weak.Make(value)
	l.Defer(func() {
		value[0] = 1
		l.Defer(func() {})
	})
	for range 9 { // so that the slice has room left
		l.Defer(func() {})
	}
	l.drain()
	runtime.GC()
	if held.Value() != nil {
		t.Error("a closure that was run is held")
	}
	runtime.KeepAlive(l)
}
