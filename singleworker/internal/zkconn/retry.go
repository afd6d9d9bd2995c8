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

// Retry calls f until its outcome is known. f must find out whether an earlier call has had an
// effect. If ctx ends first, the error wraps ErrUnavailable and ctx's cause. If Close is called
// first, it is the error of a call after Close.
func (c *Conn) Retry(ctx context.Context, f func() error) error {
	err := f()
	if !unanswered(err) {
		return err
	}
	open, stop := c.WhileOpen(ctx)
	defer stop()
	pause := task.Backoff{Min: 20 * time.Millisecond, Max: time.Second, Jitter: c.session.Load().chance.Jitter("retry")}
	for ; unanswered(err); err = f() {
		if open.Err() == nil && pause.Wait(open) == nil {
			continue
		}
		if c.closing.Err() != nil {
			return c.closedError()
		}
		err := fmt.Errorf("%w in time: %w", ErrUnavailable, context.Cause(ctx))
		if trouble := c.Trouble(); trouble != nil {
			err = fmt.Errorf("%w; last connection attempt: %w", err, trouble)
		}
		return err
	}
	return err
}

// unanswered reports whether a later call may have a known outcome.
func unanswered(err error) bool { return IsUnknown(err) && !errors.Is(err, ErrClosed) }
