package owner

import (
	"context"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error {
		return &zkconn.MultiError{Index: 1, Err: &zkconn.OpError{Op: "set", Path: "/a", Err: err}}
	}
	for _, row := range []struct {
		err  error
		want lease.Outcome
	}{
		{nil, lease.Done},
		{wrap(zkconn.ErrBadVersion), lease.Refused},
		{wrap(zkconn.ErrNoNode), lease.Refused},
		{wrap(zkconn.ErrDenied), lease.Refused},
		{zkconn.ErrLost, lease.Unknown},
		{&zkconn.OpError{Op: "multi", Path: "/a", Err: context.DeadlineExceeded}, lease.Unknown},
	} {
		if got := outcomeOf(row.err); got != row.want {
			t.Errorf("outcome of %v = %d, want %d", row.err, got, row.want)
		}
	}
}
