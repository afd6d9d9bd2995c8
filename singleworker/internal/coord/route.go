package coord

import (
	"fmt"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/journal"
	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Event passes on events of the session and of watched nodes.
func (h handler) Event(ev zkconn.Event) {
	h.member.Event(ev)
	h.observeSession(ev)
	switch ev.Kind {
	case zkconn.Connected:
		h.granted()
		h.join()
	case zkconn.Disconnected:
		h.joining.stop()
		h.member.Disconnected()
		h.owner.Step(lease.Suspended{})
	case zkconn.Expired:
		h.log.Warn("session expired; joining again", "owned", h.owner.Count())
		h.owner.Step(lease.Expired{})
	case zkconn.NodeChanged:
		h.route(ev.Path, ev.Gone)
	}
}

// granted ends every lease when the server grants the session a shorter timeout than before: the
// others may take over after that, but the leases were counted with the longer one. The first
// heartbeat renews them. At each reconnect the timeout is granted again, perhaps by a server with
// another configuration.
func (c *Coordinator) granted() {
	before, timeout := c.sessionTimeout, c.loop.Conn.SessionTimeout()
	c.sessionTimeout = timeout
	if timeout < before {
		c.log.Warn("session timeout granted is shorter than before; leases end", "session_timeout", timeout.String(), "before", before.String())
		c.owner.Step(lease.Expired{})
	}
}

// route passes on that a watched node has changed, or is gone.
func (c *Coordinator) route(path string, gone bool) {
	tree := c.loop.Tree
	switch {
	case path == tree.Root():
		c.catalog.List()
		return
	case path == tree.Freeze():
		c.catalog.Freeze.Hear()
		return
	case path == tree.Instances():
		c.owner.Step(lease.LookGroup{})
		return
	case tree.IsOrders(path), tree.IsInstance(path):
		c.member.Roster.Changed(path)
		c.owner.Step(lease.LookGroup{})
		return
	}
	if n, is := tree.SignalAt(path); is {
		c.catalog.Signals.Hear(n)
		return
	}
	if tree.IsNamed(path) {
		c.catalog.Named.Hear(path)
		return
	}
	if limit, is := tree.BelowLimit(path); is {
		c.journal.Places.Changed(limit, path)
		return
	}
	if path == tree.AskedOf(c.member.Self().Incarnation) {
		c.journal.Signal.Hear()
		return
	}
	slot, ok := tree.Watched(path)
	if !ok {
		return
	}
	switch path {
	case tree.Alive(slot):
		c.owner.Look(slot)
		if gone { // perhaps by somebody who gives no signals
			c.catalog.RefreshJob(zkrec.JobOfSlot(slot))
		}
	case tree.Tick(slot):
		c.keeper.TickChanged(slot)
		c.journal.Gates.Changed(slot)
	default: // its registrations or its shards
		c.catalog.RefreshJob(slot)
	}
}

// Handle passes on a room's notice.
func (h handler) Handle(n session.Notice) {
	switch n := n.(type) {
	case member.Draining:
		if n.On {
			h.owner.Step(lease.Drain{})
		} else {
			h.owner.Step(lease.Undrain{})
		}
	case member.Lost:
		h.join()
	case member.Leading:
		h.journal.AdvanceAll()
		h.health.latest.Leads, h.term = true, n.Token
		h.observer.Leads(n.Token)
	case member.LeadingEnded:
		h.health.latest.Leads = false
		h.observer.LeadsNoMore(n.Token, n.Cause)
	case member.ClockChanged:
		h.observer.ClockChanged(n.Wrong, n.Offset)
	case member.AbleChanged:
		h.catalog.AbleChanged()
	case member.Unregistered:
		h.catalog.Unregistered(n.Job)
	case catalog.SlotSet:
		h.owner.Step(n.SlotSet)
	case catalog.SlotGone:
		h.owner.Step(lease.SlotGone{Slot: n.Slot})
	case catalog.Unrunnable:
		h.journal.Withhold(n.Job, n.Err)
	case catalog.Repaired:
		h.owner.Look(n.Slot)
		h.journal.Advance(n.Slot)
	case catalog.Changed:
		h.changed(n)
	case journal.Asked:
		h.deputy.Asked(n.Slots)
	case journal.Claimed:
		h.deputy.Claimed(n.Late)
		h.health.latest.Claimed = h.loop.Now()
	case journal.Stops:
		h.keeper.Stops(n.Slot, n.Record)
	case owner.Gained:
		h.journal.Gained(n.Slot)
		h.keeper.KeepSlot(n.Slot)
		h.deputy.Watch(n.Slot)
	case owner.Confirmed:
		h.journal.Advance(n.Slot)
	case owner.TakenOver:
		h.observer.TakenOver(n.Silent)
	case owner.Moving:
		h.runner.Evict(n.Slot)
	case owner.Lost:
		h.journal.Lost(n.Slot, n.Cause)
		h.keeper.KeepSlot(n.Slot)
		h.deputy.Watch(n.Slot)
	default:
		panic(fmt.Sprintf("coord: notice %T is not routed", n)) // a room tells what nobody hears
	}
}

// changed passes on that a job was read again.
func (c *Coordinator) changed(n catalog.Changed) {
	if n.Spec || !c.catalog.Current(n.Job) {
		c.overdue.Changed(n.Job)
		c.removal.Changed(n.Job)
		c.parts.Changed(n.Job)
		c.journal.SpecChanged(n.Job)
	}
	c.deputy.Changed(n.Job, n.Spec)
	c.keeper.Keep(n.Job)
}
