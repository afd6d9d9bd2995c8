package member

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// ErrNewer is returned when a job is left as a newer version of the program has it.
var ErrNewer = errors.New("a newer version of the program decides on the job")

// newer knows which handlers live instances of newer versions of this program have. In the middle of a deploy an
// older instance may restart; what it declares is what they have replaced. A record says only who declared it
// first: the version of a live instance may be newer than that. Programs of a group that have nothing to
// do with each other have other handlers.
type newer struct {
	version  string              // of this program; empty: it cannot tell
	versions map[string]string   // by id, of live instances whose version is newer
	handlers map[string][]string // by id
}

// readNewer reads which live instances have a newer version. Their handlers are known if they publish them.
func (e *Entry) readNewer(ctx context.Context) (n newer, err error) {
	n = newer{version: e.cfg.Instance.Program, versions: make(map[string]string), handlers: make(map[string][]string)}
	if n.version == "" {
		return n, nil
	}
	sids, _, err := e.loop.Conn.Children(ctx, e.loop.Tree.Instances())
	if err != nil {
		return n, err
	}
	lists := make(map[string][]string) // by hash
	for _, i := range readInstances(ctx, e.loop, sids, e.loop.Conn.Get) {
		if zkconn.IsUnknown(i.err) {
			return n, i.err
		}
		if order, ok := zkrec.CompareVersions(i.Program, n.version); i.err != nil || !ok || order <= 0 {
			continue
		}
		n.versions[i.sid] = i.Program
		if _, known := lists[i.Handlers]; !known && i.Handlers != "" {
			data, _, err := e.loop.Conn.Get(ctx, e.loop.Tree.HandlerList(i.Handlers))
			if zkconn.IsUnknown(err) {
				return n, err
			}
			lists[i.Handlers], _ = zkrec.ParseHandlers(i.Handlers, data) // of what cannot be read, nothing is known
		}
		n.handlers[i.sid] = lists[i.Handlers]
	}
	return n, nil
}

// decides returns an ErrNewer if a newer version has declared the job that stands as old, or a live instance of a newer
// version has its handler.
func (n newer) decides(old zkrec.Spec) error {
	if order, ok := zkrec.CompareVersions(old.DeclaredVersion, n.version); ok && order > 0 {
		return fmt.Errorf("%w: it was declared by %s, this one is version %s", ErrNewer, old.DeclaredBy, n.version)
	}
	handler := old.Job.HandlerName()
	for sid, version := range n.versions {
		if _, found := slices.BinarySearch(n.handlers[sid], handler); found {
			return fmt.Errorf("%w: %s is version %s, this one %s", ErrNewer, sid, version, n.version)
		}
	}
	return nil
}
