package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// FreezeOptions are how long a group is frozen, but for which jobs, by whom and why. The zero value
// freezes all jobs until Unfreeze.
type FreezeOptions struct {
	PauseOptions

	// Except are the names of jobs of the group that go on. Default: none.
	Except []string
}

// Freeze is a freeze of a group.
type Freeze struct {
	Pause

	Except []string `json:"except,omitempty"` // jobs that go on, sorted
}

// FreezeResult is what Freeze or Unfreeze did.
type FreezeResult struct {
	Outcome Outcome `json:"outcome"` // OutcomeFrozen, OutcomeUnfrozen or OutcomeUnchanged
	// Freeze is the freeze as recorded now; Unfreeze sets its Until to the current time. Nil after
	// Unfreeze of a group that was not frozen.
	Freeze *Freeze `json:"freeze"`
}

// ErrNoGroup means that nothing of the group is there: no instance has joined it, and no job was
// submitted.
var ErrNoGroup = errors.New("no such group")

// Freeze pauses all jobs of the group, but for those that are excepted, also those that are
// submitted later. Once it has returned, no run of a schedule begins on any instance, by one record
// that each claim checks. Runs that have begun go on, and Trigger still works. Ticks in the freeze
// are judged as those in a Pause of the job, and so is the end. Freezing a frozen group replaces
// until when, by whom and why. Other exceptions count from then on. A job that is paused itself
// stays so when the freeze ends. Errors: *invalid.FieldError, ErrNotFound for a job in Except,
// ErrNoGroup, ErrUnreadable for a record of a newer version, ErrConflict, ErrDenied,
// ErrUnavailable.
func (c *Client) Freeze(ctx context.Context, opts FreezeOptions) (FreezeResult, error) {
	if err := checkPause(opts.PauseOptions); err != nil {
		return FreezeResult{}, err
	}
	now, err := c.groupTime(ctx)
	if err != nil {
		return FreezeResult{}, fmt.Errorf("freeze: %w", err)
	}
	if err := checkUntil(opts.Until, now); err != nil {
		return FreezeResult{}, err
	}
	span := zkrec.Span{Pause: *newPause(opts.PauseOptions), Except: slices.Compact(slices.Sorted(slices.Values(opts.Except)))}
	for _, name := range span.Except {
		if err := checkName(name); err != nil {
			return FreezeResult{}, err
		}
		if _, err := retried(ctx, c.conn, "freeze except "+name, func() (records, error) { return c.readJob(ctx, name) }); err != nil {
			return FreezeResult{}, err
		}
	}
	return c.freeze(ctx, c.deed(ctx, zkrec.DeedFreeze, Who{opts.By, opts.Reason}), OutcomeFrozen, now, func(spans []zkrec.Span, lasts *zkrec.Span) []zkrec.Span {
		switch {
		case lasts == nil:
		case slices.Equal(lasts.Except, span.Except):
			span.Pause.Since, spans = lasts.Pause.Since, spans[:len(spans)-1]
		default:
			lasts.Pause = *over(lasts.Pause, lasts.Pause.Missed)
		}
		spans = append(spans, span)
		return spans[max(0, len(spans)-zkrec.MaxSpans):]
	})
}

// Unfreeze ends the freeze of the group. opts decide on its ticks. If the group is not frozen, the
// outcome is OutcomeUnchanged. A record that cannot be read, because of which the group counts as
// frozen, is replaced. Errors: as Freeze.
func (c *Client) Unfreeze(ctx context.Context, opts ResumeOptions) (FreezeResult, error) {
	if err := opts.Missed.Check(); err != nil {
		return FreezeResult{}, &invalid.FieldError{Field: "Missed", Value: string(opts.Missed), Err: err}
	}
	now, err := c.groupTime(ctx)
	if err != nil {
		return FreezeResult{}, fmt.Errorf("unfreeze: %w", err)
	}
	return c.freeze(ctx, c.deed(ctx, zkrec.DeedUnfreeze, Who{}), OutcomeUnfrozen, now, func(spans []zkrec.Span, lasts *zkrec.Span) []zkrec.Span {
		if lasts != nil {
			lasts.Pause = *over(lasts.Pause, opts.Missed)
		}
		return spans
	})
}

// Frozen is the freeze that is in force, or nil. Errors: ErrDenied, ErrUnavailable.
func (c *Client) Frozen(ctx context.Context) (*Freeze, error) {
	return retried(ctx, c.conn, "read the freeze", func() (*Freeze, error) {
		results, err := c.readMany(ctx, []zkconn.Read{{Path: c.tree.Freeze()}})
		if err != nil {
			return nil, err
		}
		return publicFreeze(freezeOf(results[0]).InForce(c.clock.now().now)), nil
	})
}

// Words is how long the freeze lasts, by whom, why, and for which jobs not, in a time zone.
func (f Freeze) Words(zone *time.Location, now time.Time) string {
	text := f.words("unfrozen", zone, now)
	if len(f.Except) > 0 {
		text += "; except " + strings.Join(f.Except, ", ")
	}
	return text
}

func publicFreeze(span *zkrec.Span) *Freeze {
	if span == nil {
		return nil
	}
	return &Freeze{*pauseOf(span.Pause), span.Except}
}

// beginFreeze makes the node, which instances make when they start. The next try reads it.
func (ed editor) beginFreeze(ctx context.Context) error {
	_, found, err := ed.conn.Exists(ctx, ed.tree.Root())
	switch {
	case err != nil:
		return err
	case !found:
		return ErrNoGroup
	}
	return cmp.Or(ed.conn.EnsureRoot(ctx, ed.tree.Freeze()), zkconn.ErrNoNode)
}

// dateFreeze returns a freeze with the time at which it was written. If ZooKeeper's clock was wrong
// then, it writes the group's time: a freeze that was ended tomorrow would last until then.
func (ed editor) dateFreeze(ctx context.Context, f zkrec.Freeze, written zkconn.Stat) (zkrec.Freeze, error) {
	now, err := ed.groupTime(ctx)
	if err != nil || written.Mtime.Sub(now).Abs() <= reason.ClocksDiffer {
		return f.WrittenAt(written.Mtime), err
	}
	f = f.WrittenAt(now)
	_, err = ed.conn.Multi(ctx, zkconn.SetOp(ed.tree.Freeze(), f.Encode(), written.Version))
	return f, err
}

// freeze changes the spans of the group's freeze. change gets them, and the one in force or nil,
// which is one of them, and returns them as they are to be.
func (ed editor) freeze(
	ctx context.Context, deed zkrec.Deed, done Outcome, now time.Time, change func(spans []zkrec.Span, lasts *zkrec.Span) []zkrec.Span,
) (result FreezeResult, err error) {
	path, sent := ed.tree.Freeze(), false
	err = ed.persist(ctx, func() error {
		data, stat, err := ed.conn.Get(ctx, path)
		if errors.Is(err, zkconn.ErrNoNode) {
			err = ed.beginFreeze(ctx)
		}
		if err != nil {
			return err
		}
		read := zkrec.NewFreeze(data, stat.Version, stat.Mtime, nil)
		if errors.As(read.Err, new(*zkrec.SchemaError)) {
			return fmt.Errorf("%w: %w", ErrUnreadable, read.Err)
		}
		next := zkrec.Freeze{}
		if read.Err == nil {
			next = read.Freeze
		}
		next.Spans = slices.Clone(next.Spans)
		was, lasts := next.Encode(), next.InForce(now)
		next.Spans = change(next.Spans, lasts)
		record := next.Encode()
		switch {
		case len(record) > zkrec.MaxRecordBytes:
			return job.Invalid("Except", strconv.Itoa(len(record)), fmt.Errorf("the record would have that many bytes, at most %d are possible", zkrec.MaxRecordBytes))
		case read.Err == nil && bytes.Equal(record, was):
			if !sent { // otherwise an earlier try was applied after all
				result.Outcome = OutcomeUnchanged
			}
			if lasts = next.InForce(now); lasts != nil || sent && len(next.Spans) > 0 {
				result.Freeze = publicFreeze(&next.Spans[len(next.Spans)-1])
			}
			return nil
		}
		sent, result.Outcome = true, done
		stats, err := ed.multi(ctx, deed, zkconn.SetOp(path, record, stat.Version))
		if err != nil {
			return err
		}
		if next, err = ed.dateFreeze(ctx, next, stats[0]); len(next.Spans) > 0 {
			result.Freeze = publicFreeze(&next.Spans[len(next.Spans)-1])
		}
		return err
	})
	if err != nil {
		return FreezeResult{}, fmt.Errorf("%s: %w", deed.Kind, uncertain(err, sent))
	}
	return result, nil
}
