package shrink_test

import (
	"slices"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/shrink"
)

// The two parts that a failure needs are left. Whoever has no time for more gets the list as it is
// by then.
func TestFewest(t *testing.T) {
	t.Parallel()
	var all []int
	for n := range 37 {
		all = append(all, n)
	}
	runs := 0
	fails := func(parts []int) bool {
		runs++
		return slices.Contains(parts, 5) && slices.Contains(parts, 30)
	}
	if got := shrink.Fewest(all, fails, func() bool { return true }); !slices.Equal(got, []int{5, 30}) || runs > 60 {
		t.Errorf("%v after %d runs", got, runs)
	}
	if got := shrink.Fewest(all, func([]int) bool { return true }, func() bool { return true }); len(got) != 0 {
		t.Errorf("%v are to blame for what fails anyway", got)
	}
	runs = 0
	if got := shrink.Fewest(all, fails, func() bool { return runs < 3 }); len(got) == 2 || !fails(got) {
		t.Errorf("%v after three runs", got)
	}
}
