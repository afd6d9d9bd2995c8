// Package offset estimates how far this instance's wall clock is ahead of ZooKeeper's: an interval,
// and its bound is part of the result.
//
// Each write that the instance makes anyway is a measurement. Its answer carries the time at which
// the leader has applied it, and that was between the sending and the answer. Measurements narrow
// each other down. Two that contradict each other show that one of the two clocks was set, or that
// another server leads: the later one counts alone. Between measurements the interval grows by the
// rate at which clocks drift apart, and when this instance's wall and monotonic clocks disagree, by
// that difference: the wall clock was set, or the machine suspended, and only the next measurement
// tells which. (If both happened in between, it may look like neither.)
//
// Clocks are taken to drift by up to 500 ppm. An instance whose wall and monotonic clocks disagree
// makes a write for the sake of the time in its answer: it sets _handlers, which nobody watches.
// One that owns nothing does so once in 60 sync periods.
package offset

import "time"

// Reading is a reading of this instance's clocks at one moment.
type Reading struct {
	Mono time.Duration // monotonic; it may stop while the machine is suspended
	Wall time.Time
}

// since returns the time since an earlier reading by each clock. The wall clock may have been set
// back.
func (r Reading) since(earlier Reading) (mono, wall time.Duration) {
	return r.Mono - earlier.Mono, clamp(r.Wall.Sub(earlier.Wall))
}

// Interval is an estimate of the offset, which is between Low and High. Negative: the wall clock is
// behind.
type Interval struct{ Low, High time.Duration }

// Mid is the middle of the interval: the best guess.
func (i Interval) Mid() time.Duration { return i.Low + i.Bound() }

// Bound is by how much Mid can be wrong.
func (i Interval) Bound() time.Duration { return (i.High - i.Low) / 2 }

// Beyond reports whether the offset is certainly larger than the limit, in either direction.
func (i Interval) Beyond(limit time.Duration) bool { return i.Low > limit || i.High < -limit }

// Less is the offset from a clock that is ahead of the other one by d.
func (i Interval) Less(d time.Duration) Interval { return Interval{Low: i.Low - d, High: i.High - d} }

// Estimator narrows the offset down. The zero value knows nothing. It is not safe for concurrent
// use.
type Estimator struct {
	known bool
	at    Reading
	is    Interval // at that reading
}

// drift is by how much two clocks may drift apart: as fast as a system adjusts its clock without
// setting it.
const drift = 500e-6

// granularity is the unit of the times that ZooKeeper writes. They are rounded down.
const granularity = time.Millisecond

// most is more than clocks can be wrong, and little enough to calculate with.
const most = 100 * 365 * 24 * time.Hour

func clamp(d time.Duration) time.Duration { return max(-most, min(most, d)) }

// Answered takes in a measurement: ZooKeeper has applied at the given time, by its clock, a request
// that was sent and answered at the readings. They may come in any order.
func (e *Estimator) Answered(sent, answered Reading, applied time.Time) {
	// Since it was applied, no more time has passed than since it was sent. The wall clock may have
	// been set meanwhile.
	mono, wall := answered.since(sent)
	high := clamp(answered.Wall.Sub(applied))
	sample := Interval{Low: high - max(mono, wall) - granularity, High: high}
	switch {
	case !e.known:
		e.known, e.at, e.is = true, answered, sample
		return
	case answered.Mono >= e.at.Mono:
		e.is, e.at = e.aged(answered), answered
	default:
		sample = (&Estimator{at: answered, is: sample}).aged(e.at)
	}
	if both := (Interval{max(e.is.Low, sample.Low), min(e.is.High, sample.High)}); both.Low <= both.High {
		e.is = both
	} else {
		e.is = sample
	}
}

// aged is the interval at a later reading.
func (e *Estimator) aged(now Reading) Interval {
	mono, wall := now.since(e.at)
	apart := time.Duration(float64(max(mono, wall)) * drift)
	step := wall - mono
	return Interval{Low: e.is.Low - apart + min(0, step), High: e.is.High + apart + max(0, step)}
}

// Now returns the interval at a reading, and whether anything is known. The reading is no earlier
// than the last measurement.
func (e *Estimator) Now(now Reading) (is Interval, known bool) {
	if !e.known {
		return Interval{}, false
	}
	return e.aged(now), true
}
