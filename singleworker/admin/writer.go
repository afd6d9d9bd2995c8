package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"

	"github.com/swjobs/singleworker/singleworker/internal/deeds"
	"github.com/swjobs/singleworker/singleworker/internal/deletion"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// writer makes transactions that are refused if the records that they follow from have changed,
// each with its entry in the log of actions.
type writer struct {
	rd   reader
	from string // as Config.From; "" is Self, which only a change looks up
}

// Who says who changes something and why, for the log that Client.Log reads. Characters
// that cannot be printed are replaced, and a text that is too long for an entry is cut.
type Who struct {
	By     string // Default: Config.From
	Reason string
}

type whoKey struct{}

// As returns a context for calls of a Client that somebody asked for. By and Reason in the options
// of a call count more.
func As(ctx context.Context, who Who) context.Context { return context.WithValue(ctx, whoKey{}, who) }

// Self is user@host of this process, as far as the system knows.
func Self() string {
	name, host := "unknown", "unknown"
	if current, err := user.Current(); err == nil {
		name = current.Username
	}
	if this, err := os.Hostname(); err == nil {
		host = this
	}
	return name + "@" + host
}

// deed is the log's entry of a change. Who made it and why is in the options of the call, or in
// ctx.
func (w writer) deed(ctx context.Context, kind string, who Who, jobs ...string) zkrec.Deed {
	caller, _ := ctx.Value(whoKey{}).(Who)
	from := w.from
	if from == "" {
		from = Self()
	}
	return zkrec.Deed{
		Kind: kind, Jobs: jobs, From: from,
		By: cmp.Or(who.By, caller.By), Reason: cmp.Or(who.Reason, caller.Reason),
	}
}

// multi applies ops and notes the deed.
func (w writer) multi(ctx context.Context, d zkrec.Deed, ops ...zkconn.Op) ([]zkconn.Stat, error) {
	return deeds.Write(ctx, w.rd.conn, w.rd.tree, d, ops, func(ops []zkconn.Op) ([]zkconn.Stat, error) { return w.rd.conn.Multi(ctx, ops...) })
}

// maxConflicts is how often a write is retried because of concurrent changes.
const maxConflicts = 10

// moved reports whether a write was refused because of a concurrent change.
func moved(err error) bool {
	return errors.Is(err, zkconn.ErrBadVersion) || errors.Is(err, zkconn.ErrNoNode) ||
		errors.Is(err, zkconn.ErrNodeExists)
}

// persist repeats f, which reads and makes one guarded write, while others are faster and until
// a server has answered.
func (w writer) persist(ctx context.Context, f func() error) error {
	return w.rd.conn.Retry(ctx, func() error {
		for range maxConflicts {
			if err := f(); !moved(err) {
				return err
			}
		}
		return ErrConflict
	})
}

// uncertain adds to an error that a change may have been made without a reply.
func uncertain(err error, sent bool) error {
	if sent && (errors.Is(err, ErrUnavailable) || errors.Is(err, zkconn.ErrClosed)) {
		return fmt.Errorf("%w; the change may have been made nevertheless", err)
	}
	return err
}

// target is a job that is there, and that a change is for, over its tries. A job that was submitted
// under its name since a try whose outcome is not known is another one: what was asked for may have
// been done, and then gone with the first.
type target struct {
	wrote bool        // a write was sent whose outcome is not known
	czxid int64       // of the job to which it was sent; 0 of one to be created
	notes []zkconn.Op // which the next write makes as well, see deeds.Write
}

// write applies ops to the job that was read, notes the deed, and tells those who must look. parent
// is one of read.proofs.
func (t *target) write(
	ctx context.Context, w writer, read records, parent string, d zkrec.Deed, of []signals.Signal, ops ...zkconn.Op,
) ([]zkconn.Stat, error) {
	t.wrote, t.czxid = true, read.stat.Czxid
	on := zkconn.On{Path: w.rd.tree.Job(read.slot), Czxid: read.stat.Czxid, Below: parent}
	return deeds.Write(ctx, w.rd.conn, w.rd.tree, d, ops, func(ops []zkconn.Op) ([]zkconn.Stat, error) {
		return signals.MultiOnAll(ctx, w.rd.conn, []zkconn.On{on}, of, ops...)
	}, t.notes...)
}

// next numbers the change of the job that was read, and notes it with the next write.
func (t *target) next(ctx context.Context, w writer, read records, d zkrec.Deed) (number int32, err error) {
	number, note, err := deeds.Version(ctx, w.rd.conn, w.rd.tree, read.slot, read.spec, read.stat.Ctime, d)
	if errors.As(err, new(*zkrec.SchemaError)) {
		err = fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	t.notes = []zkconn.Op{note}
	return number, err
}

// proofs is the node of a job below which those who may make the change may create nodes: its own,
// if that is rewritten or there is no switch.
func (r records) proofs(tree zkrec.Tree, rewritten bool) string {
	if r.register.here && !rewritten {
		return r.register.path
	}
	return tree.Job(r.slot)
}

// check returns ErrConflict if the job, as read now, is another one.
func (t *target) check(stat zkconn.Stat) error {
	if t.czxid != 0 && t.czxid != stat.Czxid {
		return fmt.Errorf("%w: the job was canceled, and another one has its name", ErrConflict)
	}
	return nil
}

// newNodes creates a job, or a shard, with all its nodes.
func newNodes(nodes []zkrec.Node) []zkconn.Op {
	var ops []zkconn.Op
	for _, node := range nodes {
		ops = append(ops, zkconn.CreateOp(node.Path, node.Data))
	}
	return ops
}

// deletion is one Cancel over its tries. czxid is the transaction that created the job's node, or
// 0.
func (w writer) deletion(name string, czxid int64, d zkrec.Deed) *deletion.Deletion {
	return &deletion.Deletion{Conn: w.rd.conn, Tree: w.rd.tree, Job: name, Czxid: czxid, Deed: d}
}

// deleted is the error of a deletion as this package returns it.
func deleted(err error) error {
	if errors.Is(err, deletion.ErrConflict) || errors.Is(err, deletion.ErrChanged) {
		return ErrConflict
	}
	return err
}
