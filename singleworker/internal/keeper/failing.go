package keeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/deeds"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// pause pauses a job because as many ticks of a slot have failed. The slot begins nothing of its
// schedule until the pause is written, which any owner of it does.
func (k *Keeper) pause(job *catalog.Job, slot string, record *zkrec.Tick) {
	own := k.owner.Owned(slot)
	if own == nil {
		return
	}
	guard, err := k.owner.Guard(slot, own.Token)
	if err != nil {
		return
	}
	turned, why := job.Spec.Switch, fmt.Sprintf("%d ticks in a row have failed", job.Ticks.Failed(*record))
	turned.Paused = &zkrec.Pause{By: k.self, Reason: why}
	deed := zkrec.Deed{Kind: zkrec.DeedPause, Jobs: []string{job.Name}, From: k.self, Reason: why}
	guard.Ops = append(guard.Ops, zkconn.CheckOp(k.loop.Tree.Job(job.Name), job.Version.Spec),
		zkconn.SetOp(k.loop.Tree.Register(job.Name), turned.Encode(), job.Version.Switch))
	k.pausing[job] = true
	k.loop.Async("pause a failing job", func(ctx context.Context) func() {
		_, err := deeds.Write(ctx, k.loop.Conn, k.loop.Tree, deed, guard.Ops, func(ops []zkconn.Op) ([]zkconn.Stat, error) {
			return signals.Multi(ctx, k.loop.Conn, signals.OfJob(k.loop.Tree, job.Name), ops...)
		})
		if err != nil {
			k.loop.WaitToAskAgain(ctx)
		}
		return func() { k.paused(job, slot, record, why, err) }
	})
}

// paused takes in the outcome of a pause. After one that was refused, or may have been written, it
// looks again whether the job is failing.
func (k *Keeper) paused(job *catalog.Job, slot string, record *zkrec.Tick, why string, err error) {
	delete(k.pausing, job)
	if err == nil {
		k.loop.Log.Warn("job paused", "job", job.Name, "slot", slot, "reason", why)
		k.catalog.Refresh(job)
		return
	}
	if !errors.Is(err, zkconn.ErrBadVersion) {
		k.loop.Log.Warn("job not paused: it is tried again", "job", job.Name, "slot", slot, "err", err)
	}
	k.Stops(slot, record)
}
