package session

import (
	"errors"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// A node that was watched in a connection that has ended since is to be read again. A node that was
// only read, or not at all, stays.
func TestWatchesOfAnEarlierConnectionAreLost(t *testing.T) {
	t.Parallel()
	reads := []zkconn.Read{{Path: "/a", Watch: true}, {Path: "/b"}, {Path: "/c", Watch: true}}
	results := []zkconn.ReadResult{{Data: []byte("a")}, {Data: []byte("b")}, {Err: zkconn.ErrNoNode}}
	loseWatches(reads, results)
	if err := results[0].Err; results[0].Data != nil || !errors.Is(err, zkconn.ErrLost) || err.Error() != "zookeeper read /a: connection lost before the answer" {
		t.Errorf("what was watched: %q, %v; want ErrLost", results[0].Data, err)
	}
	if string(results[1].Data) != "b" || results[1].Err != nil || !errors.Is(results[2].Err, zkconn.ErrNoNode) {
		t.Errorf("what was not: %+v", results[1:])
	}
}

// Hear tells the loop of an event. Tests call it, so that one comes at a moment at which it seldom
// does.
func (l *Loop) Hear(ev zkconn.Event) { l.onEvent(ev) }
