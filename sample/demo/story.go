package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/swjobs/singleworker/sample/record"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// submission is a submitted job. Its period is stated so that the due ticks can be counted
// independently of the library.
type submission struct {
	name, schedule, zone, handler string
	period                        time.Duration
}

var jobs = []submission{
	{"backup", "*/1 * * * * ? 2026-2099", "UTC", "print-number", time.Second},
	{"berlin", "*/1 * * * * ?", "Europe/Berlin", "print-time", time.Second},
	{"counter", "@every 1s", "UTC", "print-number", time.Second},
	{"invoices", "*/1 * * * * ?", "UTC", "print-number", time.Second},
	{"mails", "* * * * * ?", "UTC", "print-number", time.Second},
	{"metrics", "0-59 * * * * ?", "UTC", "print-time", time.Second},
	{"report", "@every 1s", "UTC", "print-time", time.Second},
	{"shanghai", "0/1 * * * * ?", "Asia/Shanghai", "print-time", time.Second},
	{"thumbs", "@every 1s", "UTC", "print-number", time.Second},
}

const canceled = "metrics"

var instances = []string{"app-1", "app-2", "app-3"}

// demo is one run of the demo.
type demo struct {
	config
	printer
	children

	client    *admin.Client // once findServer has connected
	record    record.Dir
	err       error  // the first failure to write the record
	submitted bool   // there are jobs to clean up
	shares    string // of the jobs, when they were last even
	victim    string // the instance to kill
}

// play runs all steps.
func (d *demo) play(ctx context.Context) (record.Verdict, error) {
	for _, step := range []func(context.Context) error{
		d.findServer, d.startInstances, d.submitJobs, d.killBusiest, d.restartKilled,
		d.stopAnother, d.cancelOne, d.stopAll,
	} {
		if err := errors.Join(step(ctx), d.err); err != nil {
			return record.Verdict{}, err
		}
	}
	return d.record.Judge()
}

func (d *demo) findServer(ctx context.Context) error {
	d.sayf("ZooKeeper at %s, %s", d.Servers, d.About)
	// The server may still be starting.
	dialing, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client, err := admin.Dial(dialing, admin.Config{Servers: d.Servers, ServerType: d.ServerType})
	if err != nil {
		return fmt.Errorf("connect to %s: %w", d.Servers, err)
	}
	d.client = client
	if err := d.refuseToShare(ctx); err != nil {
		return err
	}
	d.sayf("connected; to watch from another terminal (with go run ./cmd/swctl instead of swctl):")
	d.commandf("export SWCTL_ZK=%s SWCTL_SERVER_TYPE=%s", d.Servers, d.ServerType)
	return nil
}

// refuseToShare returns an error if the group is in use: the demo's instances would run its jobs,
// and the demo would cancel them.
func (d *demo) refuseToShare(ctx context.Context) error {
	owners, err := d.owners(ctx)
	if err != nil {
		return err
	}
	running, err := d.runningInstances(ctx)
	if err == nil && len(owners)+running > 0 {
		err = fmt.Errorf("server type %s at %s is in use, with %d jobs and %d instances: choose another",
			d.ServerType, d.Servers, len(owners), running)
	}
	return err
}

func (d *demo) startInstances(ctx context.Context) error {
	d.sayf("starting three instances, each a separate process:")
	for _, sid := range instances {
		d.commandf("go run ./sample/app --zk %s --server-type %s --id %s --session-timeout %s &",
			d.Servers, d.ServerType, sid, d.Session)
		d.note("instance", sid)
		if err := d.startInstance(sid); err != nil {
			return err
		}
	}
	err := d.await(ctx, 15*time.Second, "three instances", func() error {
		running, err := d.runningInstances(ctx)
		if err == nil && running != len(instances) {
			err = fmt.Errorf("%d run", running)
		}
		return err
	})
	if err != nil {
		return err
	}
	d.sayf("three instances are running:")
	return d.showInstances(ctx)
}

func (d *demo) submitJobs(ctx context.Context) error {
	d.submitted = true
	d.sayf("submitting nine jobs that are due every second:")
	for _, j := range jobs {
		d.commandf("swctl submit %s '%s' --tz %s --handler %s", j.name, j.schedule, j.zone, j.handler)
		described := job.Job{Name: j.name, Schedule: j.schedule, TimeZone: j.zone, Handler: j.handler}
		if _, err := d.client.Submit(ctx, described, admin.SubmitOptions{}); err != nil {
			return err
		}
		d.note("job", j.name, millis(j.period))
	}
	if err := d.evenOut(ctx, instances); err != nil {
		return err
	}
	d.note("settled")
	if err := d.moreRuns(ctx); err != nil {
		return err
	}
	d.sayf("each job has one owner, shares are %s:", d.shares)
	return d.showJobs(ctx)
}

func (d *demo) killBusiest(ctx context.Context) error {
	owners, err := d.snapshot(ctx, "before-kill")
	if err != nil {
		return err
	}
	sid, owned, err := owners.Busiest()
	if err != nil {
		return err
	}
	d.victim = sid
	if err := d.idle(ctx, sid); err != nil {
		return err
	}
	d.sayf("%s: %s, the owner of %d jobs, dies; its session expires in %s ms, but no run is in progress",
		d.red("kill -9 "+strconv.Itoa(d.pid(sid))), sid, owned, millis(d.Session))
	d.note("kill", sid)
	if err := d.signal(sid, syscall.SIGKILL); err != nil {
		return err
	}
	if err := d.moved(ctx, "kill", "kill"); err != nil {
		return err
	}
	return d.evenOut(ctx, others(sid))
}

func (d *demo) restartKilled(ctx context.Context) error {
	d.note("join", d.victim)
	if err := d.startInstance(d.victim); err != nil {
		return err
	}
	if err := d.evenOut(ctx, instances); err != nil {
		return err
	}
	d.sayf("started %s again: it got its share of the jobs, shares are %s", d.victim, d.shares)
	return d.moreRuns(ctx)
}

func (d *demo) stopAnother(ctx context.Context) error {
	sid := others(d.victim)[0]
	if _, err := d.snapshot(ctx, "before-stop"); err != nil {
		return err
	}
	d.sayf("kill -TERM %d: %s stops cleanly and hands over its jobs", d.pid(sid), sid)
	d.note("stop", sid)
	if err := d.signal(sid, syscall.SIGTERM); err != nil {
		return err
	}
	if err := d.evenOut(ctx, others(sid)); err != nil {
		return err
	}
	return d.moved(ctx, "stop", "signal")
}

func (d *demo) cancelOne(ctx context.Context) error {
	d.sayf("canceling a job while it runs every second:")
	d.commandf("swctl cancel --yes %s", canceled)
	d.note("cancel", canceled)
	if _, err := d.client.Cancel(ctx, canceled); err != nil {
		return err
	}
	d.note("canceled", canceled)
	if err := d.evenOut(ctx, d.runningIDs()); err != nil {
		return err
	}
	return d.moreRuns(ctx)
}

func (d *demo) stopAll(context.Context) error {
	d.note("quit")
	d.end()
	runs, err := d.record.CountRuns()
	d.sayf("stopped all instances; checking the ledger: %d runs", runs)
	return err
}

// moved waits until the jobs of an instance run elsewhere, and shows how they moved.
func (d *demo) moved(ctx context.Context, step, since string) error {
	var table string
	err := d.await(ctx, d.Session+16*time.Second, "its jobs to run elsewhere", func() (err error) {
		if _, err = d.snapshot(ctx, "after-"+step); err == nil {
			table, err = d.record.Moved(step)
		}
		return err
	})
	if err != nil {
		return err
	}
	d.sayf("takeover: its jobs run elsewhere; times since the %s:", since)
	d.indent(table)
	return nil
}

// evenOut waits until these instances have even shares.
func (d *demo) evenOut(ctx context.Context, sids []string) error {
	err := d.await(ctx, 15*time.Second, "fair shares", func() error {
		owners, err := d.owners(ctx)
		if err == nil {
			d.shares, err = owners.Shares(sids)
		}
		return err
	})
	if err == nil {
		d.note("shares", d.shares)
	}
	return err
}

// moreRuns waits for some more runs.
func (d *demo) moreRuns(ctx context.Context) error {
	before, err := d.record.CountRuns()
	if err != nil {
		return err
	}
	return d.await(ctx, 15*time.Second, "runs", func() error {
		now, err := d.record.CountRuns()
		if err == nil && now < before+d.Runs {
			err = fmt.Errorf("%d of %d", now-before, d.Runs)
		}
		return err
	})
}

// others returns the other instances.
func others(sid string) []string {
	return slices.DeleteFunc(slices.Clone(instances), func(s string) bool { return s == sid })
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
