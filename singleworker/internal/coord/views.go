package coord

import (
	"context"
	"maps"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// looksPerReading is how many looks may rely on one reading of an owner record.
const looksPerReading = 4

// slotViews is what the loop remembers of owner records, so that a look at a slot that is owned and
// well costs one read, of the heartbeat. That node is made and deleted in the transactions that
// change the record: as long as it is the same one, so is the record; and the watch on the record
// tells of a hand that changes nothing else.
//
// What this does not show is a stray heartbeat beside the owner's. So the record is read again
// every few looks, and whatever may be taken over is read whole in the round of its Take: when the
// heartbeat stands still, and when the group is not the one it was.
type slotViews struct {
	slots  map[string]*slotView
	peers  map[string]lease.Peer // as last read
	relied bool                  // a look since then has relied on a record read before
}

type slotView struct {
	changes int           // counts what was heard
	known   *lease.Record // an owner, and its heartbeat alone; else nil
	looks   int           // that have relied on it
}

// of returns what is remembered of a slot.
func (v *slotViews) of(slot string) *slotView {
	if v.slots == nil {
		v.slots = make(map[string]*slotView)
	}
	if v.slots[slot] == nil {
		v.slots[slot] = &slotView{}
	}
	return v.slots[slot]
}

// reliable returns the record that a look may begin with, or nil.
func (v *slotView) reliable() *lease.Record {
	if v.looks >= looksPerReading {
		return nil
	}
	return v.known
}

// seen keeps what a look has found, unless something was heard since it began.
func (v *slotView) seen(changes int, rec lease.Record, relied bool) {
	if v.changes != changes {
		return
	}
	if v.looks++; !relied {
		v.looks = 0
	}
	v.known = nil
	if rec.Owner != (lease.Member{}) && len(rec.Beats) == 1 && rec.Beats[0].SID == rec.Owner.SID {
		v.known = &rec
	}
}

func (v *slotView) changed() { v.changes, v.known = v.changes+1, nil }

// changed is for what concerns all slots: the group, or the connection.
func (v *slotViews) changed() {
	for _, slot := range v.slots {
		slot.changed()
	}
}

// sameGroup takes in who is there, and reports whether what was read since the last time may
// decide who takes what: not if it rests on older records and somebody has come or gone.
func (v *slotViews) sameGroup(peers map[string]lease.Peer) bool {
	same := maps.EqualFunc(peers, v.peers, func(a, b lease.Peer) bool { return a.Incarnation == b.Incarnation })
	if !same {
		v.changed()
	}
	decides := same || !v.relied
	v.peers, v.relied = peers, false
	return decides
}

// glance reads a heartbeat only, and reports whether that shows the slot as it is.
func (c *Coordinator) glance(ctx context.Context, slot string, known lease.Record) (lease.Record, bool, error) {
	last := known.Beats[0]
	beat, found, err := c.conn.Exists(ctx, c.tree.Heartbeat(slot, last.SID))
	if err != nil || !found || beat.Czxid != known.Mzxid || beat.Version == last.Version {
		return lease.Record{}, false, err
	}
	known.Beats = []lease.Beat{{SID: last.SID, Version: beat.Version}}
	return known, true, nil
}
