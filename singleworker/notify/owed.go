package notify

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// owing is an item that a target has to be told.
type owing struct {
	item    Item
	slot    string
	episode *episode
	phase   phase
}

// owed lists what each target has to be told, the oldest first, and forgets the episodes that are over and of which everybody
// was told.
func (b *book) owed(targets []string) map[string][]owing {
	all := make(map[string][]owing)
	for i := range b.parts {
		p := &b.parts[i]
		for slot, r := range p.slots {
			b.rerule(p, slot, r)
			before := len(r.Episodes)
			r.Episodes = slices.DeleteFunc(r.Episodes, func(ep *episode) bool {
				if ep.idle {
					return false
				}
				ep.idle = true
				for _, target := range targets {
					if items := b.owedOf(target, slot, ep); len(items) > 0 {
						all[target], ep.idle = append(all[target], items...), false
					}
				}
				return ep.idle && ep.Ended != 0
			})
			if gone := before - len(r.Episodes); gone > 0 {
				p.episodes -= gone
				p.dirty = true
				b.tidy(p, slot)
			}
		}
	}
	clear(b.reruled)
	for _, items := range all {
		sortItems(items)
	}
	return all
}

// owedOf lists what a target has to be told about an episode.
func (b *book) owedOf(target, slot string, ep *episode) (items []owing) {
	told := ep.Sent[target]
	if told < toldBegin && b.wantedBy(target, slot, ep.Kind, ep.Count) {
		items = append(items, owing{b.item(slot, ep, toldBegin), slot, ep, toldBegin})
	}
	known := told == toldBegin || len(items) > 0
	if ep.Ended != 0 && known && b.wantedBy(target, slot, Recovered, 0) {
		items = append(items, owing{b.item(slot, ep, toldEnd), slot, ep, toldEnd})
	}
	return items
}

// item is what is said of an episode.
func (b *book) item(slot string, ep *episode, what phase) Item {
	item := Item{
		ID:   itemID(b.serverType, slot, string(ep.Kind), ep.ID),
		Kind: ep.Kind, Job: firstLine(slot), Tick: inUTC(ep.Tick), At: inUTC(ep.At), Count: ep.Count,
		InstanceID: ep.SID, Error: ep.Text,
	}
	if ep.Kind == Failed || ep.Kind == Hung {
		item.RunID = ep.ID
	}
	if what == toldEnd {
		item.ID = itemID(b.serverType, slot, string(ep.Kind), ep.ID, string(Recovered))
		item.Kind, item.Of, item.Canceled, item.At = Recovered, ep.Kind, ep.Gone, inUTC(ep.Ended)
	}
	return item
}

// sending is called before items are sent: from now on somebody may have been told.
func sending(items []owing) {
	for _, o := range items {
		if o.phase == toldEnd {
			o.episode.sealed = true
		}
	}
}

// sent takes in that a target was told.
func (b *book) sent(target string, items []owing) {
	for _, o := range items {
		if o.episode.Sent == nil {
			o.episode.Sent = make(map[string]phase)
		}
		o.episode.Sent[target] = max(o.episode.Sent[target], o.phase)
		o.episode.idle = false
		b.parts[partOf(o.slot)].dirty = true
	}
}

// polled takes in the jobs as they are read, by the clock of the sender. begun is how many polls had begun before
// this one.
func (b *book) polled(jobs []admin.JobStatus, begun int, now time.Time) {
	b.readRules(jobs, begun)
	there := make(map[string]bool, len(jobs))
	for _, job := range jobs {
		there[job.Name] = true
		if len(job.Slots) == 0 || job.State == admin.StateInvalid {
			b.judge(job, now)
		}
		for _, slot := range job.Slots {
			there[slot.Name] = true
			b.judge(slot, now)
		}
	}
	for i := range b.parts {
		p := &b.parts[i]
		for slot, r := range p.slots {
			if there[slot] {
				continue
			}
			for _, ep := range r.Episodes {
				if ep.polls <= begun {
					b.end(p, r, ep.Kind, millis(now), true)
				}
			}
		}
	}
}

// judge begins and ends the episodes that are states: those of the conditions that are told from their first moment to their last.
func (b *book) judge(job admin.JobStatus, now time.Time) {
	lasting := make(map[Kind]failure)
	for _, c := range words.Conditions(job, now) {
		if c.Notify == "" {
			continue
		}
		f := failure{Kind: c.Notify, ID: string(job.State), At: millis(now), Text: firstLine(job.Reason.String())}
		if c.Code == words.Late {
			f.ID, f.Tick = inUTC(millis(job.Overdue)).Format(time.RFC3339), millis(job.Overdue)
		}
		if c.Code == words.Hung {
			f.ID, f.Text = firstLine(job.Hung.RunID), "running since "+plain.Absolute(job.Hung.Since, time.UTC)
			if job.LastRun != nil {
				f.Tick, f.SID = millis(job.LastRun.Tick), firstLine(job.LastRun.InstanceID)
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
		b.end(p, r, kind, millis(now), false)
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

func inUTC(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
