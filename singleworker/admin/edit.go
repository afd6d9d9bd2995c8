package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// EditOptions change what Edit does. The zero value makes the change.
type EditOptions struct {
	// DryRun checks and reports what would be changed, and writes nothing.
	DryRun bool
}

// errUndivided is returned for a change that Edit does not support.
var errUndivided = errors.New("would make a job undivided that has shards: cancel it and submit it again, or declare it so in code")

// Edit changes a job that exists: it reads the job, has change change it, and
// writes the result unless somebody else has changed the job meanwhile, in which
// case it starts again. So change may be called several times; its error ends
// Edit. It gets the job with its defaults spelled out, and a copy that it may
// keep; zero values mean the defaults.
//
// Edit returns when ZooKeeper has accepted the change, with the Outcome
// OutcomeChanged or OutcomeUnchanged. A new schedule takes effect at once; the
// ticks of the old one that nobody has accounted for are recorded as not run.
// Other shards take effect when the ticks are done that a shard has claimed
// already: see JobStatus.Resizing. A job that is declared in code stays as it is
// edited until its declaration changes. Errors: those of change,
// *invalid.FieldError, ErrNotFound, ErrUnreadable, ErrConflict, ErrDenied,
// ErrUnavailable.
func (c *Client) Edit(ctx context.Context, name string, change func(*job.Job) error, opts EditOptions) (Change, error) {
	return c.edit(ctx, name, c.deed(ctx, zkrec.DeedSet, Who{}, name), change, opts)
}

// edit is Edit, noted as d.
func (ed editor) edit(ctx context.Context, name string, d zkrec.Deed, change func(*job.Job) error, opts EditOptions) (Change, error) {
	e := edit{ed: ed, name: name, dryRun: opts.DryRun, deed: d}
	e.change = func(old zkrec.Spec, now time.Time) (zkrec.Spec, error) {
		edited := old.Job.WithDefaults().Clone()
		if err := change(&edited); err != nil {
			return zkrec.Spec{}, err
		}
		var err error
		if e.basis, err = ed.basis(ctx, nil, zkrec.Spec{Job: edited}); err != nil {
			return zkrec.Spec{}, err
		}
		edited = e.basis.Into(zkrec.Spec{Job: edited}).Job
		if err := checkEdit(old.Job, edited, now); err != nil {
			return zkrec.Spec{}, err
		}
		if !maps.Equal(old.Job.Limits, edited.Limits) {
			if err := e.basis.limits.Refuse(edited); err != nil {
				return zkrec.Spec{}, err
			}
		}
		spec := zkrec.Spec{Job: edited.Normal(), Declaration: old.Declaration}
		if spec.Fingerprint() == old.Fingerprint() {
			return old, nil // only the spelling of defaults may differ
		}
		return spec.Over(old), nil
	}
	if err := e.run(ctx); err != nil {
		return Change{}, fmt.Errorf("job %q: %w", name, err)
	}
	done := Change{Outcome: OutcomeUnchanged, Job: e.spec.Job.WithDefaults(), Version: e.version, Number: e.spec.Number()}
	if e.changed {
		done.Outcome, done.Before = OutcomeChanged, &e.before
	}
	done.NextRun = nextOf(ed.tree, e.spec, ed.clock.now().now)
	return done, nil
}

// checkEdit refuses changes that an existing job cannot make.
func checkEdit(old, edited job.Job, now time.Time) error {
	switch {
	case edited.Name != old.Name:
		return job.Invalid("Name", edited.Name, errors.New("cannot be changed"))
	case old.Shards > 0 && edited.Shards == 0:
		return job.Invalid("Shards", "0", errUndivided)
	}
	if err := job.CheckEverywhereKept(old, edited); err != nil {
		return err
	}
	if err := edited.Validate(); err != nil {
		return err
	}
	old, edited = old.Normal(), edited.Normal()
	if zkrec.SameTimes(&edited, &old) {
		return nil // a job that is over can be changed in what does not make it run
	}
	return checkFires(edited, now)
}

// checkFires refuses a schedule that is over.
func checkFires(j job.Job, now time.Time) error {
	schedule, err := j.ParseSchedule()
	switch {
	case err != nil:
	case schedule.After():
		next := schedule.Next(now)
		if within := ticks.Later(now, j.NotBefore).AddDate(1, 0, 0); next.IsZero() || next.After(within) {
			err = job.Invalid("After", strings.Join(j.After, ", "), errors.New("leaves no tick within a year: their schedules have no time in common"))
		}
	case !schedule.Ended(now):
	case !j.NotAfter.IsZero():
		err = job.Invalid("NotAfter", j.NotAfter.Format(time.RFC3339), errors.New("leaves no tick that is to come"))
	default:
		err = job.Invalid("Schedule", j.Schedule, errors.New("never fires again"))
	}
	return err
}

// nextOf is when the next tick of a job that is valid is due, in its first slot, if the group is
// not frozen.
func nextOf(tree zkrec.Tree, spec zkrec.Spec, now time.Time) time.Time {
	schedule, err := spec.Job.ParseSchedule()
	if err != nil {
		return time.Time{}
	}
	j := ticksOf(spec, schedule, spec.Since)
	j.Group = tree.Group()
	return j.Of(spec.ActiveLayout().Slots(spec.Job.Name)[0], nil).NextRun(time.Time{}, now)
}

// edit changes the spec, or the switch, of a job that exists, over its tries. What stays as it is
// is not written.
type edit struct {
	ed     editor
	name   string
	change func(old zkrec.Spec, now time.Time) (zkrec.Spec, error) // returns them as they are to be
	dryRun bool
	deed   zkrec.Deed
	basis  basis     // of the edited job
	counts bool      // through is wanted
	now    time.Time // the group's

	target

	changed bool // the spec, or the switch, is not as it was
	before  job.Job
	spec    zkrec.Spec // after
	version int32      // of the spec
	through time.Time  // up to which ticks were accounted for before the change
}

func (e *edit) run(ctx context.Context) error {
	if err := checkName(e.name); err != nil {
		return err
	}
	var err error
	if e.now, err = e.ed.groupTime(ctx); err != nil {
		return err
	}
	err = e.ed.persist(ctx, func() error { return e.once(ctx) })
	if errors.Is(err, ErrNotFound) {
		err = e.ed.gone(ctx, e.name)
	}
	return uncertain(err, e.wrote)
}

// editable is why a job cannot be changed, or nil.
func (of parsed) editable() error {
	switch {
	case of.isUnreadable():
		return fmt.Errorf("%w: %w", ErrUnreadable, of.err)
	case of.turnedErr != nil:
		return fmt.Errorf("%w: %w", ErrUnreadable, of.turnedErr)
	case of.spec.Canceled:
		return ErrNotFound
	}
	return nil
}

func (e *edit) once(ctx context.Context) error {
	read, err := e.ed.readJob(ctx, e.name)
	if err != nil {
		return err
	}
	if err := e.check(read.stat); err != nil {
		return err
	}
	of := read.parse()
	old := of.spec
	if err := of.editable(); err != nil {
		return err
	}
	spec, err := e.change(old, e.now)
	if err != nil {
		return err
	}
	e.version = read.stat.Version
	if spec.Fingerprint() != old.Fingerprint() {
		if spec.Version, err = e.next(ctx, e.ed.writer, read, e.deed); err != nil {
			return err
		}
	}
	record, switched := spec.Encode(), spec.Switch.Encode()
	rewritten, ops := !bytes.Equal(record, old.Encode()), []zkconn.Op(nil)
	if rewritten {
		ops = append([]zkconn.Op{zkconn.SetOp(e.ed.tree.Job(e.name), record, read.stat.Version)}, e.basis.ops(spec)...)
	}
	if !bytes.Equal(switched, old.Switch.Encode()) {
		ops = append(ops, read.register.write(switched))
	}
	if e.wrote && len(ops) == 0 {
		return nil // an earlier try was applied after all
	}
	if err := spec.CheckSize(); err != nil {
		return err
	}
	e.spec, e.before, e.changed = writtenAt(spec, e.now), old.Job.WithDefaults(), len(ops) > 0
	if e.counts && !e.wrote {
		was, err := e.ed.reading(ctx, e.name, nil)
		if err != nil {
			return err
		}
		e.through = was.status(nil, e.ed.clock.now()).Watermark
	}
	if !e.changed || e.dryRun {
		return nil
	}
	stats, err := e.write(ctx, e.ed.writer, read, read.proofs(e.ed.tree, rewritten), e.deed, signals.OfJob(e.ed.tree, e.name), ops...)
	if err != nil {
		return err
	}
	if written := stats[0].Mtime; !written.IsZero() { // otherwise the node was made
		e.spec = writtenAt(spec, written)
	}
	if rewritten {
		e.version = stats[0].Version
	}
	return nil
}
