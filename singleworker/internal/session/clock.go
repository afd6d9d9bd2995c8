package session

import (
	"context"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/offset"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// ServerClock is ZooKeeper's clock, as far as the answers to this instance's writes tell. Its
// methods, but for Multi, are called on the loop.
type ServerClock struct {
	// OnAnswer is called on the loop when the clocks were compared, before anything else is.
	OnAnswer func()

	loop      *Loop
	estimator offset.Estimator
	compared  time.Duration // Mono: when it was last compared with the wall clock
}

// Multi is Conn's Multi. It takes ZooKeeper's time from the answer. It may be called by anybody.
func (c *ServerClock) Multi(ctx context.Context, ops ...zkconn.Op) ([]zkconn.Stat, error) {
	l := c.loop
	sent := l.Clock.Reading()
	stats, err := l.Conn.Multi(ctx, ops...)
	answered := l.Clock.Reading()
	for _, stat := range stats {
		if stat.Mzxid != 0 { // of a SetOp
			l.Post(func() {
				c.estimator.Answered(sent, answered, stat.Mtime)
				c.compared = max(c.compared, answered.Mono)
				if c.OnAnswer != nil {
					c.OnAnswer()
				}
			})
			break
		}
	}
	return stats, err
}

// Offset is how far this instance's wall clock is ahead of ZooKeeper's, if that is known.
func (c *ServerClock) Offset() (is offset.Interval, known bool) {
	return c.estimator.Now(c.loop.Clock.Reading())
}

// Compared is when the clocks were last compared, on Mono.
func (c *ServerClock) Compared() time.Duration { return c.compared }
