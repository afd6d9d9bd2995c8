// Package listing keeps the list of a group's jobs short enough to be read. A client reads lists of
// up to 8 MiB at once; beyond that nobody could list the jobs, or join.
package listing

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Max is how long the list of a group's jobs may become, in bytes as they are sent. Warn is half of
// it.
const (
	Max  = 7 << 20
	Warn = Max / 2
)

// ErrFull is returned when a group has no room for further jobs.
var ErrFull = errors.New("the group has no room for more jobs")

// perName is the size of the length that ZooKeeper sends with each name.
const perName = 4

// Length is the length of a list of names.
func Length(names []string) int {
	n := 0
	for _, name := range names {
		n += perName + len(name)
	}
	return n
}

// Room checks whether there is room for more jobs. The zero value is ready. It is safe for
// concurrent use, which may let more jobs in than there is room for: the last MiB is reserved for
// that.
type Room struct {
	mu     sync.Mutex
	length int // of the list when it was read last
	count  int // of its names
}

// Check returns ErrFull if the list of root's children would be too long with the further names. It
// costs one read, and another one of the whole list when that could be so long, by the number of
// children and the longest names that there may be, and this is not known from an earlier call.
func (r *Room) Check(ctx context.Context, conn *zkconn.Conn, root string, names ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	stat, exists, err := conn.Exists(ctx, root)
	if err != nil || !exists {
		return err
	}
	more := Length(names)
	atMost := r.length + max(0, stat.NumChildren-r.count)*(perName+job.MaxNameBytes)
	if atMost+more <= Max {
		return nil
	}
	all, _, err := conn.Children(ctx, root)
	if errors.Is(err, zkconn.ErrTooLong) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	if err != nil {
		return err
	}
	r.length, r.count = Length(all), len(all)
	if r.length+more > Max {
		return fmt.Errorf("%w: the names of %d jobs take %.1f MiB, of %d MiB at most", ErrFull, len(all), float64(r.length)/(1<<20), Max>>20)
	}
	return nil
}
