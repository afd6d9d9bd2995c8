package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// mostShards is how many shards a job of the simulation may have.
const mostShards = 16

// drawShards draws how many shards a divided job has.
func (w *world) drawShards() int {
	if w.rng.IntN(12) == 0 {
		return 1 + w.rng.IntN(mostShards)
	}
	return 1 + w.rng.IntN(8)
}

// drawParams gives some of n shards a parameter.
func (w *world) drawParams(n int) map[int]string {
	params := make(map[int]string)
	for k := range n {
		if w.rng.IntN(4) == 0 {
			params[k] = fmt.Sprintf("p%d", w.rng.IntN(100))
		}
	}
	return params
}

// reshard reshards a job once, or several times in a row, mostly one that already has shards.
func (w *world) reshard() {
	k := w.rng.IntN(len(w.shards))
	for range 3 {
		if w.shards[k] == 0 {
			k = w.rng.IntN(len(w.shards))
		}
	}
	if w.everywhere[k] || w.isParent(k) {
		return
	}
	times := 1
	if w.rng.IntN(3) == 0 {
		times += 1 + w.rng.IntN(3)
	}
	for range times {
		switch n := w.drawShards(); {
		case w.shards[k] > 0 && w.rng.IntN(8) == 0:
			w.undivide(k)
		case w.shards[k] > 0 && w.rng.IntN(6) == 0:
			w.divide(k, w.shards[k]) // other parameters
		default:
			w.divide(k, n)
		}
		if w.rng.IntN(2) == 0 {
			time.Sleep(w.upTo(time.Second))
		}
	}
}

// divide sets the number of a job's shards, and their parameters.
func (w *world) divide(k, n int) {
	w.shards[k] = n
	params := w.drawParams(n)
	w.operate(fmt.Sprintf("divide %s by %d", jobName(k), n), func(ctx context.Context) error { return w.divideBy(ctx, k, n, params) })
}

func (w *world) divideBy(ctx context.Context, k, n int, params map[int]string) error {
	return w.cluster.Operate(ctx, func(c *admin.Client) error {
		_, err := c.Edit(ctx, jobName(k), func(j *jobs.Job) error {
			if j.ShardParameters == nil {
				j.ShardParameters = map[int]string{}
			}
			j.Shards = n
			onlyWhatFits(j)
			maps.Copy(j.ShardParameters, params)
			maps.DeleteFunc(j.ShardParameters, func(shard int, _ string) bool { return shard >= n })
			return nil
		}, admin.EditOptions{})
		return unless(unlessOver(err), admin.ErrNotFound, admin.ErrConflict)
	})
}

// undivide makes a job undivided.
func (w *world) undivide(k int) {
	w.shards[k] = 0
	w.replaceUndivided(k)
}

// replaceUndivided has an operator replace a job that may have shards by one without.
func (w *world) replaceUndivided(k int) {
	w.operate("undivide "+jobName(k), func(ctx context.Context) error {
		return w.cluster.Operate(ctx, func(c *admin.Client) error {
			status, err := c.Get(ctx, jobName(k))
			if err != nil {
				return unless(err, admin.ErrNotFound)
			}
			job := status.Job
			job.Shards, job.ShardParameters = 0, nil
			_, err = c.Submit(ctx, job, admin.SubmitOptions{Replace: true})
			return unless(unlessOver(err), admin.ErrConflict)
		})
	})
}

// slots lists the slots that there are for somebody to own.
func (w *world) slots() (slots []string) {
	w.cluster.View(func(m *swtest.Model) {
		for name := range m.Jobs {
			if m.IsSlot(name) && m.Jobs[name].Spec.Done == nil {
				slots = append(slots, name)
			}
		}
	})
	slices.Sort(slots)
	return slots
}

// changing names a job that is being resharded or has other nodes than its layout requires,
// although a live instance could change that.
func (w *world) changing() (job, what string) {
	w.cluster.View(func(m *swtest.Model) {
		for name, j := range m.Jobs {
			if zkrec.JobOfSlot(name) != name || j.Spec.Job.Everywhere || j.Spec.Done != nil || !w.isAble(m, name) || w.isWaiting(m, name) {
				continue
			}
			if j.Spec.Switch.Paused.Covers(time.Now()) || isFrozen(m, name, time.Now()) {
				continue // for good, by its failures, or as the end of a freeze was lost: earlier ticks are owed until it ends
			}
			if l := j.Spec.Layout; l != nil && time.Until(time.UnixMilli(l.Until)) > w.changedWithin() {
				continue // dated by ZooKeeper's clock while that was far ahead
			}
			total := j.Spec.ActiveLayout().Shards
			if n := len(m.Shards(name)); j.Spec.Resizing() || n != total || j.Ownable != (total == 0) {
				job, what = name, fmt.Sprintf("%+v, nodes of %d shards; ownable: %v", j.Spec, n, j.Ownable)
			}
		}
	})
	return job, what
}

// changedWithin is how soon after the faults all jobs have the shards that were asked for last: a
// pause has ended that holds back earlier runs, and all is owned again; retries have been made,
// which may wait for 2 s and 4 s; then messages of 20 ms and, where one that was to do something
// has failed, a sync period for each of the steps of up to four layouts.
func (w *world) changedWithin() time.Duration {
	return 3*w.Session + time.Second + w.ownedWithin() + 6*time.Second + 4*w.Sync
}
