package lease

import (
	"cmp"
	"slices"
	"time"
)

// past estimates the minimum age of a transaction. ZooKeeper numbers all transactions in
// order, so learning of one means that all lower numbers have been applied. So the first
// reading of a heartbeat can show that it is old, using this instance's clock only.
type past struct{ moments []moment } // times and zxids increase

// moment is when this instance learned of a transaction.
type moment struct {
	mono time.Duration
	zxid int64
}

// hear records that zxid has been applied. Moments are at least apart from each other, to
// save memory: leaving one out makes transactions look younger, never older.
func (p *past) hear(mono time.Duration, zxid int64, apart, keep time.Duration) {
	if n := len(p.moments); n > 0 && (zxid <= p.moments[n-1].zxid || mono-p.moments[n-1].mono < apart) {
		return
	}
	old := 0
	for old+1 < len(p.moments) && p.moments[old+1].mono <= mono-keep {
		old++
	}
	p.moments = append(slices.Delete(p.moments, 0, old), moment{mono, zxid})
}

// before returns a time, now at the latest, by which zxid had been applied.
func (p *past) before(mono time.Duration, zxid int64) time.Duration {
	k, _ := slices.BinarySearchFunc(p.moments, zxid, func(at moment, zxid int64) int { return cmp.Compare(at.zxid, zxid) })
	if k == len(p.moments) {
		return mono
	}
	return p.moments[k].mono
}

// forget clears the past for a new connection. The server may have been restored from a
// backup and assign numbers a second time. And while disconnected, silence of the others may
// have been an outage of the server.
func (p *past) forget() { p.moments = nil }

// beatTimes holds times by instance. Nearly every slot has one heartbeat, its owner's, and there
// are thousands of slots: only a second one costs an allocation.
type beatTimes struct {
	sid   string
	at    time.Duration
	known bool                     // sid and at are set
	more  map[string]time.Duration // of other instances; not changed once another beatTimes may share it
}

// of returns the time of sid's heartbeat, and whether there is one.
func (b *beatTimes) of(sid string) (at time.Duration, known bool) {
	if b.known && b.sid == sid {
		return b.at, true
	}
	at, known = b.more[sid]
	return at, known
}

func (b *beatTimes) set(sid string, at time.Duration) {
	switch {
	case !b.known || b.sid == sid:
		b.sid, b.at, b.known = sid, at, true
	case b.more == nil:
		b.more = map[string]time.Duration{sid: at}
	default:
		b.more[sid] = at
	}
}
