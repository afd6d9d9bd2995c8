package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// JobVersion is a job as it was between two changes.
type JobVersion struct {
	Number int       `json:"number"`      // from 1
	At     time.Time `json:"at,omitzero"` // since when, on ZooKeeper's clock; zero if that is not known
	// Kind, By, From and Reason are as in the LogEntry of the change, or empty if they are not known,
	// as of the first version.
	Kind   string  `json:"change,omitempty"`
	By     string  `json:"by,omitempty"`
	From   string  `json:"from,omitempty"`
	Reason string  `json:"reason,omitempty"`
	Job    job.Job `json:"spec,omitzero"` // with its defaults spelled out; only its Name is set if its record cannot be read
}

// Versions returns the versions of a job, the present one first, and the last 10 before it, or
// fewer if they are long. Changes by programs of an older version of this library make none.
// Errors: *invalid.FieldError for the name, ErrNotFound, ErrUnreadable, ErrDenied, ErrUnavailable.
func (c *Client) Versions(ctx context.Context, name string) ([]JobVersion, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return retried(ctx, c.conn, fmt.Sprintf("versions of job %q", name), func() ([]JobVersion, error) { return c.versions(ctx, name) })
}

func (o observer) versions(ctx context.Context, name string) (list []JobVersion, err error) {
	read, err := o.readJob(ctx, name)
	if errors.Is(err, ErrNotFound) {
		err = o.gone(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	data, stat, err := o.optional(ctx, o.tree.Versions(name))
	if err != nil {
		return nil, err
	}
	versions, err := zkrec.ParseVersions(data, stat.Mtime)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	present := zkrec.Version{Number: 1, At: zkrec.Milli(read.stat.Ctime)}
	if spec, err := zkrec.ParseSpec(name, read.spec); err == nil && spec.Number() > 1 {
		present = zkrec.Version{Number: spec.Number()} // its record is gone
	}
	if n := len(versions.List); n > 0 && versions.List[n-1].Number >= present.Number {
		versions.List, present = versions.List[:n-1], versions.List[n-1]
	}
	present.Spec = read.spec
	for _, v := range slices.Backward(append(versions.List, present)) {
		d, _ := zkrec.ParseDeed(v.Deed)
		one := JobVersion{Number: v.Number, At: zkrec.Time(v.At), Kind: d.Kind, By: d.By, From: d.From, Reason: d.Reason, Job: job.Job{Name: name}}
		if spec, err := zkrec.ParseSpec(name, v.Spec); err == nil {
			one.Job = spec.Job.WithDefaults()
		}
		list = append(list, one)
	}
	return list, nil
}

// Version returns a version of a job. Errors: as of Versions, and ErrNoVersion.
func (c *Client) Version(ctx context.Context, name string, number int) (JobVersion, error) {
	versions, err := c.Versions(ctx, name)
	if err != nil {
		return JobVersion{}, err
	}
	v, err := numbered(versions, number)
	if err != nil {
		return JobVersion{}, fmt.Errorf("job %q: %w", name, err)
	}
	return v, nil
}

// numbered is the version with a number.
func numbered(versions []JobVersion, number int) (JobVersion, error) {
	var kept []string
	for _, v := range versions {
		if v.Number == number {
			return v, nil
		}
		kept = append(kept, strconv.Itoa(v.Number))
	}
	return JobVersion{}, fmt.Errorf("%w: %d is not kept, there is %s", ErrNoVersion, number, strings.Join(kept, ", "))
}

// Rollback makes a job again as it was in a former version. It is a change like any Edit: it begins
// now, keeps a pause, and stays until the code declares something new. Errors: as of Edit, and
// ErrNoVersion.
func (c *Client) Rollback(ctx context.Context, name string, to int, opts EditOptions) (Change, error) {
	d := c.deed(ctx, zkrec.DeedRollback, Who{}, name)
	d.Reason = cmp.Or(d.Reason, fmt.Sprintf("to version %d", to))
	return c.edit(ctx, name, d, func(j *job.Job) error {
		versions, err := c.versions(ctx, name) // of the job that was read, or nothing is written
		if err != nil {
			return err
		}
		v, err := numbered(versions, to)
		if err == nil && v.Job.Schedule == "" {
			err = fmt.Errorf("%w: version %d", ErrUnreadable, to)
		}
		*j = v.Job
		return err
	}, opts)
}
