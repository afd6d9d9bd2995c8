package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/deeds"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// maxConflicts is how often a write is retried because of concurrent changes.
const maxConflicts = 10

// moved reports whether a write was refused because of a concurrent change.
func moved(err error) bool {
	return errors.Is(err, zkconn.ErrBadVersion) || errors.Is(err, zkconn.ErrNoNode) ||
		errors.Is(err, zkconn.ErrNodeExists)
}

// persist repeats f, which reads and makes one guarded write, while others are faster and until
// a server has answered.
func (c *Client) persist(ctx context.Context, f func() error) error {
	return c.conn.Retry(ctx, func() error {
		for range maxConflicts {
			if err := f(); !moved(err) {
				return err
			}
		}
		return ErrConflict
	})
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
	ctx context.Context, c *Client, read records, parent string, d zkrec.Deed, of []signals.Signal, ops ...zkconn.Op,
) ([]zkconn.Stat, error) {
	t.wrote, t.czxid = true, read.stat.Czxid
	on := zkconn.On{Path: c.tree.Job(read.slot), Czxid: read.stat.Czxid, Below: parent}
	return deeds.Write(ctx, c.conn, c.tree, d, ops, func(ops []zkconn.Op) ([]zkconn.Stat, error) {
		return signals.MultiOnAll(ctx, c.conn, []zkconn.On{on}, of, ops...)
	}, t.notes...)
}

// next numbers the change of the job that was read, and notes it with the next write.
func (t *target) next(ctx context.Context, c *Client, read records, d zkrec.Deed) (number int, err error) {
	number, note, err := deeds.Version(ctx, c.conn, c.tree, read.slot, read.spec, read.stat.Ctime, d)
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
func (c *Client) edit(ctx context.Context, name string, d zkrec.Deed, change func(*job.Job) error, opts EditOptions) (Change, error) {
	e := edit{client: c, name: name, dryRun: opts.DryRun, deed: d}
	e.change = func(old zkrec.Spec, now time.Time) (zkrec.Spec, error) {
		edited := old.Job.WithDefaults().Clone()
		if err := change(&edited); err != nil {
			return zkrec.Spec{}, err
		}
		if err := checkEdit(old.Job, edited, now); err != nil {
			return zkrec.Spec{}, err
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
	done.NextRun = c.nextOf(e.spec, c.clock.now().now)
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
	case err != nil || !schedule.Ended(now):
	case !j.NotAfter.IsZero():
		err = job.Invalid("NotAfter", j.NotAfter.Format(time.RFC3339), errors.New("leaves no tick that is to come"))
	default:
		err = job.Invalid("Schedule", j.Schedule, errors.New("never fires again"))
	}
	return err
}

// nextOf is when the next tick of a job that is valid is due, in its first slot.
func (c *Client) nextOf(spec zkrec.Spec, now time.Time) time.Time {
	schedule, err := spec.Job.ParseSchedule()
	if err != nil {
		return time.Time{}
	}
	var pause *Pause
	if p := spec.Switch.Paused; p.Covers(now) {
		pause = pauseOf(*p)
	}
	j := ticksOf(spec, schedule, spec.Since)
	j.Group = c.tree.Group()
	return nextRun(j.Of(spec.ActiveLayout().Slots(spec.Job.Name)[0], nil), time.Time{}, pause, now)
}

// edit changes the spec, or the switch, of a job that exists, over its tries. What stays as it is
// is not written.
type edit struct {
	client *Client
	name   string
	change func(old zkrec.Spec, now time.Time) (zkrec.Spec, error) // returns them as they are to be
	dryRun bool
	deed   zkrec.Deed
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
	if e.now, err = e.client.groupTime(ctx); err != nil {
		return err
	}
	err = e.client.persist(ctx, func() error { return e.once(ctx) })
	if errors.Is(err, ErrNotFound) {
		err = e.client.gone(ctx, e.name)
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
	read, err := e.client.readJob(ctx, e.name)
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
		if spec.Version, err = e.next(ctx, e.client, read, e.deed); err != nil {
			return err
		}
	}
	record, switched := spec.Encode(), spec.Switch.Encode()
	rewritten, ops := !bytes.Equal(record, old.Encode()), []zkconn.Op(nil)
	if rewritten {
		ops = append(ops, zkconn.SetOp(e.client.tree.Job(e.name), record, read.stat.Version))
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
		was, err := e.client.reading(ctx, e.name, false)
		if err != nil {
			return err
		}
		e.through = was.status(nil, e.client.clock.now()).Watermark
	}
	if !e.changed || e.dryRun {
		return nil
	}
	stats, err := e.write(ctx, e.client, read, read.proofs(e.client.tree, rewritten), e.deed, signals.OfJob(e.client.tree, e.name), ops...)
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
