package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/fields"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/job"
)

const (
	flagFile = "file"
	// maxFile is how long a file may be that swctl reads: ten thousand jobs are a few megabytes.
	maxFile = 16 << 20
)

// readInput reads a file, or stdin for "-".
func (c *call) readInput(path string) ([]byte, error) {
	in := c.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, cmdline.Usage("%s: %w", c.Command, err).Try("the path of a file that you may read, or - for stdin")
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	switch {
	case err != nil:
		return nil, cmdline.Usage("%s: read %s: %w", c.Command, path, err).Try("the path of a file that you may read, or - for stdin")
	case len(text) > maxFile:
		return nil, cmdline.Usage("%s: %s has more than %d MiB", c.Command, path, maxFile>>20).Try("smaller files")
	}
	return text, nil
}

// jobsOfFile reads jobs as JSON: one, or a list. Each is checked, so that nothing is submitted if
// one is wrong.
func (c *call) jobsOfFile(path string) ([]job.Job, error) {
	text, err := c.readInput(path)
	if err != nil {
		return nil, err
	}
	var jobs []job.Job
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		err = json.Unmarshal(text, &jobs)
	} else {
		jobs = make([]job.Job, 1)
		err = json.Unmarshal(text, &jobs[0])
	}
	if err != nil {
		return nil, cmdline.Usage("submit: %s: %w", path, err).Try(`a job such as {"name":"nightly","schedule":"0 3 * * *"}, or a list of them`)
	}
	seen := map[string]bool{}
	for _, j := range jobs {
		if seen[j.Name] {
			return nil, cmdline.Usage("submit: %s: the job %s is there twice", path, plain.Quoted(j.Name)).Try("another name for one of them")
		}
		seen[j.Name] = true
		if err := fields.Refused(j.Validate()); err != nil {
			return nil, cmdline.WithHint(fmt.Errorf("submit: %s: job %s: %w; nothing was submitted", path, plain.Quoted(j.Name), err), "%s", cmdline.HintOf(err))
		}
	}
	return jobs, nil
}

// submitFile submits each job of a file, and ends with the first that is refused. It does not wait
// for owners.
func submitFile(ctx context.Context, c *call, opts admin.SubmitOptions) error {
	if _, given, err := fields.Changes(c.Call); err != nil || given || len(c.Args) > 0 {
		return cmdline.Usage("submit: --file goes without a name, a schedule and the flags of a job").
			Try("swctl submit --file jobs.json; the file has all of a job")
	}
	jobs, err := c.jobsOfFile(c.Flags.String(flagFile))
	if err != nil {
		return err
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		for _, j := range jobs { // whether one has ended depends on the group's time
			if schedule, err := j.ParseSchedule(); err != nil || !schedule.Once() {
				continue
			}
			if _, err := client.Submit(ctx, j, admin.SubmitOptions{Replace: true, DryRun: true}); err != nil {
				err = fields.Refused(err)
				return cmdline.WithHint(fmt.Errorf("%w; nothing was submitted", err), "%s", cmdline.HintOf(err))
			}
		}
		var changes []api.Change
		err := eachSubmitted(ctx, client, jobs, opts, func(done admin.Change) {
			status := admin.JobStatus{Name: done.Job.Name, Job: done.Job, NextRun: done.NextRun, Version: done.Version, State: admin.StateUnowned}
			changes = append(changes, api.Change{Outcome: done.Outcome, DryRun: opts.DryRun, Job: status, Before: done.Before})
		})
		if err != nil && len(changes) == 0 {
			return err
		}
		putErr := c.put(api.List("SubmitResultList", changes), func(p render.Page) {
			for _, change := range changes {
				p.Changed(change, "not awaited")
			}
		})
		return errors.Join(err, putErr)
	})
}

func eachSubmitted(ctx context.Context, client group.Client, jobs []job.Job, opts admin.SubmitOptions, use func(admin.Change)) error {
	for i, j := range jobs {
		done, err := client.Submit(ctx, j, opts)
		if err == nil {
			use(done)
			continue
		}
		hint := ""
		if errors.Is(err, admin.ErrExists) {
			hint = fmt.Sprintf("swctl show %s to see it, --replace to change it", plain.Quoted(j.Name))
		}
		if left := jobs[i+1:]; len(left) > 0 {
			err = fmt.Errorf("%w; it and %s after it were not submitted", err, render.Count(len(left)))
		}
		if hint != "" {
			err = cmdline.WithHint(err, "%s", hint)
		}
		return err
	}
	return nil
}
