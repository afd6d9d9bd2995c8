package lease_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// company is a group of machines on a perfect network: every request is answered at
// once and every change is noticed.
type company struct {
	now      time.Duration
	machines map[string]*lease.Machine
	sids     []string
	peers    map[string]lease.Peer
	slots    map[lease.Slot]lease.Record
	names    []lease.Slot
	able     map[lease.Slot][]string
	group    map[lease.Slot]string
	zxid     int64
	lives    map[string]int64 // the transaction of each sign of life
	takes    int
	refused  int
	inbox    []func()
	onTake   func(slot lease.Slot)                  // optional
	onOffer  func(slot lease.Slot, from, to string) // the same, for an offer made for evenness
	seen     map[string]map[lease.Slot]string       // who has or is offered what, as each instance knows
	hung     string                                 // takes nothing in
	weights  map[string]int                         // of those who join
	busy     map[lease.Slot]string                  // who runs it
	soon     map[lease.Slot]bool                    // not to be moved for balance
	broken   string                                 // what a machine did that it must not

	always    bool // every slot always runs
	evictions int
}

func newCompany(jobs int) *company {
	c := &company{machines: map[string]*lease.Machine{}, peers: map[string]lease.Peer{},
		slots: map[lease.Slot]lease.Record{}, able: map[lease.Slot][]string{}, group: map[lease.Slot]string{}, seen: map[string]map[lease.Slot]string{},
		weights: map[string]int{}, lives: map[string]int64{}, busy: map[lease.Slot]string{}, soon: map[lease.Slot]bool{}}
	for k := range jobs {
		slot := lease.Slot(fmt.Sprintf("job%d", k))
		c.names = append(c.names, slot)
		c.slots[slot] = lease.Record{Exists: true}
	}
	return c
}

// join starts an instance with the handlers of the given jobs, nil for all.
func (c *company) join(sid string, maxSlots int, jobs ...int) {
	c.machines[sid] = lease.New(lease.Config{
		Self: lease.Member{SID: sid, Incarnation: sid + "1"}, SyncPeriod: sec(10), MaxSlots: maxSlots,
		Weight: c.weights[sid], Soon: func(slot lease.Slot) bool { return c.soon[slot] },
	})
	c.sids, c.seen[sid] = append(c.sids, sid), map[lease.Slot]string{}
	c.peers[sid] = lease.Peer{Incarnation: sid + "1", MaxSlots: maxSlots, Weight: c.weights[sid]}
	for k, slot := range c.names {
		if jobs == nil || slices.Contains(jobs, k) {
			c.able[slot] = append(slices.Clone(c.able[slot]), sid)
		}
	}
	for _, other := range c.sids {
		for _, slot := range c.names {
			c.send(other, lease.SlotSet{Slot: slot, Eligible: slices.Contains(c.able[slot], other), Able: c.able[slot], Group: c.group[slot], Always: c.always})
		}
	}
	c.send(sid, opened)
	c.tellAll(lease.LookGroup{})
}

// own makes sid, which has just joined, the previous owner of slot.
func (c *company) own(slot lease.Slot, sid string) {
	c.slots[slot] = lease.Record{
		Exists: true, Version: 1, Mzxid: 1, Owner: lease.Member{SID: sid, Incarnation: sid + "1"}, Beats: []lease.Beat{{SID: sid, Mzxid: 1}},
	}
}

// die ends an instance and removes its node.
func (c *company) die(sid string) {
	for slot, runs := range c.busy {
		if runs == sid {
			delete(c.busy, slot)
		}
	}
	delete(c.machines, sid)
	delete(c.peers, sid)
	c.sids = slices.DeleteFunc(c.sids, func(s string) bool { return s == sid })
	c.tellAll(lease.LookGroup{})
}

func (c *company) drain(sid string) {
	c.setClosed(sid, true)
	c.tellAll(lease.LookGroup{})
	c.send(sid, lease.Drain{})
}

func (c *company) undrain(sid string) {
	c.setClosed(sid, false)
	c.send(sid, lease.Undrain{})
	c.tellAll(lease.LookGroup{})
}

func (c *company) setClosed(sid string, closed bool) {
	p := c.peers[sid]
	p.Closed = closed
	c.peers[sid] = p
}

// restart begins a run of a slot that always runs, unless one is in progress.
func (c *company) restart(slot lease.Slot) {
	if owner := c.slots[slot].Owner.SID; c.busy[slot] == "" && slices.Contains(c.sids, owner) {
		c.setBusy(slot, true)
	}
}

// setBusy begins or ends a run of a slot at its owner.
func (c *company) setBusy(slot lease.Slot, busy bool) {
	owner := c.slots[slot].Owner.SID
	if busy {
		c.busy[slot] = owner
	} else {
		owner = c.busy[slot]
		delete(c.busy, slot)
	}
	c.send(owner, lease.Busy{Slot: slot, Busy: busy})
}

func (c *company) tellAll(ev lease.Event) {
	for _, sid := range c.sids {
		c.send(sid, ev)
	}
}

func (c *company) send(sid string, ev lease.Event) {
	c.inbox = append(c.inbox, func() {
		if m := c.machines[sid]; m != nil && sid != c.hung {
			c.note(sid, ev)
			for _, a := range m.Step(instant(c.now, 0), ev) {
				c.do(sid, a)
			}
		}
	})
}

// note records the ownership changes reported by sid's actions.
func (c *company) note(sid string, ev lease.Event) {
	switch ev := ev.(type) {
	case lease.SlotRead:
		c.seen[sid][ev.Slot] = cmp.Or(ev.Record.Owner.SID, ev.Record.Offer)
	case lease.TakeDone:
		if ev.Outcome == lease.Done {
			c.seen[sid][ev.Slot] = sid
		}
	}
}

// settle handles everything in flight and lets n sync periods pass.
func (c *company) settle(periods int) {
	c.deliver()
	for range periods {
		for range 11 { // a second each: a bit more than a sync period
			c.now += sec(1)
			c.tellAll(tick)
			c.deliver()
		}
		c.tellAll(lookAll)
		c.deliver()
	}
}

func (c *company) deliver() {
	const most = 1_000_000
	for n := 0; len(c.inbox) > 0 && c.broken == ""; n++ {
		if n == most {
			c.broken = "it never comes to rest"
			return
		}
		f := c.inbox[0]
		c.inbox = c.inbox[1:]
		f()
	}
}

func (c *company) do(sid string, a lease.Action) {
	switch a := a.(type) {
	case lease.ReadSlot:
		c.send(sid, lease.SlotRead{Slot: a.Slot, Outcome: lease.Done, Record: c.slots[a.Slot]})
	case lease.ReadGroup:
		peers := map[string]lease.Peer{}
		for _, live := range c.sids {
			peers[live] = c.peers[live]
		}
		c.send(sid, lease.GroupRead{Asked: a.Asked, Outcome: lease.Done, Peers: peers})
	case lease.Take:
		rec := c.slots[a.Slot]
		if rec.Version != a.Version {
			c.refused++
			c.send(sid, lease.TakeDone{Slot: a.Slot, Outcome: lease.Refused})
			return
		}
		c.takes++
		if c.onTake != nil {
			c.onTake(a.Slot)
		}
		rec = lease.Record{Version: rec.Version + 1, Owner: lease.Member{SID: sid, Incarnation: sid + "1"}, Relieved: a.Relieves}
		rec.Beats = []lease.Beat{{SID: sid, Mzxid: c.zxid + 1}}
		c.put(a.Slot, rec)
		c.send(sid, lease.TakeDone{Slot: a.Slot, Outcome: lease.Done, Version: rec.Version, Mzxid: c.zxid, SentAt: instant(c.now, 0)})
		if c.always {
			c.inbox = append(c.inbox, func() { c.restart(a.Slot) })
		}
	case lease.Evict:
		c.evictions++
		c.inbox = append(c.inbox, func() {
			if c.busy[a.Slot] == sid {
				c.setBusy(a.Slot, false)
			}
		})
	case lease.ReadLives:
		read := lease.LivesRead{Outcome: lease.Done, Lives: make(map[lease.Member]lease.Life)}
		for _, who := range a.Who {
			at, exists := c.lives[who.SID]
			read.Lives[who] = lease.Life{Exists: exists, Mzxid: at}
		}
		c.send(sid, read)
	case lease.SendBeats:
		c.zxid++
		c.lives[sid] = c.zxid
		for _, slot := range c.names {
			version, has := a.Beats[slot]
			rec := c.slots[slot]
			switch {
			case !has:
			case len(rec.Beats) != 1 || rec.Beats[0].SID != sid || rec.Beats[0].Version != version:
				c.send(sid, lease.BeatDone{Slot: slot, Outcome: lease.Refused, SentAt: instant(c.now, 0)})
			default:
				c.zxid++
				rec.Beats = []lease.Beat{{SID: sid, Version: version + 1, Mzxid: c.zxid}}
				c.slots[slot] = rec // not a change that is watched
				c.send(sid, lease.BeatDone{Slot: slot, Outcome: lease.Done, Version: version + 1, Mzxid: c.zxid, SentAt: instant(c.now, 0)})
			}
		}
	case lease.Yield:
		rec := c.slots[a.Slot]
		rec.Beats = slices.DeleteFunc(slices.Clone(rec.Beats), func(b lease.Beat) bool { return b == a.Beat })
		c.slots[a.Slot] = rec
		c.send(sid, lease.YieldDone{Slot: a.Slot})
	case lease.Release:
		if c.busy[a.Slot] == sid {
			c.broken = fmt.Sprintf("%s gives %s away, which it runs", sid, a.Slot)
		}
		if c.soon[a.Slot] && a.Offer != "" && !c.peers[sid].Closed {
			c.broken = fmt.Sprintf("%s gives %s away to even out, and it is due soon", sid, a.Slot)
		}
		if c.onOffer != nil && a.Offer != "" && !c.peers[sid].Closed {
			c.onOffer(a.Slot, sid, a.Offer)
		}
		c.seen[sid][a.Slot] = a.Offer
		c.put(a.Slot, lease.Record{Version: a.Version + 1, Offer: a.Offer})
		c.send(sid, lease.ReleaseDone{Slot: a.Slot, Outcome: lease.Done})
	}
}

func (c *company) put(slot lease.Slot, rec lease.Record) {
	c.zxid++
	rec.Exists, rec.Mzxid = true, c.zxid
	c.slots[slot] = rec
	c.tellAll(lease.Look{Slot: slot})
}

// counts returns how many slots each instance owns, and how many are free.
func (c *company) counts() string {
	var out strings.Builder
	owned := 0
	for _, sid := range c.sids {
		n := 0
		for _, slot := range c.names {
			if c.slots[slot].Owner.SID == sid {
				n++
			}
		}
		owned += n
		fmt.Fprintf(&out, "%s=%d ", sid, n)
	}
	fmt.Fprintf(&out, "free=%d", len(c.names)-owned)
	return out.String()
}
