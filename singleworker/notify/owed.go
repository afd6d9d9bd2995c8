package notify

import (
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// owing is an item that a target has to be told.
type owing struct {
	item    Item
	slot    string
	episode *episode
	phase   phase
}

// owed lists each target's messages, the oldest first, and forgets episodes that are over and sent
// to all.
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
	b.forget()
	for _, items := range all {
		sortItems(items)
	}
	return all
}

// owedOf lists a target's messages about an episode.
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

// item describes an episode.
func (b *book) item(slot string, ep *episode, what phase) Item {
	item := Item{
		ID:   itemID(b.serverType, slot, string(ep.Kind), ep.ID),
		Kind: ep.Kind, Job: firstLine(slot), Tick: zkrec.Time(ep.Tick), At: zkrec.Time(ep.At), Count: ep.Count,
		InstanceID: ep.SID, Error: ep.Text,
	}
	if ep.Kind == Failed || ep.Kind == Hung {
		item.RunID = ep.ID
	}
	if what == toldEnd {
		item.ID = itemID(b.serverType, slot, string(ep.Kind), ep.ID, string(Recovered))
		item.Kind, item.Of, item.Canceled, item.At = Recovered, ep.Kind, ep.Gone, zkrec.Time(ep.Ended)
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
