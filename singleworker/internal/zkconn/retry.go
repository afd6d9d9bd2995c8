package zkconn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/task"
)

// ErrUnavailable: no server answered before the context ended.
var ErrUnavailable = errors.New("ZooKeeper did not answer")

// Retry calls f again while its outcome is unknown. f must find out by itself what an
// earlier call has done. When ctx ends first, the error wraps ErrUnavailable and the cause.
func (c *Conn) Retry(ctx context.Context, f func() error) error {
	pause := task.Backoff{Min: 20 * time.Millisecond, Max: time.Second}
	for {
		err := f()
		if !IsUnknown(err) {
			return err
		}
		if ctx.Err() != nil || pause.Wait(ctx) != nil {
			err := fmt.Errorf("%w in time: %w", ErrUnavailable, context.Cause(ctx))
			if trouble := c.Trouble(); trouble != nil {
				err = fmt.Errorf("%w; the latest attempt to connect: %w", err, trouble)
			}
			return err
		}
	}
}
