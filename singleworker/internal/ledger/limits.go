package ledger

import (
	"maps"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// limited takes in that a node has changed which may be a limit's, or a place's.
func (m *Model) limited(op *txnlog.Op) {
	if name, is := m.tree.LimitAt(op.Path); is {
		if delete(m.Limits, name); op.Type != txnlog.Delete {
			m.Limits[name] = zkrec.NewLimit(op.Data, op.Version)
		}
	}
	if place, is := m.tree.HeldPlaceAt(op.Path); is {
		if delete(m.Held, place); op.Type != txnlog.Delete {
			m.Held[place] = string(op.Data)
		}
	}
}

// judgePlace judges the change of a place's node, before it is applied.
func (l *Ledger) judgePlace(place zkrec.Place, op *txnlog.Op) {
	l.places = append(l.places, place)
	limit, known := l.model.Limits[place.Limit]
	if op.Type != txnlog.Create || !known && !l.whole {
		return
	}
	held := 1
	for other := range l.model.Held {
		if other.Limit == place.Limit {
			held++
		}
	}
	if limit.Err != nil || limit.Deleted || place.Number >= limit.Max || held > limit.Max {
		l.violatef(Limit, string(op.Data), "takes place %d of limit %s, the %d. that is taken: there are %d (%v)", place.Number, place.Limit, held, limit.Max, limit.Err)
	}
}

// judgePlaces compares the places that are taken with the open runs of the slots that a transaction
// has changed.
func (l *Ledger) judgePlaces(slots []string, touched map[string]*touch) {
	changed := l.places
	l.places = nil
	for _, slot := range slots {
		before := touched[slot].before.Tick
		for _, place := range before.Places.List() {
			if changed = append(changed, place); l.holders[place] == slot {
				delete(l.holders, place)
			}
		}
	}
	for _, slot := range slots {
		j, before := l.model.Jobs[slot], touched[slot].before.Tick
		if j == nil || !j.Known.Tick || !j.Tick.Open() {
			continue
		}
		for _, place := range j.Tick.Places.List() {
			if other, held := l.holders[place]; held {
				l.violatef(Limit, slot, "its run holds place %d of limit %s, which the run of %s holds", place.Number, place.Limit, other)
			}
			l.holders[place] = slot
			changed = append(changed, place)
		}
		if opens := j.Tick.RunID != before.RunID; opens && j.Known.Spec && !j.Newer && !j.Tick.Places.Meet(j.Spec.Job.Limits) {
			l.violatef(Limit, slot, "claims a run with places %q, which needs %v", j.Tick.Places, maps.Clone(j.Spec.Job.Limits))
		}
	}
	for _, place := range changed {
		if node, record := l.model.Held[place], l.holders[place]; node != record {
			l.violatef(Limit, record+node, "place %d of limit %s is held by %q, as its node says, and by the run of %q", place.Number, place.Limit, node, record)
		}
	}
}
