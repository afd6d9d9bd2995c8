package once

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker"
)

var (
	// ErrDone means that the effects of the run's tick are in the database already. The error is a
	// *DoneError.
	ErrDone = errors.New("once: done already")
	// ErrFenced means that a later owner of the slot has written, so that this run must not.
	ErrFenced = errors.New("once: fenced off")
	// ErrPruned means that the run's tick is so old that its marker, if there was one, has been
	// removed. See DB.Prune.
	ErrPruned = errors.New("once: the marker may have been pruned")
)

// DoneError tells which run has done a tick's work. It is ErrDone.
type DoneError struct {
	Work       string    // the slot, its tick and the step
	RunID      string    // the run
	InstanceID string    // its instance
	At         time.Time // when its transaction wrote the marker, by the instance's clock
}

// Error implements error.
func (e *DoneError) Error() string {
	return fmt.Sprintf("once: %s was done by run %s on %s at %s", e.Work, e.RunID, e.InstanceID, e.At.Format(time.RFC3339))
}

// Is reports whether target is ErrDone.
func (e *DoneError) Is(target error) bool { return target == ErrDone }

// Do calls f in a transaction that is committed once for the run's tick. It returns nil if that was
// now, a *DoneError, which is ErrDone, if it was before, and otherwise an error, after which
// nothing is in the database, unless it says that this is not known. The errors of f are returned
// as they are. Do waits for other transactions of the slot, until ctx ends, which also rolls back.
func Do(ctx context.Context, db *DB, run *singleworker.Run, f func(tx *sql.Tx) error) error {
	return db.run(ctx, run, "", f)
}

// maxStep is how many bytes the name of a step may have.
const maxStep = 90

// Step is Do for one of several transactions of a run. Its name, such as "page-3", has up to 90
// letters, digits and signs of ASCII. An attempt after the first one is told ErrDone for each step
// that is done, and goes on with the next.
func Step(ctx context.Context, db *DB, run *singleworker.Run, name string, f func(tx *sql.Tx) error) error {
	if name == "" || len(name) > maxStep || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("once: a step of %s is called %q: want 1 to %d letters, digits and signs of ASCII, and no blank", run.Job, name, maxStep)
	}
	return db.run(ctx, run, "/"+name, f)
}

// Wrap makes a handler of a function that writes to a database. A run that finds its tick done
// succeeds, and logs which run has done it.
func Wrap(db *DB, f func(ctx context.Context, tx *sql.Tx, run *singleworker.Run) error) singleworker.Handler {
	return func(ctx context.Context, run *singleworker.Run) error {
		var failed error // of f, which may have a DoneError of its own
		err := Do(ctx, db, run, func(tx *sql.Tx) error {
			failed = f(ctx, tx, run)
			return failed
		})
		var done *DoneError
		if failed == nil && errors.As(err, &done) {
			run.Logger().InfoContext(ctx, "its effects are in the database already", "by_run", done.RunID, "by_instance", done.InstanceID, "at", done.At)
			return nil
		}
		return err
	}
}

// A key is the primary key of a marker.
type key struct {
	group, slot string
	tick        int64 // Unix milliseconds
	request     string
	step        string // with a slash before the name, and "before" before that in BeforeTick
}

func keyOf(run *singleworker.Run, step string) (key, error) {
	if run.Job == "" || run.Tick.IsZero() || run.Token == 0 {
		return key{}, fmt.Errorf("once: the run has job %q, tick %v and token %d: a test must set all three", run.Job, run.Tick, run.Token)
	}
	k := key{run.Group, run.Slot, run.Tick.UnixMilli(), run.Request, step}
	if run.Past != "" && !run.Past.Again() {
		k.request = "" // it is the tick's
	}
	if k.slot == "" { // in a test
		k.slot = run.Job
	}
	if run.BeforeTick {
		k.step = "before" + step
	}
	return k, nil
}

func (k key) String() string {
	text := k.slot + " of " + time.UnixMilli(k.tick).UTC().Format(time.RFC3339)
	if k.request != "" {
		text += ", request " + k.request
	}
	before, step, named := strings.Cut(k.step, "/")
	if before != "" {
		text += ", BeforeTick"
	}
	if named {
		text += ", step " + step
	}
	return text
}

func (k key) args() []any { return []any{k.group, k.slot, k.tick, k.request, k.step} }

func (db *DB) run(ctx context.Context, run *singleworker.Run, step string, f func(tx *sql.Tx) error) error {
	k, err := keyOf(run, step)
	if err != nil {
		return err
	}
	if err := db.check(ctx); err != nil {
		return err
	}
	tx, err := db.sql.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("once: %v: begin: %w", k, err)
	}
	defer tx.Rollback() //nolint:errcheck // without effect after Commit, and otherwise the error is another one
	s, err := db.enter(ctx, tx, k, run.Token)
	switch {
	case err != nil:
		return fmt.Errorf("once: %v: read its marker: %w", k, err)
	case s.done != nil && s.token <= run.Token:
		_ = tx.Commit() // of the raised fence, without which the marker counts, too
		return s.done
	}
	if err := s.refuses(k, run.Token); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, db.d.insertTick(), append(k.args(), run.ID, run.InstanceID, run.Token, time.Now().UnixMilli())...); err != nil {
		return fmt.Errorf("once: %v: write its marker: %w", k, err)
	}
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return db.settle(ctx, k, run, err)
	}
	return nil
}

// A state is the tables' account of a key.
type state struct {
	token, pruned int64
	done          *DoneError // nil: there is no marker
}

// refuses is why a run with that token must not do a tick without a marker: ErrFenced, ErrPruned or
// nil.
func (s state) refuses(k key, token int64) error {
	switch {
	case s.token > token:
		return fmt.Errorf("%w: %v: a later owner has written, with token %d, this run has %d; do not retry. "+
			"If ZooKeeper was restored, or the group cleared, tokens are lower than before: stop all instances, then run swctl-sql once reset, "+
			"or call DB.Reset, or execute UPDATE once_fences SET token=0 WHERE group_name='%s'", ErrFenced, k, s.token, token, k.group)
	case k.tick < s.pruned:
		return fmt.Errorf("%w: %v: whether it was done is not known, markers from before %s are gone; look at its effects, and do what is missing by a manual run",
			ErrPruned, k, time.UnixMilli(s.pruned).UTC().Format(time.RFC3339))
	}
	return nil
}

// enter raises the fence, which locks it, and then reads.
func (db *DB) enter(ctx context.Context, tx *sql.Tx, k key, token int64) (s state, err error) {
	if _, err := tx.ExecContext(ctx, db.d.raise(), db.d.raiseArgs(k, token)...); err != nil {
		return s, err
	}
	return db.read(ctx, tx, k)
}

// read reads in a transaction, or the latest commit.
func (db *DB) read(ctx context.Context, from interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, k key,
) (s state, err error) {
	var runID, instance sql.NullString
	var at sql.NullInt64
	err = from.QueryRowContext(ctx, db.d.look(), k.tick, k.request, k.step, k.group, k.slot).Scan(&s.token, &s.pruned, &runID, &instance, &at)
	if runID.Valid {
		s.done = &DoneError{Work: k.String(), RunID: runID.String, InstanceID: instance.String, At: time.UnixMilli(at.Int64).UTC()}
	}
	return s, err
}

// settleTime is how long a database is asked whether a COMMIT was made, and askAgain the pause
// between two questions. Where one connection was lost, others of the pool are often lost, too.
const (
	settleTime = 5 * time.Second
	askAgain   = 100 * time.Millisecond
)

// settle finds out whether a transaction was committed whose COMMIT returned an error.
func (db *DB) settle(ctx context.Context, k key, run *singleworker.Run, lost error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	s, err := db.find(ctx, k, run.Token)
	switch {
	case err != nil:
		return fmt.Errorf("once: %v: whether its transaction was committed is not known, which the next attempt finds out: %w", k, errors.Join(lost, err))
	case s.done == nil:
		return fmt.Errorf("once: %v: not committed: %w", k, lost)
	case s.done.RunID == run.ID:
		return nil
	}
	return s.done
}

// find asks for a marker until the database answers, or ctx ends.
func (db *DB) find(ctx context.Context, k key, token int64) (s state, err error) {
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for {
		s, err = db.findNow(ctx, k, token)
		if err == nil {
			return s, nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return s, err
		}
		if ctx.Err() != nil { // both may be ready
			return s, err
		}
	}
}

// findNow looks for a marker in a transaction of its own, behind the fence, which it raises. So it
// waits for a transaction of the slot that is on its way, and one of a smaller token that comes
// later is refused. In SQLite that transaction waits for each other one, of all slots. So a marker
// that is there already is found without it, for markers stay.
func (db *DB) findNow(ctx context.Context, k key, token int64) (s state, err error) {
	if err := db.check(ctx); err != nil {
		return s, err
	}
	if db.d == SQLite {
		if s, err = db.read(ctx, db.sql, k); err == nil && s.done != nil {
			return s, nil
		}
	}
	var opts sql.TxOptions
	if db.d == Postgres { // which refuses a transaction for having waited, at a stricter isolation
		opts.Isolation = sql.LevelReadCommitted
	}
	tx, err := db.sql.BeginTx(ctx, &opts)
	if err != nil {
		return s, err
	}
	defer tx.Rollback() //nolint:errcheck // as above
	if s, err = db.enter(ctx, tx, k, token); err != nil {
		return s, err
	}
	if err = tx.Commit(); s.done != nil {
		err = nil // the marker stays, whatever becomes of the fence
	}
	return s, err
}

// Resolver returns a singleworker.Config.Resolve for handlers that use Do, as the ones of Wrap do.
// It finds the marker of the run's tick, and the run that wrote it. If there is none, the
// interrupted run will write none any more, because the resolver has raised the fence. The markers
// of steps do not count: a handler of several steps says by Do, after the last one, that all is
// done. Errors are ErrFenced and ErrPruned, as of Do, and what the database returns. While the
// database does not answer, it is asked again until ctx ends.
func Resolver(db *DB) singleworker.Resolver {
	return func(ctx context.Context, run *singleworker.Run) (effects singleworker.Effects, found bool, err error) {
		k, err := keyOf(run, "")
		if err != nil {
			return effects, false, err
		}
		s, err := db.find(ctx, k, run.Token)
		if err != nil {
			return effects, false, fmt.Errorf("once: %v: look for its marker: %w", k, err)
		}
		if s.done != nil {
			return singleworker.Effects{RunID: s.done.RunID, InstanceID: s.done.InstanceID, At: s.done.At}, true, nil //nolint:nilerr // err is nil
		}
		return effects, false, s.refuses(k, run.Token)
	}
}
