package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// maxLogged is how much of a replaced record is logged, in bytes.
const maxLogged = 1 << 10

// Declare writes the jobs that the application's code declares. It is for an instance that has appeared:
// one that is refused must not bring back what was canceled or changed since.
func (e *Entry) Declare(ctx context.Context) error {
	errs := make([]error, len(e.cfg.Declarations))
	e.loop.Together(ctx, len(errs), func(ctx context.Context, i int) {
		d := e.cfg.Declarations[i]
		switch found, err := e.declare(ctx, d); {
		case err == nil:
		case found && !zkconn.IsUnknown(err):
			// Written by a newer version of the application, whose instances run it; or a node that may not
			// be read, or not be written, which concerns this job alone.
			e.loop.Log.Error("declaration ignored", "job", d.Job, "path", e.loop.Tree.Job(d.Job), "err", err)
		default:
			errs[i] = fmt.Errorf("declare job %q: %w", d.Job, err)
		}
	})
	return errors.Join(errs...)
}

// declare writes a job that the application's code declares. A job that exists is replaced only if it
// is not based on this same declaration: an operator's change on top of it stays until the code says
// something else. found reports whether the job existed, in which case an error is that of its node alone.
func (e *Entry) declare(ctx context.Context, d Declaration) (found bool, err error) {
	spec := d.Spec
	spec.Declared, spec.DeclaredBy, spec.DeclaredAt = spec.Fingerprint(), e.declarer(), time.Now().UnixMilli()
	for {
		data, stat, err := e.loop.Conn.Get(ctx, e.loop.Tree.Job(d.Job))
		if errors.Is(err, zkconn.ErrNoNode) {
			var ops []zkconn.Op
			for _, node := range e.loop.Tree.NewJob(d.Job, spec) {
				ops = append(ops, zkconn.CreateOp(node.Path, node.Data))
			}
			_, err = e.loop.Conn.Multi(ctx, ops...)
			if errors.Is(err, zkconn.ErrNodeExists) {
				continue // another instance was faster
			}
			if err == nil {
				e.loop.Log.Info("job declared", "job", d.Job, "schedule", spec.Job.Schedule)
			}
			return false, err
		}
		if err != nil {
			return true, err
		}
		old, err := zkrec.ParseSpec(d.Job, data)
		switch {
		case errors.As(err, new(*zkrec.SchemaError)):
			return true, err // an older version must not replace what a newer one wrote
		case err == nil && old.Declared == spec.Declared:
			return true, nil
		}
		replaced := spec.Over(old.WrittenAt(stat.Mtime))
		if err := replaced.CheckSize(); err != nil {
			return true, fmt.Errorf("together with its former schedule and shards it %w", err)
		}
		_, err = e.loop.Conn.Multi(ctx, zkconn.SetOp(e.loop.Tree.Job(d.Job), replaced.Encode(), stat.Version))
		if errors.Is(err, zkconn.ErrBadVersion) || errors.Is(err, zkconn.ErrNoNode) {
			continue
		}
		if err == nil {
			// A rolling deploy does this once; an instance of an older version that starts again does it
			// in the wrong direction.
			e.loop.Log.Warn("declaration replaced the job's record", "job", d.Job, "schedule", spec.Job.Schedule,
				"was", string(data[:min(len(data), maxLogged)]), "was_declared_by", old.DeclaredBy, "operators_change_lost", old.Overridden())
		}
		return true, err
	}
}

// declarer says who declares: "app-1 (v1.4.0)".
func (e *Entry) declarer() string {
	if version := e.cfg.Instance.Version; version != "" {
		return fmt.Sprintf("%s (%s)", e.cfg.ID, version)
	}
	return e.cfg.ID
}
