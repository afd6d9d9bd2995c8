package election

import (
	"slices"
	"testing"
)

const uuid1, uuid2 = "0e1d7d7c-26c5-4f07-9c1c-7d3b8a5a3a01", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"

func TestOrderIsThatOfCurator(t *testing.T) {
	t.Parallel()
	for what, row := range map[string][]string{
		"nobody": nil,
		"numbers decide, not ids": {
			"_c_" + uuid2 + "-latch-0000000001", "_c_" + uuid1 + "-latch-0000000002", "_c_" + uuid2 + "-latch-0000000010",
		},
		"without protection": {"latch-0000000003", "_c_" + uuid1 + "-latch-0000000004"},
		"the last latch- counts": {
			"latch-9-latch-0000000001", "_c_" + uuid1 + "-latch-0000000002",
		},
		"a hand's nodes by their whole names": {"!", "_c_" + uuid1 + "-latch-0000000002", "lock-0000000001"},
		"numbers that have begun again":       {"_c_" + uuid1 + "-latch--2147483648", "_c_" + uuid2 + "-latch-2147483647"},
		"equal numbers, which cannot be":      {"_c_" + uuid1 + "-latch-0000000001", "_c_" + uuid2 + "-latch-0000000001"},
	} {
		shuffled := slices.Clone(row)
		slices.Reverse(shuffled)
		if got := inOrder(shuffled); !slices.Equal(got, row) {
			t.Errorf("%s: %q, want %q", what, got, row)
		}
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	a, b, c := "_c_"+uuid1+"-latch-0000000001", "_c_"+uuid2+"-latch-0000000002", "_c_"+uuid1+"-latch-0000000003"
	queue := []string{a, b, c}
	for name, want := range map[string]string{a: "", b: a, c: b, "absent": ""} {
		if got := before(queue, name); got != want {
			t.Errorf("before %s: %q, want %q", name, got, want)
		}
	}
	if got := own(queue, namePrefix(uuid1)); !slices.Equal(got, []string{a, c}) {
		t.Errorf("own %q, want the two of %s", got, uuid1)
	}
	if got := own(queue, namePrefix("6ba7b810-9dad-11d1-80b4-00c04fd430c8")); got != nil {
		t.Errorf("own %q of a contender without nodes", got)
	}
}
