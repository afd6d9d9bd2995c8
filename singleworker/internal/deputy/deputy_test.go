package deputy_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
)

// Each slot's tick record is read by its first deputy alone once per tick, with all others that are due then. The next
// deputy of a group of three reads it a few times a minute.
func TestLooksOncePerTick(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Grace = grace
				const slots, seconds = 50, 30
				submit(g, slots, "* * * * * ?")
				for k := range n {
					start(g, fmt.Sprint("i", k), nil)
				}
				until(time.Minute - time.Millisecond)
				zxid := g.Server.Zxid()
				r := countReads(g)
				until(time.Minute + seconds*time.Second - time.Millisecond)
				wantTakes(g, zxid)
				for slot := range slots {
					job := fmt.Sprintf("job%02d", slot)
					first, others := 0, 0
					for _, slots := range r.by {
						sum := 0
						for second, n := range slots[job] {
							if sum += n; n > 1 {
								g.T.Errorf("%s is read %d times by one instance in second %d", job, n, second)
							}
						}
						first, others = max(first, sum), others+sum
					}
					if others -= first; first != seconds || others > (n-2)*3 {
						g.T.Errorf("%s is read %d times by its first deputy and %d times by others, want %d and at most %d", job, first, others, seconds, (n-2)*3)
					}
				}
				for client, seconds := range r.requests {
					for second, n := range seconds {
						if n > 2 {
							g.T.Errorf("%s makes %d requests in second %d", client, n, second)
						}
					}
				}
			})
		})
	}
}
