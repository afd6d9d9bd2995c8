package session

import (
	"context"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/offset"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// ServerClock is ZooKeeper's clock, as far as the answers to this instance's writes tell. Its methods, but for Multi, are
// called on the loop.
type ServerClock struct {
	loop      *Loop
	estimator offset.Estimator
	compared  time.Duration // Mono: when it was last compared with the wall clock
}

// Multi is that of Conn. It takes from the answer what time it is by ZooKeeper's clock. It may be called by anybody.
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

// Now is the time by this instance's clock, or by ZooKeeper's if it is known that the two differ: what is due by
// it is due by ZooKeeper's clock.
func (c *ServerClock) Now() time.Time {
	now := c.loop.Clock.Wall()
	if is, known := c.Offset(); known && is.Beyond(0) {
		return now.Add(-is.High)
	}
	return now
}
