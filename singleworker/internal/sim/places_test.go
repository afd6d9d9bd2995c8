package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Where jobs may run: labels that they require, instances that they list, and orders for a job on
// an instance, or on the host.

// labels are an instance's labels.
func (w *world) labels(sid string) map[string]string {
	if !w.Placed {
		return nil
	}
	of := fnv.New32a()
	_, _ = of.Write([]byte(sid))
	return map[string]string{"zone": []string{"a", "b"}[of.Sum32()%2]}
}

// place draws where a job may run.
func (w *world) place(job *jobs.Job) {
	job.Require, job.Instances = nil, nil
	if !w.Placed {
		return
	}
	n := w.rng.IntN(5)
	if n == 0 || n == 2 {
		job.Require = map[string]string{"zone": draw(w, "a", "b", "a", "b", "nowhere")}
	}
	if n == 1 || n == 2 {
		for range 3 {
			if sid := fmt.Sprintf("i%d", w.rng.IntN(w.Instances+2)); !slices.Contains(job.Instances, sid) {
				job.Instances = append(job.Instances, sid)
			}
		}
	}
}

// move changes where a job may run.
func (w *world) move(k int) {
	if !w.Placed {
		return
	}
	var to jobs.Job
	w.place(&to)
	w.operate(fmt.Sprintf("%s requires %v %v", jobName(k), to.Require, to.Instances), func(ctx context.Context) error {
		return w.cluster.Operate(ctx, func(c *admin.Client) error {
			_, err := c.Edit(ctx, jobName(k), func(j *jobs.Job) error {
				j.Require, j.Instances = to.Require, to.Instances
				return nil
			}, admin.EditOptions{})
			return unless(err, admin.ErrNotFound, admin.ErrConflict)
		})
	})
}

// exclude disables a job on an instance, seldom on the host, which all instances share. Half of
// these orders are withdrawn when the noise stops or before, and half stay.
func (w *world) exclude(sid string, k int) {
	if !w.Placed {
		return
	}
	target := admin.Target{InstanceID: sid, Job: jobName(k)}
	if w.rng.IntN(8) == 0 {
		w.cluster.View(func(m *swtest.Model) { target.Host = m.Instances[sid].Host })
		if target.Host != "" {
			target.InstanceID = ""
		}
	}
	order := func(what string, give func(ctx context.Context, c *admin.Client) error) {
		w.operate(what+target.String(), func(ctx context.Context) error {
			return w.cluster.Operate(ctx, func(c *admin.Client) error {
				return unless(give(ctx, c), admin.ErrNoInstance, admin.ErrNotFound, admin.ErrConflict)
			})
		})
	}
	order("disable ", func(ctx context.Context, c *admin.Client) error {
		_, err := c.DisableAt(ctx, target, admin.OrderOptions{By: "sim"})
		return err
	})
	if w.rng.IntN(2) == 0 {
		return
	}
	w.after(w.upTo(6*w.Session), func() {
		order("enable ", func(ctx context.Context, c *admin.Client) error {
			_, err := c.EnableAt(ctx, target)
			return err
		})
	})
}

// orderHeard is after how long an order is followed, by an instance that may have been cut off
// until a moment ago.
func (w *world) orderHeard() time.Duration { return 2*w.Session + 3*w.Sync }

// order is an operator's for a job.
type order struct {
	zkrec.Exclusion

	since time.Time
}

// ordered takes in an order that is given or withdrawn.
func (l *ledger) ordered(txn *zkdev.Txn) {
	name, below := strings.CutPrefix(txn.Path, l.tree.Exclusions()+"/")
	switch {
	case !below:
	case txn.Op == zkdev.OpDelete:
		delete(l.orders, name)
	case txn.Op != zkdev.OpCheck:
		if x, err := zkrec.ParseExclusion(path.Base(txn.Path), txn.Data); err == nil {
			l.orders[name] = order{x, txn.Time}
		}
	}
}

// mayNot is the reason why an instance may not run a job at a time, or "". An order that is not
// older than heard may not be known.
func (l *ledger) mayNot(spec *zkrec.Spec, sid string, at time.Time, heard time.Duration) string {
	of := &spec.Job
	if len(of.Instances) > 0 && !slices.Contains(of.Instances, sid) {
		return fmt.Sprintf("it lists %v", of.Instances)
	}
	if l.labelsOf != nil {
		labels := l.labelsOf(sid)
		for key, value := range of.Require {
			if labels[key] != value {
				return fmt.Sprintf("it requires %v", of.Require)
			}
		}
	}
	host := l.model.Instances[sid].Host
	for _, o := range l.orders {
		if o.Job == of.Name && (o.SID == sid || o.Host != "" && o.Host == host) && at.Sub(o.since) >= heard {
			return "it is disabled there since " + clock(o.since)
		}
	}
	return ""
}

// checkPlace verifies that the instance which made a claim may run the job. A claim checks the
// spec, and no orders.
func (l *ledger) checkPlace(slot string, txn *zkdev.Txn, rec zkrec.Tick) {
	spec := &l.model.Jobs[slot].Spec
	if why := l.mayNot(spec, rec.SID, txn.Time, l.orderHeard); why != "" {
		l.violatef(16, slot, txn.Time, "%s claims %s, and may not run it: %s", rec.SID, clockMs(rec.Tick), why)
	}
}

// mayRun reports whether an instance can run a job, and may.
func (w *world) mayRun(m *swtest.Model, sid, job string) bool {
	j := m.Jobs[job]
	return j != nil && w.handlers[sid][job] && w.ledger.mayNot(&j.Spec, sid, time.Now(), 0) == ""
}
