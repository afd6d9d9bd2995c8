package deletion

import (
	"context"
	"errors"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/deeds"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// ErrConflict is returned when the job's nodes change faster than they are deleted.
var ErrConflict = errors.New("job changes at the same time")

// ErrChanged is returned when the job's spec has another version than it was seen with.
var ErrChanged = errors.New("job was changed since it was read")

// errAnother is why nothing is deleted: the job is gone, and another one has its name.
var errAnother = errors.New("another job has the name")

// Deletion is the deletion of one job, over its tries. It does not delete another job that is
// submitted under the same name meanwhile.
type Deletion struct {
	Conn  *zkconn.Conn
	Tree  zkrec.Tree
	Job   string
	Czxid int64 // of the job's node; 0 means that of the first reading
	// Version is the one in which the job's node was seen: in another the job is left alone, with
	// ErrChanged, unless its deletion has begun. Nil deletes it as it is.
	Version *int32
	// Same checks that the job has not changed: otherwise it is left alone, with zkconn.ErrBadVersion.
	// Nil deletes it as it is.
	Same []zkconn.Op
	// Deed is noted by the transaction that ends the job, which also creates the remains if the Kind
	// is zkrec.DeedCancel. Without a Kind there is nothing to note.
	Deed zkrec.Deed
}

// maxConflicts is how often a deletion is tried again because of concurrent changes.
const maxConflicts = 10

// Run deletes all nodes of the job, in one transaction if they fit in one. Otherwise the job is
// marked as canceled first, which ends it; if the rest is interrupted, another deletion completes
// it. The deed and the remains belong to the transaction that ends the job. They are written once,
// whatever happens after it, and all of the job is still there to be kept.
func (d *Deletion) Run(ctx context.Context) error {
	for conflicts := 0; conflicts < maxConflicts; conflicts++ {
		again, err := d.once(ctx)
		switch {
		case again && err == nil:
			conflicts = -1 // it made progress
		case errors.Is(err, errAnother):
			return nil
		case errors.Is(err, zkconn.ErrBadVersion) && len(d.Same) > 0:
			return err
		case !concurrent(err):
			return err
		}
	}
	return ErrConflict
}

// concurrent reports whether a write was refused because of a concurrent change.
func concurrent(err error) bool {
	return errors.Is(err, zkconn.ErrBadVersion) || errors.Is(err, zkconn.ErrNoNode) ||
		errors.Is(err, zkconn.ErrNodeExists) || errors.Is(err, zkconn.ErrNotEmpty)
}

// once deletes the job's nodes as just listed, children first: all of them if
// they fit in one transaction, else those that do, of a job that is Canceled. It
// reports whether some are left.
func (d *Deletion) once(ctx context.Context) (again bool, err error) {
	path := d.Tree.Job(d.Job)
	read := d.Conn.ReadMany(ctx, zkconn.ReadsOf(path, d.Tree.Tick(d.Job)))
	data, stat, err := read[0].Data, read[0].Stat, read[0].Err
	switch {
	case errors.Is(err, zkconn.ErrNoNode):
		return false, nil
	case err != nil:
		return false, err
	case d.Czxid != 0 && d.Czxid != stat.Czxid:
		return false, errAnother
	}
	d.Czxid = stat.Czxid
	spec, _ := zkrec.ParseSpec(d.Job, data) // an unreadable spec is replaced by one that only says canceled
	if d.Version != nil && *d.Version != stat.Version && !spec.Canceled {
		return false, ErrChanged // the transaction checks the version, too
	}
	var kept remains
	if d.Deed.Kind == zkrec.DeedCancel && !spec.Canceled {
		if kept, err = d.keep(ctx, data, stat, spec); err != nil {
			return false, err
		}
	}
	paths, err := Below(ctx, d.Conn, path)
	if err != nil || len(paths) == 0 {
		return false, err
	}
	held, err := d.places(ctx, paths, read[1], len(spec.Job.Limits) > 0)
	if err != nil {
		return false, err
	}
	var ops []zkconn.Op
	if spec.Canceled { // by halves, nothing else is deleted
		ops = append(ops, zkconn.CheckOp(path, stat.Version))
	} else {
		ops = append(ops, d.Same...)
	}
	for _, path := range paths {
		ops = append(ops, held.remove(path, kept.version(path))...)
	}
	n := held.whole(ops, Fitting(d.Conn, slices.Concat(kept.ops, ops))-len(kept.ops))
	if n < len(ops) && !spec.Canceled {
		spec.Canceled = true
		ops = append(slices.Clone(d.Same), zkconn.SetOp(path, spec.Encode(), stat.Version))
		return true, d.write(ctx, d.Deed, signals.OfJob(d.Tree, d.Job), ops, kept)
	}
	var of []signals.Signal
	if n == len(ops) {
		of = signals.OfJob(d.Tree, d.Job)
	}
	deed := d.Deed
	if spec.Canceled {
		deed = zkrec.Deed{} // it was noted then
	}
	return n < len(ops), d.write(ctx, deed, of, ops[:n], kept)
}

// write applies ops to the job that was read, notes the deed, and tells those who must look.
func (d *Deletion) write(ctx context.Context, deed zkrec.Deed, of []signals.Signal, ops []zkconn.Op, kept remains) error {
	_, err := deeds.Write(ctx, d.Conn, d.Tree, deed, ops, func(ops []zkconn.Op) ([]zkconn.Stat, error) {
		return signals.MultiOn(ctx, d.Conn, d.Tree.Job(d.Job), d.Czxid, of, ops...)
	}, kept.ops...)
	return err
}

// readers is how many nodes are listed at the same time.
const readers = 16

// Below lists path and everything under it, children before parents; nothing
// if the node does not exist.
func Below(ctx context.Context, conn *zkconn.Conn, path string) ([]string, error) {
	children, _, err := conn.Children(ctx, path)
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	under := make([][]string, len(children))
	err = task.Each(ctx, readers, children, func(ctx context.Context, i int, child string) (err error) {
		under[i], err = Below(ctx, conn, path+"/"+child)
		return err
	})
	return append(slices.Concat(under...), path), err
}

// MaxTransaction is how many bytes one transaction may take: the server hangs up
// on a frame of more than 1 MB.
const MaxTransaction = 900_000

// Fitting counts how many of the operations fit in one transaction.
func Fitting(conn *zkconn.Conn, ops []zkconn.Op) int {
	bytes := 0
	for n, op := range ops {
		if bytes += conn.Size(op); bytes > MaxTransaction {
			return n
		}
	}
	return len(ops)
}
