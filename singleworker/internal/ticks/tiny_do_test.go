package ticks_test

import (
	"encoding/binary"
	"fmt"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// do changes w, which is a copy.
func (w *tiny) do(m simkit.Move) {
	k, s := int(m.Who), int(m.Arg)
	h := &w.hosts[k]
	o, slot := &h.slots[s], &w.slots[s]
	switch m.Kind {
	case tinyPass:
		if w.over() {
			return
		}
		w.now++
		w.shards[(w.now/2+4)%8] = 0
		for k := range w.hosts {
			w.hosts[k].keeper.refused = false
		}
	case tinyAdopt:
		w.tokens++
		w.logf("%d adopts shard %d", k, s)
		if !slot.exists {
			*slot = tinySlot{exists: true, record: ticks.Record{Watermark: w.spec.ShardsBegin(zkrec.Complete{})}}
		}
		slot.owner, slot.token = int8(k+1), w.tokens
		*o = tinyOwned{token: w.tokens, since: w.clock(k).Unix()}
	case tinyRefresh:
		h.spec, h.ver, h.keeper.read, h.keeper.refused = w.spec, w.version, false, false
	case tinyLoad:
		w.load(k, s)
	case tinyDecide:
		plan := ticks.Next(w.view(k, s))
		o.write, o.on = &ticks.Commit{Token: o.token, Version: ticks.Version{Spec: h.ver}, From: o.record, Plan: plan}, o.version
		w.logf("%d decides on shard %d: %s", k, s, say(o.record, plan))
	case tinyFinish:
		plan := ticks.End(tinyJob(h.spec), o.record, ticks.Outcome{State: history.StateOK, Ended: w.clock(k)})
		o.write, o.on = &ticks.Commit{From: o.record, Plan: plan}, o.version
		w.logf("a run of %d ends", k)
	case tinyArrive:
		w.arrive(k, s)
	case tinyRead, tinyKeep, tinyLayout:
		w.keep(k, m.Kind)
	case tinyEdit:
		w.left.edits--
		next := w.spec
		next.Job.Shards = 2
		w.spec = next.Over(w.spec)
		w.version++
		w.logf("the job is to have two shards")
	case tinyLeap:
		w.left.leaps--
		h.ahead = 3 - 6*int64(s)
		w.logf("the clock of %d is wrong by %d s", k, h.ahead)
	}
}

// load reads a tick record.
func (w *tiny) load(k, s int) {
	o := &w.hosts[k].slots[s]
	o.known, o.refused, o.record, o.version = true, false, w.slots[s].record, w.slots[s].version
	if o.active != "" && (o.record.RunID != o.active || !o.record.Open()) {
		o.active = "" // its result comes too late
	}
}

// arrive carries out a write.
func (w *tiny) arrive(k, s int) {
	o, slot := &w.hosts[k].slots[s], &w.slots[s]
	c := o.write
	o.write = nil
	owns := c.Token == 0 || c.Token == slot.token && (c.Version.Spec == w.version || w.breach == tinyAnySpec)
	if !owns || o.on != slot.version {
		w.logf("refused")
		o.known, o.refused = false, true
		return
	}
	shards := int8(w.hosts[k].spec.ActiveLayout().Shards)
	w.check(slot.record, c.Plan, shards)
	slot.record, slot.version = c.Plan.Record, slot.version+1
	o.record, o.version = slot.record, slot.version
	w.logf("written: %s", say(c.From, c.Plan))
	switch {
	case c.Plan.Opens:
		o.active, o.began, o.under = c.Plan.Record.RunID, w.now, shards
	case c.Token == 0:
		o.active = ""
	}
}

// check compares a change with the ticks that it passes.
func (w *tiny) check(old ticks.Record, plan ticks.Plan, shards int8) {
	next := plan.Record
	if next.Watermark < old.Watermark {
		w.failf("(1) Watermark goes back")
	}
	for t := (old.Watermark/2000 + 1) * 2000; t <= next.Watermark; t += 2000 {
		accounts := 0
		for _, e := range plan.Entries {
			if e.RunID == "" && e.Tick <= t && t <= e.Last() {
				accounts++
			}
		}
		if plan.Opens && next.Attempt == 1 && next.Tick == t {
			accounts++
		}
		if accounts != 1 {
			w.failf("(2) tick %d has %d accounts", t, accounts)
		}
	}
	if !plan.Opens {
		return
	}
	if again := next.Attempt > 1; again && (next.Tick != old.Tick || next.Attempt != old.Attempt+1) || !again && next.Tick <= old.Watermark {
		w.failf("(2) tick %d, attempt %d, is claimed after tick %d, attempt %d", next.Tick, next.Attempt, old.Tick, old.Attempt)
	}
	under := &w.shards[next.Tick/2000%8]
	if *under != 0 && *under != shards {
		w.failf("(9) tick %d is run by %d shards, and by %d", next.Tick, *under, shards)
	}
	*under = shards
	for _, h := range w.hosts {
		for _, o := range h.slots {
			if o.active != "" && o.under != shards {
				w.failf("(9) a run of %d shards begins while one of %d is in progress", shards, o.under)
			}
		}
	}
}

// keep is a step of the one who looks after the layout.
func (w *tiny) keep(k int, kind int8) {
	h := &w.hosts[k]
	d := &h.keeper
	switch kind {
	case tinyRead:
		d.read = true
		for s := range w.slots {
			d.records[s], d.versions[s] = w.slots[s].record, w.slots[s].version
		}
	case tinyKeep:
		d.next, d.ver, d.token = w.nextLayout(k), h.ver, h.slots[0].token
	case tinyLayout:
		next, layout := d.next, w.spec.ActiveLayout()
		read := d.versions == [2]int32{w.slots[0].version, w.slots[1].version}
		current := w.slots[0].token == d.token && w.version == d.ver
		*d = tinyKeeper{}
		if !current || !next.Resizing() && !read {
			w.logf("layout refused")
			d.refused = true
			return
		}
		w.logf("layout written: %+v", *next.Layout)
		for s := range layout.Shards {
			if t := (w.slots[s].record.Watermark/2000 + 1) * 2000; !next.Resizing() && t <= layout.Until {
				w.failf("(9) tick %d of the old layout has no account", t)
			}
		}
		w.spec, w.version = *next, w.version+1
	}
}

// Key has times relative to now, and versions and tokens relative to the newest ones.
func (w tiny) Key(to []byte) []byte {
	n := func(n int64) { to = binary.AppendVarint(to, n) }
	at := func(ms int64) {
		if ms == 0 {
			n(-100)
			return
		}
		n(max(ms/1000-w.now, -6))
	}
	token := func(t int64) { n(min(w.tokens-t, 6)) }
	run := func(id string) {
		var k, s, second int64
		if _, err := fmt.Sscanf(id, "%d %d %d", &k, &s, &second); err == nil {
			n(k)
			at(second * 1000)
		}
		n(int64(len(id)))
	}
	record := func(r ticks.Record) {
		at(r.Watermark)
		at(r.Tick)
		run(r.RunID)
		token(r.Token)
		n(int64(r.Attempt))
		at(r.Started)
		at(r.Ended)
		at(r.NextAttemptAt)
		at(r.BusySince)
		to = append(to, r.SID+string(r.State)+r.NextAttempt...)
	}
	spec := func(s zkrec.Spec) {
		layout := s.ActiveLayout()
		n(int64(s.Job.Shards))
		n(int64(layout.Shards))
		at(layout.Since)
		at(layout.Until)
	}
	if w.over() {
		return append(to, "over"...)
	}
	n(w.now % 2)
	to = append(to, byte(w.left.edits), byte(w.left.leaps))
	spec(w.spec)
	for i := range int64(8) {
		n(int64(w.shards[(w.now/2+i)%8]))
	}
	for s := range w.slots {
		slot := &w.slots[s]
		n(int64(slot.owner))
		token(slot.token)
		record(slot.record)
	}
	for k := range w.hosts {
		h := &w.hosts[k]
		n(h.ahead)
		n(int64(min(w.version-h.ver, 3)))
		spec(h.spec)
		for s := range h.slots {
			o := &h.slots[s]
			token(o.token)
			at(o.since * 1000)
			run(o.active)
			at(o.began * 1000)
			n(int64(o.under))
			if n(0); o.refused {
				n(1)
			}
			if n(0); o.known {
				record(o.record)
				n(int64(min(w.slots[s].version-o.version, 3)))
			}
			if n(0); o.write != nil {
				record(o.write.Plan.Record)
				token(o.write.Token)
				n(int64(min(w.version-o.write.Version.Spec, 3)))
				n(int64(min(w.slots[s].version-o.on, 3)))
				n(int64(len(o.write.Plan.Entries)))
			}
		}
		d := &h.keeper
		if n(0); d.refused {
			n(1)
		}
		if n(0); d.read {
			for s := range d.records {
				record(d.records[s])
				n(int64(min(w.slots[s].version-d.versions[s], 3)))
			}
		}
		if n(0); d.next != nil {
			spec(*d.next)
			token(d.token)
			n(int64(min(w.version-d.ver, 3)))
		}
	}
	return to
}
