package notify

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// begin takes in the jobs as they are before the first event, which follows the cursor.
func (b *book) begin(jobs []admin.JobStatus, now time.Time) {
	b.resuming = true
	b.remember()
	there := make(map[string]bool, len(jobs))
	for _, job := range jobs {
		there[job.Name] = true
		if job.Job.Schedule != "" { // of one that cannot be read holds on what it said
			b.ruled(job.Name, job.Job.Notify)
		}
		b.stands(job, now)
		for _, slot := range job.Slots {
			there[slot.Name] = true
		}
	}
	for i := range b.parts {
		for slot := range b.parts[i].slots {
			if !there[slot] {
				b.left(slot, zkrec.Milli(now))
			}
			if name := zkrec.JobOfSlot(slot); !there[name] {
				b.canceled[name] = true
			}
		}
	}
}

// stands takes in how a job stands: of one that is divided, each slot.
func (b *book) stands(job admin.JobStatus, now time.Time) {
	if len(job.Slots) == 0 || job.State == admin.StateInvalid {
		b.judge(job, now)
	} else {
		b.passed(job.Name, Late, now)
	}
	for _, slot := range job.Slots {
		b.judge(slot, now)
	}
}

// judge begins and ends the episodes that are states: the conditions that are told from their first
// moment to their last.
func (b *book) judge(job admin.JobStatus, now time.Time) {
	lasting := make(map[Kind]failure)
	for _, c := range job.Conditions {
		if c.Notify == "" {
			continue
		}
		f := failure{Kind: c.Notify, ID: string(job.State), At: zkrec.Milli(now), Text: firstLine(job.Reason.String())}
		if c.Code == reason.Late {
			f.ID, f.Tick = zkrec.Time(zkrec.Milli(job.Overdue)).Format(time.RFC3339), zkrec.Milli(job.Overdue)
		}
		if c.Code == reason.Hung {
			f.ID, f.Text = firstLine(job.Hung.RunID), "running since "+plain.Absolute(job.Hung.Since, time.UTC)
			if job.LastRun != nil {
				f.Tick, f.SID = zkrec.Milli(job.LastRun.Tick), firstLine(job.LastRun.InstanceID)
			}
		}
		if _, worse := lasting[c.Notify]; !worse {
			lasting[c.Notify] = f
		}
	}
	for _, kind := range []Kind{Late, Hung} {
		if f, lasts := lasting[kind]; lasts {
			b.lasts(job.Name, f)
		} else {
			b.passed(job.Name, kind, now)
		}
	}
}

// passed ends an episode that was a state.
func (b *book) passed(slot string, kind Kind, now time.Time) {
	p := &b.parts[partOf(slot)]
	if r := p.slots[slot]; r != nil {
		b.end(p, r, kind, zkrec.Milli(now), false)
	}
}

// lasts begins an episode unless there is one.
func (b *book) lasts(slot string, f failure) {
	p := &b.parts[partOf(slot)]
	if r := p.slots[slot]; r != nil {
		if ep := r.open(f.Kind); ep != nil && ep.Ended == 0 {
			return
		}
	}
	b.count(slot, f)
}
