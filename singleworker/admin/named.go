package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/singleworker/internal/deeds"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// named is a kind of records that jobs name: calendars, or limits.
type named struct {
	word   string // in errors
	parent string // of their nodes
	check  func(name string) error
	of     func(job.Job) []string // the names that a job has
	none   error                  // there is no such record
}

// NamedOptions are options of a change of a calendar, or of a limit. The zero value makes it.
type NamedOptions struct {
	// DryRun checks and reports the change, and writes nothing.
	DryRun bool
	// Set records to which files it belongs: see SubmitOptions.Set. Default: as it is. What deletes
	// it, or frees its places, ignores that.
	Set string
}

// NamedChange says how a change of a calendar or of a limit ended, and which jobs name it.
type NamedChange struct {
	Outcome Outcome  `json:"outcome"`
	Name    string   `json:"name"`
	Jobs    []string `json:"jobs,omitempty"`
}

// ErrInUse means that jobs name a calendar or a limit that is to be deleted.
var ErrInUse = errors.New("jobs name it")

// users are the jobs that name records, by the name of the record, each in the order of their
// names. A job whose record cannot be read names none.
func (rd reader) users(ctx context.Context, of func(job.Job) []string) (users map[string][]zkrec.Spec, err error) {
	users = make(map[string][]zkrec.Spec)
	names, err := rd.children(ctx, rd.tree.Root())
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !zkrec.IsJob(name) })
	slices.Sort(names)
	err = rd.eachOf(ctx, rd.tree.Root(), names, func(node child) {
		spec, err := zkrec.ParseSpec(node.name, node.data)
		if err != nil || spec.Canceled {
			return
		}
		for _, name := range of(spec.Job) {
			users[name] = append(users[name], spec)
		}
	})
	return users, err
}

func jobNames(users []zkrec.Spec) (names []string) {
	for _, spec := range users {
		names = append(names, spec.Job.Name)
	}
	return names
}

// Children lists the jobs that run after one of the given jobs, see job.Job.After, by name, but for
// those that are given: without them they are invalid. It reads the specs of all jobs. Errors:
// ErrDenied, ErrUnavailable.
func (c *Client) Children(ctx context.Context, parents ...string) ([]string, error) {
	return retried(ctx, c.conn, "list children", func() ([]string, error) {
		users, err := c.users(ctx, func(j job.Job) []string { return j.After })
		children := make(map[string]bool)
		for _, parent := range parents {
			for _, name := range jobNames(users[parent]) {
				children[name] = true
			}
		}
		for _, parent := range parents {
			delete(children, parent)
		}
		return slices.Sorted(maps.Keys(children)), err
	})
}

// newer is the error of a record that a newer version has written, which is not replaced.
func newer(err error) error {
	if errors.As(err, new(*zkrec.SchemaError)) {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return nil
}

// deletable says why a record cannot be deleted: it was read with that error, if any, and is there
// or not.
func deletable(unreadable error, there bool, users []zkrec.Spec, none error) error {
	switch {
	case unreadable != nil:
		return fmt.Errorf("%w: %w", ErrUnreadable, unreadable)
	case !there:
		return none
	case len(users) > 0:
		return fmt.Errorf("%w: %s", ErrInUse, strings.Join(jobNames(users), ", "))
	}
	return nil
}

// changeNamed reads a record and the jobs that name it, and writes the data that change returns,
// unless meanwhile another job has come to name such a record. A record that is missing has no
// name. Nodes are those that are made with it.
func (ed editor) changeNamed(
	ctx context.Context, of named, name, kind string, dryRun bool,
	change func(at child, users []zkrec.Spec) (data []byte, outcome Outcome, err error), nodes ...string,
) (done NamedChange, err error) {
	if err := of.check(name); err != nil {
		return done, &invalid.FieldError{Of: of.word, Field: "Name", Value: name, Err: err}
	}
	sent := false
	err = ed.persist(ctx, func() error {
		_, before, err := ed.optional(ctx, of.parent) // before the jobs are read
		if err != nil {
			return err
		}
		users, err := ed.users(ctx, of.of)
		if err != nil {
			return err
		}
		var at child
		if err := ed.eachOf(ctx, of.parent, []string{name}, func(node child) { at = node }); err != nil || at.err != nil {
			return errors.Join(err, at.err)
		}
		data, outcome, err := change(at, users[name])
		switch {
		case sent && (outcome == OutcomeUnchanged || errors.Is(err, of.none)):
			return nil // an earlier try was applied after all
		case err != nil:
			return err
		}
		done = NamedChange{Outcome: outcome, Name: name, Jobs: jobNames(users[name])}
		if outcome == OutcomeUnchanged || dryRun {
			return nil
		}
		sent = true
		write := node{path: of.parent + "/" + name, stat: at.stat, here: at.name != ""}
		ops := []zkconn.Op{write.write(data), zkconn.CheckOp(of.parent, before.Version)}
		var told []string
		if !write.here { // nobody watches it
			told = done.Jobs
			for _, path := range nodes {
				ops = append(ops, zkconn.CreateOp(path, nil))
			}
		}
		return ed.writeNamed(ctx, of, kind, name, told, ops)
	})
	if err != nil {
		return NamedChange{}, fmt.Errorf("%s %s: %w", of.word, name, uncertain(err, sent))
	}
	return done, nil
}

// writeNamed writes a record, and tells those jobs of it.
func (ed editor) writeNamed(ctx context.Context, of named, kind, name string, told []string, ops []zkconn.Op) error {
	if err := ed.conn.EnsureRoot(ctx, of.parent); err != nil {
		return err
	}
	deed := ed.deed(ctx, kind, Who{})
	deed.Where = name
	_, err := deeds.Write(ctx, ed.conn, ed.tree, deed, ops, func(ops []zkconn.Op) ([]zkconn.Stat, error) {
		return signals.Multi(ctx, ed.conn, signals.OfJobs(ed.tree, told), ops...)
	})
	return err
}
