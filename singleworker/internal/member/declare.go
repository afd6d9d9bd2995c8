package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/deeds"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// maxLogged is how much of a replaced record is logged, in bytes.
const maxLogged = 1 << 10

// Declare writes the jobs that the application's code declares, many at once. It is for an instance
// that has appeared: one that is refused must not bring back jobs that were canceled, or undo
// changes. ErrFull of package listing is returned if there is no room for those that do not exist.
func (e *Entry) Declare(ctx context.Context) error {
	rest, err := e.declareNew(ctx)
	if err != nil {
		return err
	}
	newer := e.newerOnce(ctx)
	errs := make([]error, len(rest))
	session.Together(len(rest), func(i int) {
		d := rest[i]
		switch found, err := e.declare(ctx, d, newer); {
		case err == nil:
		case errors.Is(err, ErrNewer): // as it should be in the middle of a deploy
			e.loop.Log.Warn("declaration ignored", "job", d.Job.Name, "err", err)
		case found && !zkconn.IsUnknown(err):
			// Written by a newer version of the application, whose instances run it; or a node that may not
			// be read, or not be written, which concerns this job alone.
			e.loop.Log.Error("declaration ignored", "job", d.Job.Name, "path", e.loop.Tree.Job(d.Job.Name), "err", err)
		default:
			errs[i] = fmt.Errorf("declare job %q: %w", d.Job.Name, err)
		}
	})
	return errors.Join(errs...)
}

// DeclareOne writes a job that the application's code declares while it runs, and returns when that
// is done. It is for an instance that has joined, in any of its sessions.
func (e *Entry) DeclareOne(ctx context.Context, d Declaration) error {
	return e.loop.Conn.Retry(ctx, func() error {
		if err := e.room.Check(ctx, e.loop.Conn, e.loop.Tree.Root(), d.Job.Name); err != nil {
			return err
		}
		d.late = true
		_, err := e.declare(ctx, d, e.newerOnce(ctx))
		return err
	})
}

// declareNew creates the jobs that do not exist, and returns the declarations that are not yet as
// they should be.
func (e *Entry) declareNew(ctx context.Context) (rest []Declaration, err error) {
	all := e.cfg.Declarations
	reads := make([]zkconn.Read, len(all))
	for i, d := range all {
		reads[i].Path = e.loop.Tree.Job(d.Job.Name)
	}
	var missing []Declaration
	var names []string
	var groups [][]zkconn.Op
	for i, found := range e.loop.Conn.ReadMany(ctx, reads) {
		d := all[i]
		if !errors.Is(found.Err, zkconn.ErrNoNode) {
			old, err := zkrec.ParseSpec(d.Job.Name, found.Data)
			if found.Err != nil || err != nil || old.Declared != d.fingerprint() {
				rest = append(rest, d)
			}
			continue
		}
		missing, names = append(missing, d), append(names, d.Job.Name)
		groups = append(groups, session.CreateOps(e.loop.Tree.NewJob(d.Job.Name, e.signed(d))))
	}
	if len(missing) == 0 {
		return rest, nil
	}
	if err := e.room.Check(ctx, e.loop.Conn, e.loop.Tree.Root(), names...); err != nil {
		return nil, fmt.Errorf("declare %d jobs: %w", len(missing), err)
	}
	for i, result := range e.loop.Apply(ctx, groups) {
		if d := missing[i]; result.Err == nil {
			e.loop.Log.Info("job declared", "job", d.Job.Name, "schedule", d.Job.Schedule)
		} else {
			rest = append(rest, d) // another instance was faster, or the error is found again
		}
	}
	return rest, nil
}

// signed is the spec of a declaration, which says who has declared it, and when.
func (e *Entry) signed(d Declaration) zkrec.Spec {
	spec := zkrec.Spec{Job: d.Job}
	spec.Declaration = zkrec.Declaration{
		Declared: d.fingerprint(), DeclaredBy: e.declarer(), DeclaredAt: time.Now().UnixMilli(),
		DeclaredVersion: e.cfg.Instance.Program, DeclaredLate: d.late,
	}
	return spec
}

// declare writes a job that the application's code declares. A job that exists is replaced only if
// it is not based on this same declaration: an operator's change on top of it stays until the code
// says something else. It is left alone, with an ErrNewer, if a newer version of the program
// decides on it. found reports whether the job existed, in which case an error concerns its node
// alone.
func (e *Entry) declare(ctx context.Context, d Declaration, newer func() (newer, error)) (found bool, err error) {
	spec := e.signed(d)
	for {
		data, stat, err := e.loop.Conn.Get(ctx, e.loop.Tree.Job(d.Job.Name))
		if errors.Is(err, zkconn.ErrNoNode) {
			ops := session.CreateOps(e.loop.Tree.NewJob(d.Job.Name, spec))
			_, err = deeds.Write(ctx, e.loop.Conn, e.loop.Tree, e.deed(d.Job.Name, false), ops, func(ops []zkconn.Op) ([]zkconn.Stat, error) {
				return e.loop.Conn.Multi(ctx, ops...)
			})
			if errors.Is(err, zkconn.ErrNodeExists) {
				continue // another instance was faster
			}
			if err == nil {
				e.loop.Log.Info("job declared", "job", d.Job.Name, "schedule", spec.Job.Schedule)
			}
			return false, err
		}
		if err != nil {
			return true, err
		}
		old, err := zkrec.ParseSpec(d.Job.Name, data)
		switch {
		case errors.As(err, new(*zkrec.SchemaError)):
			return true, err // an older version must not replace what a newer one wrote
		case err == nil && old.Declared == spec.Declared:
			return true, nil
		}
		if err == nil {
			newer, err := newer()
			if err != nil {
				return false, err // that is not about this job
			}
			if err := newer.yield(e.cfg.Instance.Program, old); err != nil {
				return true, err
			}
			if err := job.CheckEverywhereKept(old.Job, spec.Job); err != nil {
				return true, err
			}
		}
		replaced := spec.Over(old.WrittenAt(stat.Mtime))
		if err := replaced.CheckSize(); err != nil {
			return true, fmt.Errorf("together with its former schedule and shards it %w", err)
		}
		err = e.replace(ctx, d.Job.Name, old, replaced, data, stat)
		if errors.Is(err, zkconn.ErrBadVersion) || errors.Is(err, zkconn.ErrNoNode) || errors.Is(err, zkconn.ErrNodeExists) {
			continue
		}
		if err == nil {
			// A rolling deploy does this once; an instance of an older version that starts again does it
			// in the wrong direction.
			e.loop.Log.Warn("declaration replaced the job's record", "job", d.Job.Name, "schedule", spec.Job.Schedule,
				"was", string(data[:min(len(data), maxLogged)]), "was_declared_by", old.DeclaredBy, "operators_change_lost", old.Overridden())
		}
		return true, err
	}
}

// replace writes a job over old, whose record data was read. It is the next version of the job,
// unless only the declaration is another one.
func (e *Entry) replace(ctx context.Context, job string, old, spec zkrec.Spec, data []byte, stat zkconn.Stat) error {
	deed, path := e.deed(job, old.Overridden()), e.loop.Tree.Job(job)
	var notes []zkconn.Op
	if spec.Fingerprint() != old.Fingerprint() {
		number, note, err := deeds.Version(ctx, e.loop.Conn, e.loop.Tree, job, data, stat.Ctime, deed)
		if err != nil {
			return err
		}
		spec.Version, notes = number, []zkconn.Op{note}
	}
	set := []zkconn.Op{zkconn.SetOp(path, spec.Encode(), stat.Version)}
	_, err := deeds.Write(ctx, e.loop.Conn, e.loop.Tree, deed, set, func(ops []zkconn.Op) ([]zkconn.Stat, error) {
		return signals.MultiOn(ctx, e.loop.Conn, path, stat.Czxid, signals.OfJob(e.loop.Tree, job), ops...)
	}, notes...)
	return err
}

// deed is the entry of a declaration in the log of who did what. overrides means that an operator's
// change is replaced.
func (e *Entry) deed(job string, overrides bool) zkrec.Deed {
	deed := zkrec.Deed{Kind: zkrec.DeedDeclare, Jobs: []string{job}, From: e.declarer()}
	if overrides {
		deed.Reason = "it replaces what an operator had changed"
	}
	return deed
}

// declarer says who declares: "app-1 (v1.4.0)".
func (e *Entry) declarer() string {
	if version := cmp.Or(e.cfg.Instance.Program, e.cfg.Instance.Version); version != "" {
		return fmt.Sprintf("%s (%s)", e.cfg.ID, version)
	}
	return e.cfg.ID
}
