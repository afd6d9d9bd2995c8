package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// SubmitOptions changes how Submit treats what it finds. The zero value
// creates a job and never changes one.
type SubmitOptions struct {
	// Replace changes a job that exists and differs, instead of ErrExists.
	Replace bool
	// Pause, if not nil, has the job paused from the moment in which it is created or replaced: no run
	// of it can begin in between. A job that exists and is not paused differs then. A pause that lasts
	// stays as it is.
	Pause *PauseOptions
	// Resume ends the pause of a job that exists, and none of its ticks is run. A job that is paused
	// differs then. Not together with Pause.
	Resume bool
	// Set names the files that the job comes from. Who applies all of them again can tell from it
	// which jobs they had before. It is kept while others edit the job. A job that is in another set,
	// or in none, or that was edited, differs then. Without a Set, a job that is created or replaced
	// is in none. The rules for the names of handlers hold. Default: none.
	Set string
	// Seen has the job replaced only if it is as it was read then, or ErrConflict, also if it is gone.
	// Default: however it is.
	Seen *Seen
	// DryRun checks and reports what would be done, and writes nothing.
	DryRun bool
}

// Submit creates a job, or replaces an existing one if opts.Replace is set, and returns when
// ZooKeeper has accepted it. The Outcome is OutcomeCreated, OutcomeReplaced, or OutcomeUnchanged if
// the same job exists. A different job of that name is refused with ErrExists unless opts.Replace
// is set, and in any case if a newer version wrote it. Errors: *invalid.FieldError,
// *invalid.FieldError for opts.Pause and opts.Set, ErrExists, ErrConflict, ErrDenied,
// ErrUnavailable.
func (c *Client) Submit(ctx context.Context, j job.Job, opts SubmitOptions) (Change, error) {
	s, err := c.submission(ctx, j, opts)
	if err != nil {
		return Change{}, err
	}
	if err := c.persist(ctx, func() error { return s.once(ctx) }); err != nil {
		return Change{}, fmt.Errorf("submit %s: %w", j.Name, uncertain(err, s.wrote))
	}
	return s.change(), nil
}

// submission checks a job and its options.
func (ed editor) submission(ctx context.Context, j job.Job, opts SubmitOptions) (*submission, error) {
	if err := j.Validate(); err != nil {
		return nil, err
	}
	s := &submission{ed: ed, spec: zkrec.Spec{Job: j.Clone().Normal()}, opts: opts}
	if opts.Set != "" {
		if err := job.CheckNodeName(opts.Set); err != nil {
			return nil, &invalid.FieldError{Field: "Set", Value: opts.Set, Err: err}
		}
		s.spec.FromFiles = zkrec.FromFiles{Set: opts.Set, Applied: s.spec.Fingerprint()}
	}
	if opts.Pause != nil {
		if err := checkPause(*opts.Pause); err != nil {
			return nil, err
		}
		s.pause = newPause(*opts.Pause)
	}
	var err error
	if s.now, err = ed.groupTime(ctx); err != nil {
		return nil, fmt.Errorf("submit %s: %w", j.Name, err)
	}
	if len(j.After) == 0 { // else its parents are to be known first
		if err := checkFires(j.Uncalendared(), s.now); err != nil {
			return nil, err
		}
	}
	if opts.Pause != nil {
		if err := checkUntil(opts.Pause.Until, s.now); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// change tells how it ended.
func (s *submission) change() Change {
	s.done.Job, s.done.Number = s.spec.Job.WithDefaults(), s.spec.Number()
	s.done.NextRun = nextOf(s.ed.tree, writtenAt(s.spec, s.now), s.ed.clock.now().now)
	return s.done
}

// submission is one Submit over its tries.
type submission struct {
	ed    editor
	spec  zkrec.Spec // the requested one; later with the switch of the existing job
	opts  SubmitOptions
	pause *zkrec.Pause // to begin with
	now   time.Time
	done  Change

	switched bool   // the spec has another switch than the existing job
	basis    basis  // of the job
	batch    *batch // takes the writes, of SubmitAll; otherwise nil

	target
}

// once reads the job and makes at most one write.
func (s *submission) once(ctx context.Context) error {
	name := s.spec.Job.Name
	var err error
	var together []zkrec.Spec
	if s.batch != nil {
		together = s.batch.specs
	}
	if s.basis, err = s.ed.basis(ctx, together, s.spec); err != nil { // the write checks that nothing of it has changed since
		return err
	}
	s.spec = s.basis.Into(s.spec)
	if err := cmp.Or(checkFires(s.spec.Job, s.now), s.basis.limits.Refuse(s.spec.Job)); err != nil {
		return err
	}
	read, err := s.ed.readJob(ctx, name)
	if errors.Is(err, ErrNotFound) {
		return s.create(ctx)
	}
	if err != nil {
		return err
	}
	stat := read.stat
	if err := s.check(stat); err != nil {
		return err
	}
	old, parseErr := zkrec.ParseSpec(name, read.spec)
	if parseErr == nil && old.Canceled {
		if !s.opts.DryRun {
			err = deleted(s.ed.deletion(name, stat.Czxid, zkrec.Deed{}).Run(ctx))
		}
		if err != nil {
			return err
		}
		return s.create(ctx)
	}
	turned, _ := read.register.turned() // one that cannot be read is left to Repair
	old = old.WrittenAt(stat.Mtime).With(turned)
	s.spec.Switch, s.switched = turned, false
	switch lasts := turned.Paused.Lasts(s.now); {
	case lasts && s.opts.Resume:
		s.spec.Switch.Paused, s.switched = over(*turned.Paused, job.MisfireSkip), true
	case !lasts && s.pause != nil:
		s.spec.Switch.Paused, s.switched = s.pause, true
	}
	joins := s.opts.Set != "" && old.FromFiles != s.spec.FromFiles
	if parseErr == nil && !s.switched && !joins && old.Fingerprint() == s.spec.Fingerprint() {
		if !s.wrote { // otherwise an earlier try was applied after all
			s.done = Change{Outcome: OutcomeUnchanged}
		}
		s.done.Version, s.spec.Version = stat.Version, old.Version
		return nil
	}
	return s.replace(ctx, old, parseErr, read)
}

// replace writes the job over another one, which parseErr says cannot be read.
func (s *submission) replace(ctx context.Context, old zkrec.Spec, parseErr error, read records) error {
	if !s.opts.Replace {
		return ErrExists
	}
	if seen := s.opts.Seen; seen != nil && *seen != (Seen{ID: read.stat.Czxid, Version: read.stat.Version}) {
		return ErrConflict
	}
	if errors.As(parseErr, new(*zkrec.SchemaError)) {
		return fmt.Errorf("%w: %w", ErrExists, parseErr)
	}
	s.done = Change{Outcome: OutcomeReplaced, Version: read.stat.Version}
	if parseErr == nil {
		if err := job.CheckEverywhereKept(old.Job, s.spec.Job); err != nil {
			return err
		}
		before := old.Job.WithDefaults()
		s.done.Before = &before
	}
	if s.opts.DryRun {
		return nil
	}
	name, tree := s.spec.Job.Name, s.ed.tree
	deed := s.ed.deed(ctx, zkrec.DeedReplace, Who{}, name)
	spec := zkrec.Spec{Job: s.spec.Job, Declaration: old.Declaration} // a declaration differs from the one overridden, or not
	spec = spec.Over(old)
	spec.FromFiles = s.spec.FromFiles
	if parseErr != nil || spec.Fingerprint() != old.Fingerprint() { // otherwise it is only paused
		var err error
		if spec.Version, err = s.next(ctx, s.ed.writer, read, deed); err != nil {
			return err
		}
	}
	s.spec.Version = spec.Version
	if parseErr != nil {
		spec.Layout = nil // nobody knows in which shards it was run
	}
	if err := spec.CheckSize(); err != nil {
		return err
	}
	if err := spec.CheckAfter(); err != nil {
		return err
	}
	ops := []zkconn.Op{zkconn.SetOp(tree.Job(name), spec.Encode(), read.stat.Version)}
	if s.switched {
		ops = append(ops, read.register.write(s.spec.Switch.Encode()))
	}
	ops = append(ops, s.basis.ops(s.spec)...)
	if s.batch != nil {
		s.done.Version++
		s.wrote, s.czxid = true, read.stat.Czxid
		s.batch.replaces(zkconn.On{Path: tree.Job(name), Czxid: s.czxid}, signals.OfJob(tree, name), append(ops, s.notes...))
		return nil
	}
	stats, err := s.write(ctx, s.ed.writer, read, read.proofs(tree, true), deed, signals.OfJob(tree, name), ops...)
	if err == nil {
		s.done.Version = stats[0].Version
	}
	return err
}

// create makes the job, which does not exist.
func (s *submission) create(ctx context.Context) error {
	if s.opts.Seen != nil {
		return ErrConflict
	}
	s.spec.Switch, s.done = zkrec.Switch{Paused: s.pause}, Change{Outcome: OutcomeCreated}
	if s.opts.DryRun {
		return nil
	}
	conn, tree := s.ed.conn, s.ed.tree
	if err := conn.EnsureRoot(ctx, tree.Root()); err != nil {
		return err
	}
	if err := s.ed.room.Check(ctx, conn, tree.Root(), s.spec.Job.Name); err != nil {
		return err
	}
	s.wrote = true
	ops := append(newNodes(tree.NewJob(s.spec.Job.Name, s.spec)), s.basis.ops(s.spec)...)
	if s.batch != nil {
		s.batch.ops = append(s.batch.ops, ops...)
		return nil
	}
	deed := s.ed.deed(ctx, zkrec.DeedSubmit, Who{}, s.spec.Job.Name)
	_, err := s.ed.multi(ctx, deed, ops...)
	return err
}
