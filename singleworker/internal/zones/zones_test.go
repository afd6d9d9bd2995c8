package zones

import (
	"regexp"
	"slices"
	"testing"
	"time"
)

// The zones exist, each once, and the fingerprint stays while the program runs.
func TestPrint(t *testing.T) {
	t.Parallel()
	sorted := slices.Sorted(slices.Values(changed))
	if len(slices.Compact(slices.Clone(sorted))) != len(changed) || !slices.Equal(sorted, changed) {
		t.Errorf("not sorted, or twice: %q", changed)
	}
	for _, name := range changed {
		if _, err := time.LoadLocation(name); err != nil {
			t.Log(err) // an old database is one that differs
		}
	}
	first := Print()
	if !regexp.MustCompile(`^[0-9a-f]{8}$`).MatchString(first) || Print() != first {
		t.Errorf("%q, then %q", first, Print())
	}
}
