package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/internal/zxids"
)

// judgeOwner judges a write of an owner record.
func (l *Ledger) judgeOwner(j *Job, t *touch) {
	old, now := t.before.Owner, j.Owner
	writer, known := l.writer()
	if now.SID != "" {
		if _, of, part := zkrec.SplitInstance(j.Name); part && of != now.SID {
			l.violatef(Owner, j.Name, "%s is the owner of the part of %s", now.SID, of)
		}
		l.counts.Owners++
		if known && writer != now.SID {
			l.violatef(Owner, j.Name, "%s makes %s the owner", l.who(), now.SID)
		}
	}
	before := t.before.Known.Owner || t.made.alive || l.whole
	if relieved := now.Relieved; before && relieved != (zkrec.Member{}) && relieved != (zkrec.Member{SID: old.SID, Incarnation: old.Incarnation}) {
		l.violatef(Owner, j.Name, "%s names %s as relieved, the owner was %q", l.who(), relieved.SID, old.SID)
	}
	switch {
	case !before:
		l.counts.Unjudged++
	case old.SID == "" || old.SID == now.SID && old.Incarnation == now.Incarnation:
	case now.SID != "":
		l.counts.Takeovers++
		why := l.alive(t)
		if why == "" {
			break
		}
		byServer := l.owes(t, l.txn.Time.Add(l.ahead()).UnixMilli())
		owes := byServer
		if !l.txn.True.IsZero() {
			owes = l.owes(t, l.txn.True.UnixMilli())
		}
		if owes != "" {
			l.report(Violation{Owner, j.Name, l.txn, fmt.Sprintf("%s takes it from %s, %s, and %s", now.SID, old.SID, why, owes), byServer == ""})
		} else {
			l.counts.Relieved++
		}
	case !known:
		l.counts.Unjudged++
	case writer != old.SID:
		if why := l.alive(t); why != "" {
			l.violatef(Owner, j.Name, "%s ends the ownership of %s, %s", l.who(), old.SID, why)
		}
	}
}

// alive says why the owner that a slot had may not be replaced; empty if it may.
func (l *Ledger) alive(t *touch) string {
	old := t.before.Owner
	member, lives := l.model.Instances[old.SID]
	last, sign := Beat{t.before.Token, t.before.Since}, "heartbeat" // of the adoption
	if t.beat.Zxid > last.Zxid {
		last = t.beat
	}
	// A node that was made since then was gone at some time, and the taker may have seen that.
	if !lives || member.Incarnation != old.Incarnation || member.Czxid > last.Zxid {
		return ""
	}
	timeout := time.Duration(member.SessionTimeout)
	if taker, known := l.writer(); known {
		timeout = max(timeout, time.Duration(l.model.Instances[taker].SessionTimeout))
	}
	// A slot without a run has a heartbeat once a minute. Whether its owner hangs is told by the sign
	// of life, unless that has come only just after a long silence, which the taker may have seen.
	life := l.model.Lives[old.Incarnation]
	if life.Zxid > last.Zxid && life.Gap < timeout {
		last, sign = life.Beat, "sign of life"
	}
	age := l.txn.At().Sub(last.Time)
	if timeout == 0 || zxids.Epoch(last.Zxid) != zxids.Epoch(l.txn.Zxid) {
		l.counts.Unjudged++ // how old the heartbeat is cannot be told
		return ""
	}
	if age >= timeout {
		return ""
	}
	return "whose node is there and whose last " + sign + ", zxid " + hex(last.Zxid) + ", is " + age.String() +
		" old, less than the session timeout of " + timeout.String()
}

// owes says why a slot may not be taken at a time from an owner that may be alive; empty if no run
// of it was open, and one was due.
func (l *Ledger) owes(t *touch, now int64) string {
	rec := t.before.Tick
	again := rec.Again()
	switch {
	case !t.idle || !t.before.Known.Tick:
		return "it is not proven that no run was open"
	case rec.Open():
		return "run " + rec.RunID + " was open"
	case again.NextAttempt != "" && again.NextAttemptAt <= now, len(t.before.Requests) > 0:
		return ""
	}
	if sched := l.schedule(t.before.Spec.Job); sched != nil && sched.Always() {
		if max(rec.RestartAt, rec.Watermark, t.before.Spec.Since) > now {
			return "no run was due"
		}
		return ""
	}
	spans, ok := l.due(t.before.Spec, rec)
	if !ok {
		l.counts.Unjudged++
		return ""
	}
	if next := spans.next(rec.Watermark); l.delayed(t.before.Name, t.before.Spec, next) > now {
		return "no run was due"
	}
	return ""
}

// clockLimit is how far the clocks of instances may differ from ZooKeeper's, unless they are
// configured otherwise.
const clockLimit = 30 * time.Second

// ahead is by how much the group's time may be ahead of ZooKeeper's for the instance that makes the
// transaction: if the clocks of all other instances differ from ZooKeeper's by more than the limit,
// and its own agrees with most of them, ZooKeeper's is the one that is wrong, and they go by
// theirs. It may not have published how far its clock is off, so that is taken to agree with those
// that are the farthest ahead. It may not have read yet an offset that another one published less
// than a session timeout ago.
func (l *Ledger) ahead() time.Duration {
	self, _ := l.writer()
	recent := func(at time.Time) bool {
		return l.txn.At().Sub(at).Abs() < time.Duration(l.model.Instances[self].SessionTimeout)
	}
	var offsets []time.Duration
	for sid, member := range l.model.Instances {
		off := time.Duration(member.ClockOffset)
		if recent(member.OffsetSince) {
			off = max(off, member.OffsetBefore)
		}
		if sid == self || recent(member.Since) {
			continue
		}
		if off.Abs() <= clockLimit {
			return 0
		}
		offsets = append(offsets, off)
	}
	if len(offsets) == 0 {
		return 0
	}
	slices.Sort(offsets)
	most := (len(offsets) + 1) / 2 // with itself, more than half
	return max(0, offsets[len(offsets)-most])
}

// LiveOwner is the id of the instance that owns the slot and lives, or "".
func (m *Model) LiveOwner(slot string) string {
	j := m.Jobs[slot]
	if !m.IsSlot(slot) || j.Owner.SID == "" {
		return ""
	}
	if member, lives := m.Instances[j.Owner.SID]; !lives || member.Incarnation != j.Owner.Incarnation {
		return ""
	}
	return j.Owner.SID
}
