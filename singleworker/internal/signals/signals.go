// Package signals tells those who must look of a change, by a node that the same transaction sets.
//
// A watch on each record tells of everything, and costs the server one for each record and
// instance. For records that seldom change, only a few nodes are watched instead, each for many
// records: who changes one of these sets that node as well, whatever its version, with the name of
// the changed record. So the event, and the node's data, come no later than the change can be read.
//
// The jobs are divided among 64 signals. An instance that hears of one reads it and watches it
// again. If its version is the next one and it names a job, that job alone is read; if a version
// was skipped, all jobs of the signal are, in bulk, where a spec of a known version is not parsed
// again. While many jobs change at once that happens all the time, so after the first reading of
// all of them the next one comes a sync period later. Signals are read before the jobs, when an
// instance joins and after each reconnect, so that no change falls between.
//
// Requests set _asked/{incarnation} of the slot's owner and of its first deputy, with the slot's
// name, so that two instances read them. The client works out the first deputy (package
// preference), and may be wrong about an instance that has just joined, or has no room. A new
// owner reads the requests when it has the slot, as does an instance that becomes the first
// deputy. Otherwise a request that a dead owner alone knows of waits until the slot changes hands,
// or the first deputy reads all such requests, within 60 sync periods.
//
// A signal that may not be set, or made, is left out of the transaction, and one that may not be
// read has its jobs read once in a sync period. The owner finds an unsignaled change at its next
// claim, a deputy when it would relieve the owner, and each instance within 60 sync periods. Of a
// job that is deleted and made again manually at once, with a spec of the same version, the watch
// on its owner record reports.
package signals

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Signal is a node that is set to tell of a change.
type Signal struct {
	Path  string
	About string // what has changed
	// Make has the node be made if it does not exist. Otherwise nobody listens then.
	Make bool
}

// OfJob is the signal that a job's own node has changed, or is gone.
func OfJob(tree zkrec.Tree, job string) []Signal {
	return []Signal{{Path: tree.Signal(zkrec.SignalOf(job)), About: job, Make: true}}
}

// OfJobs is the signals of several jobs. One that is of several of them names none.
func OfJobs(tree zkrec.Tree, jobs []string) (of []Signal) {
	for _, job := range jobs {
		one := OfJob(tree, job)
		if at := slices.IndexFunc(of, func(s Signal) bool { return s.Path == one[0].Path }); at >= 0 {
			of[at].About = ""
		} else {
			of = append(of, one...)
		}
	}
	return of
}

// maxNames is how many slots are named at most; all are read if there are more.
const maxNames = 16

// OfRequests is the signals that something was asked of slots, by the incarnations that are to
// look.
func OfRequests(tree zkrec.Tree, slots map[string][]string) (of []Signal) {
	for _, incarnation := range slices.Sorted(maps.Keys(slots)) {
		s := Signal{Path: tree.AskedOf(incarnation)}
		if names := slots[incarnation]; len(names) <= maxNames {
			s.About = strings.Join(names, "\n")
		}
		of = append(of, s)
	}
	return of
}

// Slots is the slots that a signal of requests names; nil if it may be any.
func Slots(about string) []string {
	if about == "" {
		return nil
	}
	return strings.Split(about, "\n")
}

// Multi is zkconn.Conn.Multi together with signals. The change does not depend on them: a signal
// that cannot be given is left out, and who listens finds the change when it looks without having
// been told.
func Multi(ctx context.Context, conn *zkconn.Conn, of []Signal, ops ...zkconn.Op) ([]zkconn.Stat, error) {
	return write(ctx, conn, of, ops, func(ops []zkconn.Op) ([]zkconn.Stat, error) { return conn.Multi(ctx, ops...) })
}

// MultiOnAll is zkconn.Conn.MultiOnAll in the same way.
func MultiOnAll(ctx context.Context, conn *zkconn.Conn, on []zkconn.On, of []Signal, ops ...zkconn.Op) ([]zkconn.Stat, error) {
	return write(ctx, conn, of, ops, func(ops []zkconn.Op) ([]zkconn.Stat, error) { return conn.MultiOnAll(ctx, on, ops...) })
}

// MultiOn is zkconn.Conn.MultiOn in the same way.
func MultiOn(
	ctx context.Context, conn *zkconn.Conn, path string, czxid int64, of []Signal, ops ...zkconn.Op,
) ([]zkconn.Stat, error) {
	return write(ctx, conn, of, ops, func(ops []zkconn.Op) ([]zkconn.Stat, error) { return conn.MultiOn(ctx, path, czxid, ops...) })
}

func write(
	ctx context.Context, conn *zkconn.Conn, of []Signal, ops []zkconn.Op, send func(ops []zkconn.Op) ([]zkconn.Stat, error),
) ([]zkconn.Stat, error) {
	for of = slices.Clone(of); ; {
		all := slices.Clone(ops)
		for _, s := range of { // last: if one is refused, nothing else is
			all = append(all, zkconn.SetOp(s.Path, []byte(s.About), zkconn.AnyVersion))
		}
		stats, err := send(all)
		at := refused(err, of)
		switch {
		case err == nil:
			return stats[:len(ops)], nil
		case at < 0:
			return nil, err
		}
		if s := &of[at]; s.Make && errors.Is(err, zkconn.ErrNoNode) {
			s.Make = false // once
			if err := conn.EnsureRoot(ctx, s.Path); zkconn.IsUnknown(err) {
				return nil, err
			} else if err == nil {
				continue
			}
		}
		of = slices.Delete(of, at, at+1)
	}
}

// refused is the index of the signal that has had a transaction refused, or -1.
func refused(err error, of []Signal) int {
	failed := (*zkconn.OpError)(nil)
	if !errors.As(err, new(*zkconn.MultiError)) || !errors.As(err, &failed) {
		return -1
	}
	return slices.IndexFunc(of, func(s Signal) bool { return s.Path == failed.Path })
}

// Prepare makes the signals of jobs that do not exist, the parent of the signals of requests, and
// the node of the group's freeze, which is its own signal. One that cannot be made is left to those
// who need it.
func Prepare(ctx context.Context, conn *zkconn.Conn, tree zkrec.Tree) error {
	for _, root := range []string{tree.Asked(), tree.Freeze(), tree.Changes()} {
		if err := conn.EnsureRoot(ctx, root); err != nil {
			return err
		}
	}
	for {
		names, _, err := conn.Children(ctx, tree.Changes())
		var ops []zkconn.Op
		for n := range zkrec.Signals {
			if path := tree.Signal(n); !slices.Contains(names, path[len(tree.Changes())+1:]) {
				ops = append(ops, zkconn.CreateOp(path, nil))
			}
		}
		if err == nil && len(ops) > 0 {
			_, err = conn.Multi(ctx, ops...)
		}
		switch {
		case errors.Is(err, zkconn.ErrNodeExists): // another instance was faster
		case zkconn.IsUnknown(err):
			return err
		default:
			return nil
		}
	}
}
