package member

import (
	"context"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/deeds"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Outages notes in the log that ZooKeeper did not answer. Of the instances that it did not answer,
// the first two by a hash do: an outage for all is noted twice, however large the group is, and one
// for a single instance is mostly that instance's affair.
type Outages struct {
	loop    *session.Loop
	id      string // this instance's
	cleanup *Cleanup

	last    zkrec.Deed    // that may have to be noted; without a Kind there is nothing to note
	noticed time.Duration // Mono
}

// shortest is the shortest outage that is noted: a server that restarts is away for less.
const shortest = 3 * time.Second

// over takes in that this instance is connected again.
func (o *Outages) over() {
	now, since := o.loop.Now(), o.loop.LostAt()
	if now-since < shortest {
		return
	}
	until := o.loop.Clock.Wall()
	o.noticed = now
	o.last = zkrec.Deed{Kind: zkrec.DeedOutage, From: o.id, Since: until.Add(since - now).UnixMilli(), Until: until.UnixMilli()}
}

// Sync notes the last outage if that is up to this instance, once the others are back, too.
func (o *Outages) Sync() {
	if o.last.Kind == "" || o.loop.Now()-o.noticed < o.loop.SyncPeriod() {
		return
	}
	deed := o.last
	o.last = zkrec.Deed{}
	if o.cleanup.Rank("") >= 2 {
		return
	}
	o.loop.Async("note an outage", func(ctx context.Context) func() {
		_, err := deeds.Write(ctx, o.loop.Conn, o.loop.Tree, deed, nil, func(ops []zkconn.Op) ([]zkconn.Stat, error) { return o.loop.Conn.Multi(ctx, ops...) })
		return func() {
			if err != nil {
				o.loop.Log.Debug("outage not noted", "err", err)
			}
		}
	})
}
