package wall_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/wall"
)

func TestClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		if c := wall.Of(ctx); c.Off() != 0 || !c.Now().Equal(time.Now()) {
			t.Errorf("the machine's clock is off by %v and says %v", c.Off(), c.Now())
		}
		off := time.Minute
		ctx, cancel := context.WithCancel(wall.Off(ctx, func() time.Duration { return off }))
		defer cancel()
		off = -time.Hour
		if c := wall.Of(ctx); c.Off() != off || !c.Now().Equal(time.Now().Add(-time.Hour)) {
			t.Errorf("a clock that is set back is off by %v and says %v", c.Off(), c.Now())
		}
	})
}
