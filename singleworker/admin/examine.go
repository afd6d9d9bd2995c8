package admin

import (
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/listing"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// Examination is all that package doctor judges a group by.
type Examination struct {
	Now     time.Time     // the group's time, and how far this machine's clock is ahead of it
	Ahead   time.Duration // as Client.Clock returns them
	Own     bool
	Stale   bool // as Client.Stale
	Servers []Server
	Group
	// NamesBytes is how long the list of the jobs' names is, as ZooKeeper sends it.
	NamesBytes int
	// Limits are those that jobs name.
	Limits []Limit
	// Open is an ErrOpenACL if anybody may change the group although the Client has credentials, or
	// nil.
	Open error
}

// Examine asks each ZooKeeper server how it stands, and reads what there is to know of a group
// beside what Group has returned, in a few requests. It takes as long as a server that does not
// answer: two seconds. Errors: ErrDenied, ErrUnavailable.
func (c *Client) Examine(ctx context.Context, g Group) (e Examination, err error) {
	e.Group, e.Servers = g, c.Servers(ctx)
	names, err := retried(ctx, c.conn, "list jobs", func() ([]string, error) { return c.children(ctx, c.tree.Root()) })
	if err != nil {
		return e, err
	}
	e.NamesBytes = listing.Length(names)
	if e.Limits, err = c.LimitsOf(ctx, g.Jobs); err != nil && !errors.Is(err, ErrDenied) {
		return e, err
	}
	e.Now, e.Ahead, e.Own = c.Clock()
	_, e.Stale = c.Stale()
	e.Open = c.conn.Retry(ctx, func() error { return c.conn.CheckClosed(ctx, c.tree.Root(), c.tree.Instances()) })
	if errors.Is(e.Open, ErrOpenACL) {
		return e, nil
	}
	err, e.Open = e.Open, nil
	if zkconn.IsUnknown(err) || errors.Is(err, ErrUnavailable) {
		return e, err
	}
	return e, nil // an ACL that may not be read is not open
}
