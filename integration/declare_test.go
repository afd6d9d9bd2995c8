package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

func TestDeclarations(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	const name = "declared"
	declare := func(schedule string) options {
		return options{Jobs: []singleworker.Job{{Name: name, Schedule: schedule, Handler: work}}}
	}
	// want waits until the job is as expected and checks that it stays so.
	want := func(what, schedule string, declared bool) {
		t.Helper()
		check := func() error {
			status, err := c.admin.Get(t.Context(), name)
			if err == nil && (status.Job.Schedule != schedule || status.Declared != declared) {
				err = fmt.Errorf("schedule %q, declared %v", status.Job.Schedule, status.Declared)
			}
			return err
		}
		c.eventually(what, check)
		c.throughout(syncPeriod, what, check)
	}
	operator := func(schedule string) {
		t.Helper()
		c.submitJob(job.Job{Name: name, Schedule: schedule, Handler: work}, admin.SubmitOptions{Replace: true})
	}

	c.start(declare(everySecond))
	want("created when absent", everySecond, true)
	c.awaitRun(name, time.Time{})

	c.start(declare("@hourly"))
	want("a newer declaration replaces an older one", "@hourly", true)

	operator("@daily")
	want("an operator replaces a declaration", "@daily", false)
	c.start(declare("@hourly"))
	want("which stays for the declaration that it overrode", "@daily", false)

	c.start(declare("@weekly"))
	want("and is replaced by a different one", "@weekly", true)

	operator("@monthly")
	operator("@weekly")
	want("an operator's change back is as declared", "@weekly", true)

	// An older release declares the job differently: the most recently started instance wins.
	c.start(declare("@hourly"))
	want("the last declaration wins", "@hourly", true)
}

func TestDeclarationReplacesOperatorsJob(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	c.submitJob(job.Job{Name: "job", Schedule: "@daily", Handler: work}, admin.SubmitOptions{})
	c.start(options{Jobs: []singleworker.Job{{Name: "job", Schedule: everySecond, Handler: work}}})
	c.awaitRun("job", time.Time{})
	if status := c.get("job"); !status.Declared || status.Job.Schedule != everySecond {
		t.Errorf("job is %+v, want it as declared", status)
	}
}

func TestManyInstancesDeclareConcurrently(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	var jobs []singleworker.Job
	for k := range 6 {
		jobs = append(jobs, singleworker.Job{Name: fmt.Sprintf("job-%d", k), Schedule: everySecond, Handler: work})
	}
	for range 3 {
		c.start(options{Jobs: jobs})
	}
	c.awaitEven(len(jobs), 3)
	for _, job := range jobs {
		c.awaitRun(job.Name, time.Time{})
		if version := c.get(job.Name).Version; version != 0 {
			t.Errorf("%s was written %d times more than once", job.Name, version)
		}
	}
}

// A job record written by a newer release, which this one cannot read, is not changed and does not
// prevent instances from starting.
func TestDeclarationOverNewerRecord(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	raw := c.raw("")
	const newer = `{"schema":99,"when":"soon"}`
	c.create(raw, "")
	c.create(raw, newer, "future")
	c.start(options{Jobs: []singleworker.Job{
		{Name: "future", Schedule: "@daily", Handler: work},
		{Name: "job", Schedule: everySecond, Handler: work},
	}})
	c.awaitRun("job", time.Time{})
	if data, stat, err := raw.Get(c.node("future")); err != nil || string(data) != newer || stat.Version != 0 {
		t.Errorf("the newer record is %q, version %d, %v; want it untouched", data, stat.Version, err)
	}
}
