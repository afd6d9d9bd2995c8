package commands

import (
	"context"
	"errors"
	"fmt"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/fields"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/job"
)

// submitFile submits each job of a file, and ends with the first that is refused. It does not wait
// for owners.
func submitFile(ctx context.Context, c *call, opts admin.SubmitOptions) error {
	if _, given, err := fields.Changes(c.Call); err != nil || given || len(c.Args) > 0 {
		return cmdline.Usage("submit: --file goes without a name, a schedule and the flags of a job").
			Try("swctl submit --file jobs.json; the file has all of a job")
	}
	entries, err := readFiles(c.Call)
	if err != nil {
		return err
	}
	var jobs []job.Job
	for _, e := range entries {
		jobs = append(jobs, e.Job)
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
			changes = append(changes, api.ChangeOf(done, opts.DryRun, admin.JobStatus{}))
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
