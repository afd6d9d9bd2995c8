package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/swjobs/singleworker/sample/record"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
)

// note adds an event to the record.
func (d *demo) note(words ...string) {
	if err := d.record.Event(words...); err != nil && d.err == nil {
		d.err = err
	}
}

func (d *demo) owners(ctx context.Context) (record.Owners, error) {
	list, err := d.client.List(ctx)
	if err != nil {
		return nil, err
	}
	owners := make(record.Owners, len(list))
	for _, job := range list {
		owners[job.Name] = record.Owner{}
		if job.State == admin.StateOwned {
			owners[job.Name] = record.Owner{SID: job.Owner.InstanceID, Since: record.Millis(job.Owner.Since.UnixMilli())}
		}
	}
	return owners, nil
}

// snapshot returns the owners and saves them in the record.
func (d *demo) snapshot(ctx context.Context, when string) (record.Owners, error) {
	owners, err := d.owners(ctx)
	if err != nil {
		return nil, err
	}
	return owners, d.record.SaveOwners(when, owners)
}

func (d *demo) runningInstances(ctx context.Context) (int, error) {
	all, err := d.client.Instances(ctx)
	return len(all), err
}

// showJobs and showInstances print short versions of swctl list and swctl instances.
func (d *demo) showJobs(ctx context.Context) error {
	list, err := d.client.List(ctx)
	if err != nil {
		return err
	}
	rows := []string{"NAME\tSCHEDULE\tZONE\tSTATE\tOWNER"}
	for _, job := range list {
		owner := "-"
		if job.Owner != nil {
			owner = job.Owner.InstanceID
		}
		rows = append(rows, strings.Join([]string{job.Name, job.Job.Schedule, job.Job.TimeZone, string(job.State), owner}, "\t"))
	}
	d.table(rows)
	return nil
}

func (d *demo) showInstances(ctx context.Context) error {
	all, err := d.client.Instances(ctx)
	if err != nil {
		return err
	}
	rows := []string{"INSTANCE\tSTATE\tHOST\tPID"}
	for _, i := range all {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%d", i.ID, i.State, i.Host, i.PID))
	}
	d.table(rows)
	return nil
}

// await calls look until it returns nil. It fails after a timeout, and when an instance exits
// unexpectedly.
func (d *demo) await(ctx context.Context, patience time.Duration, what string, look func() error) error {
	const pause = 100 * time.Millisecond
	for deadline := time.Now().Add(patience); ; {
		err := look()
		switch ended := d.endedByItself(); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			return nil
		case ended != "":
			return fmt.Errorf("%s exited unexpectedly: its log is above", ended)
		case time.Now().After(deadline):
			return fmt.Errorf("%s did not happen: %w", what, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// idle waits until no run of an instance's jobs is in progress, nor about to begin: a job in
// mid-run is taken over when the session ends.
func (d *demo) idle(ctx context.Context, sid string) error {
	const soon = 250 * time.Millisecond
	return d.await(ctx, 15*time.Second, "a moment in which "+sid+" runs nothing", func() error {
		jobs, err := d.client.List(ctx)
		if err != nil {
			return err
		}
		for _, job := range jobs {
			if job.Owner == nil || job.Owner.InstanceID != sid {
				continue
			}
			if job.LastRun != nil && job.LastRun.State == history.StateRunning || time.Until(job.NextRun) < soon {
				return fmt.Errorf("%s runs, or is about to", job.Name)
			}
		}
		return nil
	})
}
