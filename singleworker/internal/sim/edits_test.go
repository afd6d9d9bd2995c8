package sim

import (
	"context"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// Changes of a job that exists, by operators, and by the two versions of an application that
// declare it.

// schedule draws one that the job may have, and its zone.
func (w *world) schedule(job *jobs.Job) {
	job.Schedule, job.TimeZone = draw(w, schedules...), ""
	if w.rng.IntN(4) == 0 {
		job.TimeZone = draw(w, "UTC", "Asia/Kolkata", "America/New_York")
	}
	w.untimed(job)
	w.window(job)
	w.nameCalendars(job)
	w.nameLimits(job)
}

// withTimes gives a job the schedule of another.
func withTimes(j *jobs.Job, of jobs.Job) {
	j.Schedule, j.TimeZone, j.NotBefore, j.NotAfter, j.MaxRuns, j.Jitter = of.Schedule, of.TimeZone, of.NotBefore, of.NotAfter, of.MaxRuns, of.Jitter
	j.Calendars, j.After, j.Deadline, j.Limits = of.Calendars, of.After, of.Deadline, of.Limits
}

// set changes the schedule of a job once, or several times in a row, or its policies.
func (w *world) set(k int) {
	times := 1
	if w.rng.IntN(3) == 0 {
		times += 1 + w.rng.IntN(2)
	}
	for range times {
		to := w.policies(jobs.Job{Everywhere: w.everywhere[k]})
		w.schedule(&to)
		if w.relate(k, &to); !w.isChangeable(jobName(k)) {
			to.Schedule = ""
		}
		policies := w.rng.IntN(3) == 0
		w.operate("set "+jobName(k)+" to "+to.Schedule+" "+to.TimeZone, func(ctx context.Context) error {
			return w.cluster.Operate(ctx, func(c *admin.Client) error {
				_, err := c.Edit(ctx, jobName(k), func(j *jobs.Job) error {
					if to.Schedule != "" {
						withTimes(j, to)
					}
					if policies {
						withPolicies(j, to)
					}
					onlyWhatFits(j)
					return nil
				}, admin.EditOptions{})
				return unless(unlessOver(err), admin.ErrNotFound, admin.ErrConflict)
			})
		})
		time.Sleep(w.upTo(w.Session))
	}
}

// withPolicies gives a job the policies of another.
func withPolicies(j *jobs.Job, of jobs.Job) {
	j.AlarmAfter = of.AlarmAfter
	j.Misfire, j.MisfireGrace, j.Overlap = of.Misfire, of.MisfireGrace, of.Overlap
	j.Interrupted, j.MaxAttempts, j.Retries, j.Backoff, j.Timeout = of.Interrupted, of.MaxAttempts, of.Retries, of.Backoff, of.Timeout
}

// isChangeable reports whether a job may get another schedule: its record keeps some former ones,
// so that their ticks can be counted, and the rest are counted by the oldest.
func (w *world) isChangeable(job string) bool {
	pending := 0
	w.cluster.View(func(m *swtest.Model) {
		j := m.Jobs[job]
		if j == nil {
			return
		}
		least := int64(0)
		for _, slot := range append(m.Shards(job), j) {
			if mark := slot.Tick.Watermark; mark != 0 && (least == 0 || mark < least) {
				least = mark
			}
		}
		for f := j.Spec.Former; f != nil && j.Spec.Since > least; f = f.Former {
			if pending++; f.Since <= least {
				break
			}
		}
	})
	return pending < zkrec.MaxFormer-2
}

// declarations are the jobs that the two versions of the application declare: the same jobs, each a
// bit different.
func (w *world) declarations() (versions [2][]singleworker.Job) {
	for k := range w.shards {
		if !w.Declared || w.rng.IntN(4) > 0 {
			continue
		}
		for v := range versions {
			job := w.policies(singleworker.Job{Name: jobName(k), Everywhere: w.everywhere[k]})
			w.schedule(&job)
			w.relate(k, &job)
			w.place(&job)
			job.Shards, job.ShardParameters = w.shards[k], w.drawParams(w.shards[k])
			if v > 0 && w.rng.IntN(2) == 0 {
				withTimes(&job, versions[0][len(versions[1])])
			}
			onlyWhatFits(&job)
			versions[v] = append(versions[v], job)
		}
	}
	return versions
}

// declared is the jobs that an instance of one version declares at its start.
func (w *world) declared(version int) (list []singleworker.Job) {
	for _, job := range w.versions[version] {
		if w.isChangeable(job.Name) {
			list = append(list, job)
		}
	}
	return list
}

// stop stops a run, without waiting for its end for long.
func (w *world) stop(k int) {
	name, patience := w.part(k), w.upTo(w.Session)
	w.later.Go(func() {
		w.operate("stop "+name, func(ctx context.Context) error {
			return w.cluster.Operate(ctx, func(c *admin.Client) error {
				ctx, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				_, err := c.StopRun(ctx, name, admin.StopOptions{By: "sim"})
				if ctx.Err() != nil {
					return nil
				}
				return unless(err, admin.ErrNotFound, admin.ErrNoShard, admin.ErrNoHandler, admin.ErrNotRunning, admin.ErrConflict)
			})
		})
	})
}

// unrequest withdraws requests for manual runs: those that wait.
func (w *world) unrequest(k int) {
	name := w.part(k)
	if w.rng.IntN(2) == 0 {
		w.trigger(k)
	}
	w.operate("withdraw the requests of "+name, func(ctx context.Context) error {
		return w.cluster.Operate(ctx, func(c *admin.Client) error {
			_, err := c.CancelRequests(ctx, name, "")
			return unless(err, admin.ErrNotFound, admin.ErrNoShard, admin.ErrConflict)
		})
	})
}

// part names a job, or one of its shards.
func (w *world) part(k int) string {
	if n := w.shards[k]; n > 0 && w.rng.IntN(2) == 0 {
		return zkrec.ShardSlot(jobName(k), w.rng.IntN(n))
	}
	return jobName(k)
}
