package owner

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// How long an owner was silent, at any time, and with clocks of servers that were set back.
func TestSilence(t *testing.T) {
	t.Parallel()
	wrap := time.UnixMilli(1 << 32 * 400)
	for _, c := range []struct {
		beat, taken time.Time
		want        time.Duration
	}{
		{wrap.Add(-time.Second), wrap.Add(-time.Second), 0},
		{wrap.Add(-time.Second), wrap.Add(14 * time.Second), 15 * time.Second},
		{wrap, wrap.Add(20 * 24 * time.Hour), 20 * 24 * time.Hour},
		{wrap.Add(time.Second), wrap.Add(-time.Second), 0},
	} {
		take := lease.Take{Remove: []lease.Beat{{SID: "b", At: 1}, {SID: "a", At: beatAt(zkconn.Stat{Mtime: c.beat})}}}
		got, ok := silence(take, "a", zkconn.Stat{Mtime: c.taken})
		if !ok || got != c.want {
			t.Errorf("from %v to %v: %v, %v; want %v", c.beat, c.taken, got, ok, c.want)
		}
	}
	if _, ok := silence(lease.Take{Remove: []lease.Beat{{SID: "b"}}}, "", zkconn.Stat{}); ok {
		t.Error("a slot without an owner was taken from one that was silent")
	}
}
