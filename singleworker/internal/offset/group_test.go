package offset_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/offset"
)

// ZooKeeper's clock is the wrong one if no instance's agrees with it, and most agree with each
// other: the earliest of these counts.
func TestOfGroup(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		offs   []int // seconds
		want   int
		agreed bool
	}{
		"nobody":                         {nil, 0, false},
		"one cannot tell":                {[]int{600}, 0, false},
		"two agree":                      {[]int{600, 610}, 600, true},
		"two that are behind":            {[]int{-610, -600}, -600, true},
		"two that do not agree":          {[]int{600, 660}, 0, false},
		"one agrees with ZooKeeper's":    {[]int{600, 600, 20}, 0, false},
		"one is not known":               {[]int{600, 600, 0}, 0, false},
		"most agree":                     {[]int{600, 601, 1800}, 600, true},
		"half is not most":               {[]int{600, 600, 1800, 3600}, 0, false},
		"each agrees with a neighbor":    {[]int{595, 620, 645}, 595, true},
		"the earliest is near the limit": {[]int{31, 50, 75}, 31, true},
	} {
		peers := make(map[string]offset.Peer)
		for k, off := range tt.offs {
			peers[strconv.Itoa(k)] = offset.Peer{Off: time.Duration(off) * time.Second}
		}
		for range 10 { // in any order
			off, agreed := offset.OfGroup(30*time.Second, peers)
			if off != time.Duration(tt.want)*time.Second || agreed != tt.agreed {
				t.Errorf("%s: %v, %v; want %ds, %v", name, off, agreed, tt.want, tt.agreed)
			}
		}
	}
}
