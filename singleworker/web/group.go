package web

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

// group reads the group for all viewers: each thing at most once in a period.
type group struct {
	client   Reader
	readings *readings
	log      *runLog // nil without Options.History
}

const groupKey = "group"

// changed has the next snapshot be of now, or of a period ago at most.
func (g *group) changed() { g.readings.changed(groupKey) }

// snapshot is the group as of at most a period ago. A large group is read less often while nobody
// tells that it has changed.
func (g *group) snapshot(ctx context.Context) (*snapshot, error) {
	return shared(ctx, g.readings, groupKey, func(ctx context.Context) (*snapshot, error) {
		begun := time.Now()
		read, err := g.client.Group(ctx)
		if err != nil {
			return nil, err
		}
		s := &snapshot{jobs: read.Jobs, instances: read.Instances}
		now, ahead, own := g.client.Clock()
		s.at, s.clock = now.Add(-time.Since(begun)), words.Clock("the clock of the machine that serves this page", ahead, own)
		s.orders = slices.DeleteFunc(read.Orders, func(o admin.Order) bool {
			return slices.ContainsFunc(s.instances, func(i admin.Instance) bool { return i.ID == o.InstanceID || o.Host != "" && i.Host == o.Host })
		})
		s.jobList = sync.OnceValues(func() ([]byte, error) { return encoded(api.List("JobList", s.jobs), nil) })
		return s, nil
	})
}

// now is the group's time.
func (g *group) now() time.Time {
	now, _, _ := g.client.Clock()
	return now
}

// job is all that the records have of a job, which also explains its ticks: all that viewers ask
// for is answered from one reading.
func (g *group) job(ctx context.Context, name string) (admin.JobDetails, error) {
	return detail(ctx, g.readings, "job "+name, func(ctx context.Context) (admin.JobDetails, error) { return g.client.Job(ctx, name) })
}

func (g *group) instance(ctx context.Context, id string) (admin.InstanceDetails, error) {
	return detail(ctx, g.readings, "instance "+id, func(ctx context.Context) (admin.InstanceDetails, error) { return g.client.Instance(ctx, id) })
}

// whoDid is the whole log of who did what, from which each page takes its part.
func (g *group) whoDid(ctx context.Context) ([]admin.LogEntry, error) {
	return shared(ctx, g.readings, "who did", func(ctx context.Context) ([]admin.LogEntry, error) {
		return g.client.Log(ctx, admin.LogOptions{})
	})
}

// examination is of a snapshot of at most a period before s.
func (g *group) examination(ctx context.Context, s *snapshot) (admin.Examination, error) {
	return shared(ctx, g.readings, "doctor", func(ctx context.Context) (admin.Examination, error) {
		return g.client.Examine(ctx, admin.Group{Jobs: s.jobs, Instances: s.instances})
	})
}

// gone are the instances that left within the last day, or none without the right to read them.
func (g *group) gone(ctx context.Context) ([]admin.GoneInstance, error) {
	return shared(ctx, g.readings, "gone", func(ctx context.Context) ([]admin.GoneInstance, error) {
		all, err := g.client.Gone(ctx)
		if errors.Is(err, admin.ErrDenied) {
			err = nil
		}
		return all, err
	})
}

// calendars reads the group's calendars, and with them the specs of all jobs. So the reading is
// the viewer's own.
func (g *group) calendars(ctx context.Context) ([]admin.Calendar, error) {
	return detail(ctx, g.readings, "calendars", g.client.Calendars)
}

// limits are as calendars.
func (g *group) limits(ctx context.Context) ([]admin.Limit, error) {
	return detail(ctx, g.readings, "limits", g.client.Limits)
}

// jobLog holds the log's entries of a job, or of a shard. Without a log, that is nothing.
func (g *group) jobLog(ctx context.Context, name string) (reading, error) {
	if g.log == nil {
		return reading{}, nil
	}
	return detail(ctx, g.readings, "log "+name, func(ctx context.Context) (reading, error) {
		return g.log.read(ctx, runlog.Query{Slot: name, Limit: maxOfJob}, logTime), nil
	})
}

// held are the entries of some jobs that ZooKeeper holds.
func (g *group) held(ctx context.Context, jobs []admin.JobStatus) ([][]history.Entry, error) {
	names := make([]string, len(jobs))
	for i, job := range jobs {
		names[i] = job.Name
	}
	return detail(ctx, g.readings, "histories "+strings.Join(names, "\x00"), func(ctx context.Context) ([][]history.Entry, error) {
		return g.client.Histories(ctx, jobs)
	})
}

// histories are the records of some jobs of the snapshot, in a span of time that ends now if to is
// zero. The histories and the log are two readings, because the histories are the same for all
// times.
func (g *group) histories(ctx context.Context, jobs []admin.JobStatus, span time.Duration, to time.Time) (p past, err error) {
	held, err := g.held(ctx, jobs)
	if err != nil {
		return past{}, err
	}
	p.of = make([][]history.Entry, len(jobs))
	copy(p.of, held)
	if g.log == nil {
		return p, nil
	}
	log, err := detail(ctx, g.readings, "span "+span.String()+to.String(), func(ctx context.Context) (spanLog, error) {
		q := runlog.Query{Since: to.Add(-span), Until: to.Add(span), Limit: maxOfSpan} // later ones may have begun in the span
		if to.IsZero() {
			q.Since, q.Until = g.now().Add(-span), time.Time{}
		}
		return spanLogOf(g.log.read(ctx, q, logTime)), nil
	})
	p.add(jobs, log, to.IsZero())
	return p, err
}
