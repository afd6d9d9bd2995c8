package admin

import (
	"math"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

func TestTimesAreInUTC(t *testing.T) {
	t.Parallel()
	for _, when := range []time.Time{{}, time.UnixMilli(math.MaxInt64), time.UnixMilli(math.MinInt64), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if got := zkrec.UTC(when); !got.IsZero() {
			t.Errorf("%v: %v, want none: JSON has no form for it", when, got)
		}
	}
	if got := zkrec.UTC(noon.In(time.FixedZone("east", 3600))); got != noon {
		t.Errorf("%v, want %v", got, noon)
	}
}
