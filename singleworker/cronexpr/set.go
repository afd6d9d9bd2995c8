package cronexpr

import "math/bits"

// setSize is one more than the largest member of a set. The widest field is the
// 130 years of a schedule.
const setSize = 192

// A set is a bit set of small numbers: the values that a field allows, or the
// days of one month on which a schedule fires.
type set [setSize / 64]uint64

// run returns the set of all numbers from lo to hi, inclusive.
func run(lo, hi int) set {
	var s set
	for v := lo; v <= hi; v++ {
		s.add(v)
	}
	return s
}

func (s *set) add(v int) {
	s[v/64] |= 1 << (v % 64)
}

func (s set) has(v int) bool {
	return s[v/64]>>(v%64)&1 == 1
}

func (s set) union(o set) set {
	for i := range s {
		s[i] |= o[i]
	}
	return s
}

func (s set) intersection(o set) set {
	for i := range s {
		s[i] &= o[i]
	}
	return s
}

// nearest returns the first member at or beyond v in direction dir, or -1. v need
// not be a member.
func (s set) nearest(v int, dir direction) int {
	if dir == forward {
		return s.ceil(v)
	}
	return s.floor(v)
}

// ceil returns the smallest member >= v, or -1.
func (s set) ceil(v int) int {
	for v = max(v, 0); v < setSize; v = (v | 63) + 1 {
		if word := s[v/64] >> (v % 64); word != 0 {
			return v + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// floor returns the largest member <= v, or -1.
func (s set) floor(v int) int {
	for v = min(v, setSize-1); v >= 0; v = (v &^ 63) - 1 {
		if word := s[v/64] << (63 - v%64); word != 0 {
			return v - bits.LeadingZeros64(word)
		}
	}
	return -1
}
