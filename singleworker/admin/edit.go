package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// maxConflicts is how often a job may change under a change of it.
const maxConflicts = 10

// moved reports whether a write was refused because somebody else was faster.
func moved(err error) bool {
	return errors.Is(err, zkconn.ErrBadVersion) || errors.Is(err, zkconn.ErrNoNode) ||
		errors.Is(err, zkconn.ErrNodeExists)
}

// persist repeats f, which reads and makes one guarded write, while others are
// faster.
func persist(f func() error) error {
	for range maxConflicts {
		if err := f(); !moved(err) {
			return err
		}
	}
	return ErrConflict
}

// edit changes the record of a job that exists, over its tries.
type edit struct {
	client *Client
	name   string
	// change makes of the record, last written at mtime, what it should be.
	change func(old zkrec.Spec, mtime time.Time) (zkrec.Spec, error)
	dryRun bool

	wrote   bool // a write was sent whose outcome is not known
	changed bool // the record is not as it was
	before  Job
	after   Job
	spec    zkrec.Spec // after
	through time.Time  // up to which ticks were accounted for before the change
}

func (e *edit) run(ctx context.Context) error {
	if err := zkrec.CheckJobName(e.name); err != nil {
		return &InvalidError{"Name", e.name, err}
	}
	err := e.client.conn.Retry(ctx, func() error {
		return persist(func() error { return e.once(ctx) })
	})
	return uncertain(err, e.wrote)
}

func (e *edit) once(ctx context.Context) error {
	conn, path := e.client.conn, e.client.tree.Job(e.name)
	data, stat, err := conn.Get(ctx, path)
	if errors.Is(err, zkconn.ErrNoNode) {
		return ErrNotFound
	}
	if err != nil {
		return err
	}
	old, err := zkrec.ParseSpec(data)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	case old.Canceled:
		return ErrNotFound
	}
	spec, err := e.change(old, stat.Mtime)
	if err != nil {
		return err
	}
	record := spec.Encode()
	if e.wrote && bytes.Equal(record, data) {
		return nil // an earlier try was applied after all
	}
	if err := checkSize(jobOf(e.name, spec), spec.CheckSize()); err != nil {
		return err
	}
	read, err := zkrec.ParseSpec(record)
	if err != nil {
		return fmt.Errorf("what was to be written cannot be read: %w", err) // not reached: it was checked
	}
	e.spec, e.before, e.after = spec, jobOf(e.name, old), jobOf(e.name, read)
	e.changed = !bytes.Equal(record, old.Encode())
	if !e.changed || e.dryRun {
		return nil
	}
	if !e.wrote {
		was, err := e.client.read(ctx, e.name)
		if err != nil {
			return err
		}
		e.through = was.status(nil, time.Now()).Watermark
	}
	e.wrote = true
	_, err = conn.Multi(ctx, zkconn.SetOp(path, record, stat.Version))
	return err
}
