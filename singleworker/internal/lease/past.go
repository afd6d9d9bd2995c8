package lease

import (
	"cmp"
	"slices"
	"time"
)

// past tells how old a transaction is at least. ZooKeeper numbers its transactions in
// one order, so whoever has heard of one knows that all of lower numbers were applied
// before. That a heartbeat is old is seen in the first reading of it, although no clock
// but this instance's own is used, and whatever was last heard of its slot.
type past struct{ moments []moment } // both times and numbers grow

// moment is when a transaction was heard of.
type moment struct {
	mono time.Duration
	zxid int64
}

// hear notes that zxid was applied by now. More than a few moments of a heartbeat's period
// are not worth the memory: to leave one out makes others look younger, never older.
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

// before is a time by which zxid was applied, now at the latest.
func (p *past) before(mono time.Duration, zxid int64) time.Duration {
	k, _ := slices.BinarySearchFunc(p.moments, zxid, func(at moment, zxid int64) int { return cmp.Compare(at.zxid, zxid) })
	if k == len(p.moments) {
		return mono
	}
	return p.moments[k].mono
}

// forget is for a new connection. Its server may have been restored from a copy, and give
// numbers a second time. And while there was none, it may have been the server that was away,
// and not the others that were silent.
func (p *past) forget() { p.moments = nil }

const momentsPerBeat = 4

// hear notes a transaction that was applied.
func (m *Machine) hear(now Instant, zxid int64) {
	if zxid > 0 {
		m.past.hear(now.Mono, zxid, m.session/(beatsPerSession*momentsPerBeat), 2*stale(m.session))
	}
}
