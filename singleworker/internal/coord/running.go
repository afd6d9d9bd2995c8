package coord

import (
	"context"

	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/session"
)

// Calls of the program to an instance that runs. Everything here may be called by anybody.

// waiting is who waits for the instance to be part of the group. Each channel is closed when it is.
type waiting struct {
	joined []chan<- struct{}
	ready  []chan<- struct{} // and for its jobs to have been read
}

// tell closes the channels of those who have waited for long enough.
func (w *waiting) tell(joined, ready bool) {
	if joined {
		closeAll(&w.joined)
	}
	if ready {
		closeAll(&w.ready)
	}
}

func closeAll(channels *[]chan<- struct{}) {
	for _, c := range *channels {
		close(c)
	}
	*channels = nil
}

// await has post add a channel on the loop and returns nil when that is closed, the cause of ctx
// when that ends sooner, or session.ErrEnded.
func (c *Coordinator) await(ctx context.Context, add func(done chan struct{})) error {
	done := make(chan struct{})
	c.loop.Post(func() { add(done) })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.loop.Ended():
		return session.ErrEnded
	}
}

// Ready returns nil when this instance is part of the group and has read its jobs.
func (c *Coordinator) Ready(ctx context.Context) error {
	return c.await(ctx, func(done chan struct{}) { c.waiting.ready = append(c.waiting.ready, done) })
}

// ready reports whether this instance is part of the group and has read its jobs.
func (c *Coordinator) ready() bool { return c.loop.Joined() && c.catalog.Survey.Complete() }

// Handle says that a handler was added to this instance. names are all its handlers. The group
// hears of it soon, or when this instance joins next.
func (c *Coordinator) Handle(added string, names []string) {
	c.loop.Post(func() {
		c.member.Entry.SetHandlers(names)
		c.member.Publish()
		c.catalog.HandlerAdded(added)
	})
}

// Declare writes a job that the program declares, as at the start, and returns when ZooKeeper has
// it. Only an instance that has joined may: one that is refused changes nothing.
func (c *Coordinator) Declare(ctx context.Context, d member.Declaration) error {
	err := c.await(ctx, func(done chan struct{}) { c.waiting.joined = append(c.waiting.joined, done) })
	if err != nil {
		return err
	}
	return c.member.Entry.DeclareOne(ctx, d)
}
