package sim

import (
	"strconv"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
)

// eachSeed runs a random test with so many seeds, each of which is a test with its number as the name.
func eachSeed(t *testing.T, most int, test func(t *testing.T, seed uint64)) {
	t.Helper()
	for k := range uint64(simkit.Seeds(most)) {
		seed := simkit.Base() + k
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			test(t, seed)
		})
	}
}

// report fails the test with what is wrong, and then logs what happened.
func report(t *testing.T, c *swtest.Cluster, wrong []string) {
	t.Helper()
	for _, text := range wrong {
		t.Error(text)
	}
	if t.Failed() {
		for _, n := range c.Notes() {
			t.Logf("%s %s", clock(n.Time), n.Text)
		}
	}
}
