package commands

import (
	"strings"
	"testing"
	"time"
)

// On a machine whose clock is wrong, tables are as of the group's time, and it is said once that
// they are.
func TestMachineWhoseClockIsWrong(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.ahead = 10*time.Minute + 2*time.Second
	for _, line := range [][]string{{"list"}, {"show", "nightly"}, {"instances"}, {"why", "nightly"}, {"next", "nightly"}, {"pause", "nightly", "--until", "12:00"}} {
		h.exec(line...)
		if n := strings.Count(h.errs.String(), "swctl: this machine's clock is 10m2s ahead of the group's; times are the group's\n"); n != 1 {
			t.Errorf("%q says it %d times:\n%s", line, n, h.errs.String())
		}
	}
	if h.exec("list"); !strings.Contains(h.out.String(), "in 16h45m ") { // and not in 16h35m
		t.Errorf("the table is not by the group's time:\n%s", h.out.String())
	}
	if h.exec("next", "nightly", "-n", "1"); !strings.Contains(h.out.String(), "in 17h45m ") { // and not in 17h35m
		t.Errorf("the next times are not by the group's time:\n%s", h.out.String())
	}
	if code := h.exec("list", "-o", "json"); code != 0 || h.errs.Len() > 0 {
		t.Errorf("beside a document: %s", h.errs.String())
	}
}

// Where no heartbeats tell the group's time, it is said once that times are by this machine's
// clock; with no times, nothing is said.
func TestMachineWhoseClockIsAllThereIs(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.own = true
	for _, c := range []struct {
		line []string
		want int
	}{{[]string{"list"}, 1}, {[]string{"next", "nightly"}, 1}, {[]string{"show", "nobody"}, 0}, {[]string{"list", "-o", "json"}, 0}} {
		h.exec(c.line...)
		if n := strings.Count(h.errs.String(), "swctl: no signs of life of instances tell the group's time; times are by this machine's clock\n"); n != c.want {
			t.Errorf("%q says it %d times, want %d:\n%s", c.line, n, c.want, h.errs.String())
		}
	}
}
