package journal

import (
	"log/slog"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/agenda"
	"github.com/swjobs/singleworker/singleworker/internal/member"
)

// nodes are the nodes of slots that are owned, or that have writes in their queue.
type nodes struct {
	bySlot  map[string]*node
	waiting map[string]*node // those with something to be written, or to be read
	agenda  *agenda.Agenda[*node]
	leaps   int // of member.Clock, when all were looked at last
}

func newNodes(log *slog.Logger) nodes {
	bySlot := func(a, b *node) int { return strings.Compare(a.slot, b.slot) }
	return nodes{bySlot: make(map[string]*node), waiting: make(map[string]*node), agenda: agenda.New(log, bySlot)}
}

// of returns the nodes of a slot.
func (ns *nodes) of(slot string) *node {
	n := ns.bySlot[slot]
	if n == nil {
		n = &node{slot: slot}
		ns.bySlot[slot] = n
		ns.agenda.Add(n)
	}
	return n
}

// drop forgets the nodes of a slot.
func (ns *nodes) drop(n *node) {
	delete(ns.bySlot, n.slot)
	ns.agenda.Remove(n)
}

// queued notes that the queue of n has changed.
func (ns *nodes) queued(n *node) {
	if len(n.queue) > 0 {
		ns.waiting[n.slot] = n
	} else {
		delete(ns.waiting, n.slot)
	}
	ns.agenda.Wake(n)
}

// owned is the state of a slot that this instance owns, or nil.
func (ns *nodes) owned(slot string) *owned {
	if n := ns.bySlot[slot]; n != nil {
		return n.own
	}
	return nil
}

// nextLook is when Sync is to look at n although nothing happens, on Mono. The end of each write
// and reading wakes n.
func (n *node) nextLook(clock *member.Clock) time.Duration {
	next := agenda.Never
	if n.own != nil {
		next = n.own.requests.nextLook
		if n.isDatedAhead(clock) {
			next = 0
		}
	}
	if n.hasIdleHistory() {
		next = min(next, n.written+historyKept)
	}
	return next
}

// isDatedAhead reports whether the ticks of a slot, of which none was claimed yet, begin at a time
// that ZooKeeper's clock had given while it was wrong.
func (n *node) isDatedAhead(clock *member.Clock) bool {
	return n.record != nil && n.version == 0 && clock.Ahead(n.record.Watermark) // also if it may have changed: the runner has it
}
