package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/internal/deeds"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Loss is what is lost when an unreadable record is replaced.
type Loss string

// The losses.
const (
	// LossTicks: how far ticks are accounted for, and the last run. Ticks before the repair that were
	// not run stay so; a run that is open is not recorded.
	LossTicks Loss = "ticks"
	// LossHistory: the history of the job, or shard.
	LossHistory Loss = "history"
	// LossCompletion: which ticks all shards are done with. Those up to the repair are not reported to
	// Hooks.OnTickComplete any more.
	LossCompletion Loss = "completion"
	// LossSpec: the job itself. Repair cannot write it: submit the job again with Replace.
	LossSpec Loss = "spec"
	// LossPause: whether the job is paused. It is not any more.
	LossPause Loss = "pause"
)

// UnreadableNode is a node of a job that cannot be read, which makes the job invalid.
type UnreadableNode struct {
	Path  string `json:"path"`
	Job   string `json:"job"` // or the shard, such as "report[3]"
	Loss  Loss   `json:"lost"`
	Error string `json:"error"` // why it cannot be read
	// Newer reports that a newer version wrote the node: upgrade this one rather than repair the job.
	Newer bool `json:"newer"`

	job     int64 // the transaction that has created the job
	version int32 // of the node as it was read
	write   []byte
}

func (n UnreadableNode) reason() reason.Reason {
	code := reason.Unreadable
	if n.Newer {
		code = reason.NewerVersion
	}
	return reason.Reason{Code: code, Error: n.Path + " cannot be read: " + n.Error}
}

// Unreadable lists the nodes of a job that cannot be read; empty if it needs no repair. Errors:
// *invalid.FieldError for the name, ErrNotFound, ErrDenied, ErrUnavailable.
func (c *Client) Unreadable(ctx context.Context, name string) ([]UnreadableNode, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return retried(ctx, c.conn, fmt.Sprintf("job %q", name), func() ([]UnreadableNode, error) { return c.unreadable(ctx, name) })
}

// Repair atomically replaces the nodes that Unreadable listed with fresh ones, so that instances
// can run the job again. Owners notice within a sync period, or with the job's next change.
// ErrConflict is returned when a node has changed since; ErrUnreadable, and nothing is written,
// when the job's spec is among the nodes: submit the job again with Replace, then repair the rest.
// Further errors: ErrDenied, ErrUnavailable.
func (c *Client) Repair(ctx context.Context, name string, nodes []UnreadableNode) error {
	var ops []zkconn.Op
	for _, n := range nodes {
		if n.Loss == LossSpec {
			return fmt.Errorf("repair %s: %w: %s", name, ErrUnreadable, n.Error)
		}
		ops = append(ops, zkconn.SetOp(n.Path, n.write, n.version))
	}
	if len(ops) == 0 {
		return nil
	}
	deed := c.deed(ctx, zkrec.DeedRepair, Who{}, name)
	err := c.conn.Retry(ctx, func() error {
		_, err := deeds.Write(ctx, c.conn, c.tree, deed, ops, func(ops []zkconn.Op) ([]zkconn.Stat, error) {
			return c.conn.MultiOn(ctx, c.tree.Job(name), nodes[0].job, ops...)
		})
		if moved(err) {
			return c.repaired(ctx, nodes) // perhaps by an earlier try, whose answer was lost
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("repair %s: %w", name, uncertain(err, true))
	}
	return nil
}

// repaired returns ErrConflict unless every node holds what the repair wants to write.
func (w writer) repaired(ctx context.Context, nodes []UnreadableNode) error {
	for _, n := range nodes {
		data, stat, err := w.rd.conn.Get(ctx, n.Path)
		switch {
		case errors.Is(err, zkconn.ErrNoNode):
			return ErrConflict
		case err != nil:
			return err
		case stat.Version != n.version+1 || string(data) != string(n.write):
			return ErrConflict
		}
	}
	return nil
}

func (o observer) unreadable(ctx context.Context, name string) ([]UnreadableNode, error) {
	read, err := o.readJob(ctx, name)
	if err != nil {
		return nil, err
	}
	nodes, err := o.unreadableIn(ctx, name, read)
	for i := range nodes {
		nodes[i].job = read.stat.Czxid
	}
	return nodes, err
}

func (o observer) unreadableIn(ctx context.Context, name string, read records) ([]UnreadableNode, error) {
	of := read.parse()
	if of.isUnreadable() {
		spec := UnreadableNode{
			Path: o.tree.Job(name), Job: name, Loss: LossSpec, Error: of.err.Error(), version: read.stat.Version,
		}
		spec.Newer = errors.As(of.err, new(*zkrec.SchemaError))
		return []UnreadableNode{spec}, nil // without it nobody knows which nodes belong to the job
	}
	var nodes []UnreadableNode
	if err := of.turnedErr; err != nil {
		nodes = append(nodes, UnreadableNode{
			Path: read.register.path, Job: name, Loss: LossPause, Error: errors.Unwrap(err).Error(),
			Newer: errors.As(err, new(*zkrec.SchemaError)), version: read.register.stat.Version,
		})
	}
	slots, err := o.slots(ctx, name, of)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, slot := range slots {
		paths = append(append(paths, o.tree.Tick(slot)), o.tree.HistoryPages(slot)...)
	}
	results := o.conn.ReadMany(ctx, zkconn.ReadsOf(append(paths, o.tree.Shards(name))...))
	var latest int64
	for _, slot := range slots {
		found, mark, err := o.unreadableOf(slot, results[:1+zkrec.HistoryPages])
		if err != nil {
			return nil, err
		}
		nodes, latest, results = append(nodes, found...), max(latest, mark), results[1+zkrec.HistoryPages:]
	}
	if slots[0] == name || of.spec.Job.Everywhere {
		return nodes, nil
	}
	complete, err := checked(results[0], UnreadableNode{
		Path: o.tree.Shards(name), Job: name, Loss: LossCompletion, write: zkrec.Complete{Tick: latest}.Encode(),
	}, func(data []byte) error {
		_, err := zkrec.ParseComplete(data)
		return err
	})
	return append(nodes, complete...), err
}

// unreadableOf checks the nodes of a slot, and returns its watermark, if that can be read.
func (o observer) unreadableOf(slot string, results []zkconn.ReadResult) (nodes []UnreadableNode, mark int64, err error) {
	var at zkrec.Mark
	// An empty tick record accounts for all ticks before it was written, on ZooKeeper's clock.
	nodes, err = checked(results[0], UnreadableNode{Path: o.tree.Tick(slot), Job: slot, Loss: LossTicks}, func(data []byte) error {
		record, err := zkrec.ParseTick(data, results[0].Stat.Mtime)
		mark, at = record.Watermark, record.History
		return err
	})
	pages := make([][]byte, zkrec.HistoryPages)
	for i, path := range o.tree.HistoryPages(slot) {
		if err != nil {
			return nil, 0, err
		}
		var page []UnreadableNode
		page, err = checked(results[1+i], UnreadableNode{
			Path: path, Job: slot, Loss: LossHistory, write: zkrec.Emptied(at),
		}, func(data []byte) error {
			pages[i] = data
			_, err := zkrec.ParseHistory(pages) // with those before it
			return err
		})
		if nodes = append(nodes, page...); len(page) > 0 {
			pages[i] = nil
		}
	}
	return nodes, mark, err
}

// checked returns n if its data cannot be read. A node that does not exist is created by the
// instance that runs the job.
func checked(r zkconn.ReadResult, n UnreadableNode, parse func(data []byte) error) ([]UnreadableNode, error) {
	if errors.Is(r.Err, zkconn.ErrNoNode) {
		return nil, nil
	}
	if r.Err != nil {
		return nil, r.Err
	}
	err := parse(r.Data)
	if err == nil {
		return nil, nil
	}
	n.Error, n.Newer, n.version = err.Error(), errors.As(err, new(*zkrec.SchemaError)), r.Stat.Version
	return []UnreadableNode{n}, nil
}
