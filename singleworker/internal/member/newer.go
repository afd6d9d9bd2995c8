package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// ErrNewer is returned when a job is left as a newer version of the program has it.
var ErrNewer = errors.New("a newer version of the program decides on the job")

// newer are the live instances of newer versions of this program. In the middle of a deploy an
// older instance may restart, with declarations that they have replaced. A record says only who
// declared it first: the version of a live instance may be newer than that. Programs of a group
// that have nothing to do with each other have other handlers.
type newer []newerInstance

type newerInstance struct {
	sid, version string
	handlers     []string // sorted, as far as it publishes them
}

// readNewer reads which live instances have a newer version than this one, if it has one.
func (e *Entry) readNewer(ctx context.Context) (all newer, err error) {
	mine := e.cfg.Instance.Program
	if mine == "" {
		return nil, nil
	}
	sids, _, err := e.loop.Conn.Children(ctx, e.loop.Tree.Instances())
	if err != nil {
		return nil, err
	}
	lists := make(map[string][]string) // by hash
	for _, i := range readInstances(ctx, e.loop, sids, e.loop.Conn.Get) {
		if zkconn.IsUnknown(i.err) {
			return nil, i.err
		}
		if order, ok := zkrec.CompareVersions(i.Program, mine); i.err != nil || !ok || order <= 0 {
			continue
		}
		if _, known := lists[i.Handlers]; !known && i.Handlers != "" {
			data, _, err := e.loop.Conn.Get(ctx, e.loop.Tree.HandlerList(i.Handlers))
			if zkconn.IsUnknown(err) {
				return nil, err
			}
			lists[i.Handlers], _ = zkrec.ParseHandlers(i.Handlers, data) // of what cannot be read, nothing is known
		}
		all = append(all, newerInstance{i.sid, i.Program, lists[i.Handlers]})
	}
	return all, nil
}

// newerOnce returns readNewer, which is called only when a job is to be replaced, and once.
func (e *Entry) newerOnce(ctx context.Context) func() (newer, error) {
	return sync.OnceValues(func() (newer, error) { return e.readNewer(ctx) })
}

// yield returns an ErrNewer if a newer version than mine has declared the job that stands as old,
// or a live instance of a newer version has its handler.
func (n newer) yield(mine string, old zkrec.Spec) error {
	if order, ok := zkrec.CompareVersions(old.DeclaredVersion, mine); ok && order > 0 {
		return fmt.Errorf("%w: it was declared by %s, this one is version %s", ErrNewer, old.DeclaredBy, mine)
	}
	for _, i := range n {
		if _, found := slices.BinarySearch(i.handlers, old.Job.HandlerName()); found {
			return fmt.Errorf("%w: %s is version %s, this one %s", ErrNewer, i.sid, i.version, mine)
		}
	}
	return nil
}
