package cronexpr

import (
	"fmt"
	"strings"
)

// members lists a set, in order.
func (s set) members() []int {
	var all []int
	for v := s.ceil(0); v >= 0; v = s.ceil(v + 1) {
		all = append(all, v)
	}
	return all
}

// step is the distance of the members of a set that has each nth value of all others, from 0 on
// around the clock; 0 if it has not.
func (s set) step(whole set) int {
	all, size := s.members(), len(whole.members())
	if len(all) < 2 || size%len(all) != 0 {
		return 0
	}
	step := size / len(all)
	for i, v := range all {
		if v != i*step {
			return 0
		}
	}
	return step
}

// named is "minute 5" or "minutes 5 and 35".
func (s set) named(noun string, f *field, name func(int) string) string {
	return noun + plural(s.floor(setSize) != s.ceil(0)) + " " + s.text(f, name)
}

// text lists the members of a set of a field's values: "1, 2 and 15", "9 to 17", or "1 to 59 in
// steps of 2". A range may wrap around, as the field's do.
func (s set) text(f *field, name func(int) string) string {
	all := s.members()
	if step, even := evenly(all); even {
		return fmt.Sprintf("%s to %s in steps of %d", name(all[0]), name(all[len(all)-1]), step)
	}
	var parts []string
	for _, r := range s.ranges(f) {
		switch first, last := r[0], r[1]; r[2] {
		case 1:
			parts = append(parts, name(first))
		case 2:
			parts = append(parts, name(first), name(last))
		default:
			parts = append(parts, name(first)+" to "+name(last))
		}
	}
	return listed(parts)
}

// evenly reports whether there are several members at the same distance, of more than one.
func evenly(all []int) (step int, even bool) {
	const least = 5
	if len(all) < least || all[1]-all[0] < 2 {
		return 0, false
	}
	step = all[1] - all[0]
	for i := range all[1:] {
		if all[i+1]-all[i] != step {
			return 0, false
		}
	}
	return step, true
}

// ranges are the first, the last, and the number of consecutive members. If members lie on both
// sides of the field's end, the range around it is the last one.
func (s set) ranges(f *field) (all [][3]int) {
	for _, v := range s.members() {
		if last := len(all) - 1; last >= 0 && all[last][1] == v-1 {
			all[last][1], all[last][2] = v, all[last][2]+1
		} else {
			all = append(all, [3]int{v, v, 1})
		}
	}
	last := len(all) - 1
	if f.linear || last < 1 || all[0][0] != f.min || all[last][1] != f.max || all[0][2]+all[last][2] < 3 {
		return all
	}
	around := [3]int{all[last][0], all[0][1], all[0][2] + all[last][2]}
	return append(all[1:last:last], around)
}

// listed is "a", "a and b", or "a, b and c".
func listed(parts []string) string {
	last := len(parts) - 1
	if last == 0 {
		return parts[0]
	}
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}
