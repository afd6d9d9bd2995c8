// Package shrink finds the part of a list that is to blame.
package shrink

import "slices"

// Fewest looks for the fewest parts with which fails still returns true, by leaving out ever
// smaller pieces of the list. It ends when no single part can be left out, or more returns false.
func Fewest[T any](parts []T, fails func(parts []T) bool, more func() bool) []T {
	for size := (len(parts) + 1) / 2; size > 0 && more(); {
		shorter := false
		for from := len(parts) - size; from > -size && more(); from -= size {
			first, last := max(0, from), min(len(parts), from+size)
			if try := slices.Delete(slices.Clone(parts), first, max(first, last)); len(try) < len(parts) && fails(try) {
				parts, shorter = try, true
			}
		}
		switch {
		case size > 1:
			size /= 2
		case !shorter:
			return parts
		}
	}
	return parts
}
