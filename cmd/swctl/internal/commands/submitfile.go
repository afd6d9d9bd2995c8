package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/fields"
	"github.com/swjobs/singleworker/cmd/swctl/internal/files"
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
	found, err := readFiles(c.Call)
	if err != nil {
		return err
	}
	var others []files.Place
	for _, e := range found.Calendars {
		others = append(others, e.Place)
	}
	for _, e := range found.Limits {
		others = append(others, e.Place)
	}
	if len(others) > 0 {
		return cmdline.Usage("submit: %s: calendars and limits are not submitted", others[0]).Try("swctl apply -f FILE sets them before the jobs")
	}
	var jobs []job.Job
	generations := make(map[string]int, len(found.Jobs))
	for _, e := range found.Jobs {
		jobs = append(jobs, e.Job)
	}
	for i, generation := range files.Generations(jobs) {
		generations[jobs[i].Name] = generation
	}
	slices.SortStableFunc(jobs, func(a, b job.Job) int { return cmp.Compare(generations[a.Name], generations[b.Name]) })
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
		changes, err := eachSubmitted(ctx, client, jobs, opts)
		if err != nil && len(changes) == 0 {
			return err
		}
		return errors.Join(err, c.put(api.List("SubmitResultList", changes), func(p render.Page) {
			for _, change := range changes {
				p.Changed(change, "not awaited")
			}
		}))
	})
}

// eachSubmitted submits one job after the other, and ends with the first error, which then names
// how many were not submitted.
func eachSubmitted(ctx context.Context, client group.Client, jobs []job.Job, opts admin.SubmitOptions) (changes []api.Change, err error) {
	for i, j := range jobs {
		done, err := submitted(ctx, client, j, opts)
		if left := jobs[i+1:]; err != nil && len(left) > 0 {
			err = fmt.Errorf("%w; it and %s after it were not submitted", err, render.Count(len(left)))
		}
		if err != nil {
			return changes, err
		}
		changes = append(changes, api.ChangeOf(done, opts.DryRun, admin.JobStatus{}))
	}
	return changes, nil
}

// submitted submits a job. If another one has its name, the error says what to try.
func submitted(ctx context.Context, client group.Client, j job.Job, opts admin.SubmitOptions) (admin.Change, error) {
	done, err := client.Submit(ctx, j, opts)
	if errors.Is(err, admin.ErrExists) {
		err = cmdline.WithHint(err, "swctl show %s to see it, --replace to change it", plain.Quoted(j.Name))
	}
	return done, err
}
