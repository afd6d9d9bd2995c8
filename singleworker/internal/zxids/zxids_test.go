package zxids_test

import (
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/zxids"
)

// TestRestored: elections are no restore, and each number from before a leap shows it, also if
// the lost servers have held elections that nobody knew of when they were restored, and others
// were held since.
func TestRestored(t *testing.T) {
	t.Parallel()
	at := func(epoch, count int64) int64 { return epoch<<zxids.EpochBits | count }
	known := at(7, 1000)
	for _, c := range []struct {
		from, to int64
		want     bool
	}{
		{known, known, false},
		{known, at(8, 1), false},
		{at(8, 1), known, false},
		{known, at(7+zxids.Leap/2-1, 1), false},
		{0, at(zxids.Leap, 1), true},
		{known, at(7+zxids.Leap, 0), true},
		{at(7, 1), at(7+zxids.Leap+100, 1), true},
		{at(7+zxids.Leap/2, 1), at(7+zxids.Leap, 0), true},
		{at(7+zxids.Leap, 0), at(7+zxids.Leap+1, 5), false},
	} {
		if got := zxids.Restored(c.from, c.to); got != c.want {
			t.Errorf("between %#x and %#x: %t, want %t", c.from, c.to, got, c.want)
		}
	}
}
