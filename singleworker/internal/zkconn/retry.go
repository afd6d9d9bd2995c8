package zkconn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/task"
)

// ErrUnavailable is returned when no server answered before the context ended.
var ErrUnavailable = errors.New("ZooKeeper did not answer")

// Retry calls f until its outcome is known. f must find out what an earlier call has done. If ctx ends
// first, the error wraps ErrUnavailable and ctx's cause.
func (c *Conn) Retry(ctx context.Context, f func() error) error {
	pause := task.Backoff{Min: 20 * time.Millisecond, Max: time.Second, Jitter: c.cfg.Chance.Jitter("retry")}
	for {
		err := f()
		if !IsUnknown(err) {
			return err
		}
		if ctx.Err() != nil || pause.Wait(ctx) != nil {
			err := fmt.Errorf("%w in time: %w", ErrUnavailable, context.Cause(ctx))
			if trouble := c.Trouble(); trouble != nil {
				err = fmt.Errorf("%w; last connection attempt: %w", err, trouble)
			}
			return err
		}
	}
}
