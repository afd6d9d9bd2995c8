package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// CanceledError is the ErrNotFound of a job that was canceled, and can be undeleted. That is known
// for 7 days, of the last 10,000 jobs.
type CanceledError struct {
	Name             string
	At               time.Time // on ZooKeeper's clock
	By, From, Reason string    // as of the LogEntry
}

func (e *CanceledError) Error() string {
	text := fmt.Sprintf("%v: canceled by %s at %s", ErrNotFound, e.By, e.At.Format(time.RFC3339))
	if e.Reason != "" {
		text += ", " + e.Reason
	}
	return text
}

func (e *CanceledError) Unwrap() error { return ErrNotFound }

// remains are left of a canceled job.
type remains struct {
	record zkrec.Canceled
	at     time.Time
	paths  []string // its nodes; the second, if there is one, is a zkrec.Past
}

// canceled reads the remains of the job of that name that was canceled last. They have no paths if
// there are none.
func (rd reader) canceled(ctx context.Context, name string) (kept remains, err error) {
	names, err := rd.children(ctx, rd.tree.Canceled())
	if err != nil {
		return remains{}, err
	}
	var last, past zkrec.CanceledName
	paths := make(map[zkrec.CanceledName]string)
	for _, node := range names {
		n, ok := zkrec.ParseCanceledName(node)
		if !ok || n.Job != name {
			continue
		}
		switch paths[n] = rd.tree.Canceled() + "/" + node; {
		case n.Past && n.Number >= past.Number:
			past = n
		case !n.Past && n.Number >= last.Number:
			last = n
		}
	}
	if paths[last] == "" {
		return remains{}, nil
	}
	data, stat, err := rd.conn.Get(ctx, paths[last])
	if errors.Is(err, zkconn.ErrNoNode) {
		return remains{}, nil // no longer
	}
	if err == nil {
		kept.record, err = zkrec.ParseCanceled(data)
	}
	kept.at, kept.paths = zkrec.UTC(stat.Ctime), []string{paths[last]}
	if past.Czxid == last.Czxid {
		kept.paths = append(kept.paths, paths[past])
	}
	return kept, err
}

// gone is why a job is not there: a *CanceledError if that is known.
func (rd reader) gone(ctx context.Context, name string) error {
	kept, err := rd.canceled(ctx, name)
	switch {
	case zkconn.IsUnknown(err):
		return err
	case err != nil || kept.paths == nil:
		return ErrNotFound
	}
	d, _ := zkrec.ParseDeed(kept.record.Deed)
	return &CanceledError{name, kept.at, d.By, d.From, d.Reason}
}

// UndeleteOptions change Undelete. The zero value brings the job back under its name.
type UndeleteOptions struct {
	As string // the name that the job gets. Default: its own
}

// Undelete brings back the job of that name that was canceled last, if that was not longer than 7
// days ago, with its history and its pause. Its ticks begin when ZooKeeper has accepted it: those
// of before, and of the time between, are not run. A run that was in progress when it was canceled
// is in its history as lost. A job with shards, or that runs on every instance, begins without
// history, as does one after which 1,000 others were canceled. Under another name it has the
// handler of before, and is no longer a job that is declared in code. The Outcome is
// OutcomeUndeleted. Errors: *invalid.FieldError for a name, or for a calendar or a limit that is
// not there, ErrNotFound if nothing is kept of such a job, ErrExists if the name is used again,
// ErrUnreadable, ErrConflict, ErrFull, ErrDenied, ErrUnavailable.
func (c *Client) Undelete(ctx context.Context, name string, opts UndeleteOptions) (Change, error) {
	u := undeletion{ed: c.editor, name: name, as: cmp.Or(opts.As, name)}
	for _, name := range []string{u.name, u.as} {
		if err := checkName(name); err != nil {
			return Change{}, err
		}
	}
	now, err := c.groupTime(ctx)
	if err == nil {
		err = c.persist(ctx, func() error { return u.once(ctx) })
	}
	if err != nil {
		return Change{}, fmt.Errorf("undelete %s: %w", name, uncertain(err, u.written != nil))
	}
	return Change{
		Outcome: OutcomeUndeleted, Job: u.spec.Job.WithDefaults(), Number: u.spec.Number(), NextRun: nextOf(c.tree, writtenAt(u.spec, now), c.clock.now().now),
	}, nil
}

// undeletion is one Undelete over its tries.
type undeletion struct {
	ed       editor
	name, as string
	spec     zkrec.Spec
	written  []byte // the record of a write whose outcome is not known
}

// once reads the remains and makes at most one write.
func (u *undeletion) once(ctx context.Context) error {
	c := u.ed
	read, err := c.readJob(ctx, u.as)
	switch {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return err
	case u.written != nil && bytes.Equal(read.spec, u.written):
		return nil // an earlier try was applied after all
	default:
		if of := read.parse(); !of.spec.Canceled {
			return fmt.Errorf("%w: the name %s is used again", ErrExists, u.as)
		}
		if err := deleted(c.deletion(u.as, read.stat.Czxid, zkrec.Deed{}).Run(ctx)); err != nil {
			return err
		}
	}
	kept, err := c.canceled(ctx, u.name)
	if err != nil {
		return unreadableRemains(err)
	}
	if kept.paths == nil {
		return fmt.Errorf("%w that was canceled in the last 7 days", ErrNotFound)
	}
	nodes, err := u.nodes(ctx, kept)
	if err != nil {
		return err
	}
	if err := c.room.Check(ctx, c.conn, c.tree.Root(), u.as); err != nil {
		return err
	}
	basis, err := c.basis(ctx, nil, u.spec)
	if err != nil {
		return err
	}
	u.spec = basis.Into(u.spec)
	if _, err := u.spec.Job.ParseSchedule(); err != nil && len(u.spec.Job.Calendars)+len(u.spec.Job.After) > 0 {
		return err
	}
	if err := basis.limits.Refuse(u.spec.Job); err != nil {
		return err
	}
	ops := append(newNodes(nodes), basis.ops(u.spec)...)
	for _, path := range kept.paths {
		ops = append(ops, zkconn.DeleteOp(path, zkconn.AnyVersion))
	}
	jobs := []string{u.as}
	if u.name != u.as {
		jobs = append(jobs, u.name)
	}
	u.written = nodes[0].Data
	_, err = c.multi(ctx, c.deed(ctx, zkrec.DeedUndelete, Who{}, jobs...), ops...)
	return err
}

// nodes lists the nodes of the job as it comes back.
func (u *undeletion) nodes(ctx context.Context, kept remains) ([]zkrec.Node, error) {
	var past zkrec.Past
	if len(kept.paths) > 1 {
		data, _, err := u.ed.optional(ctx, kept.paths[1])
		if err == nil {
			past, err = zkrec.ParsePast(data)
		}
		if err != nil {
			return nil, unreadableRemains(err)
		}
	}
	spec, err := zkrec.ParseSpec(u.name, kept.record.Spec)
	if err == nil {
		spec.Switch, err = zkrec.ParseSwitch(kept.record.Switch)
	}
	if err != nil {
		return nil, unreadableRemains(err)
	}
	if u.as != u.name {
		spec.Job.Name, spec.Job.Handler, spec.Declaration = u.as, spec.Job.HandlerName(), zkrec.Declaration{}
		spec.Job = spec.Job.Normal()
	}
	spec, nodes, err := u.ed.tree.Undeleted(spec, kept.record, past, kept.at)
	if err != nil {
		return nil, unreadableRemains(err)
	}
	u.spec = spec
	return nodes, nil
}

// unreadableRemains is the error for remains that cannot be read.
func unreadableRemains(err error) error {
	if zkconn.IsUnknown(err) || errors.Is(err, ErrDenied) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnreadable, err)
}
