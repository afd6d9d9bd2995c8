package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// operatorLimit is how long one command may take.
const operatorLimit = 20 * time.Second

// Groups of jobs that operators change.
var (
	changing  = []string{"changing", "rows", "second-20ms"}
	suspended = []string{"all", "second-500ms", "rows-queue"}
	slow      = []string{"long", "second-1500ms"}
)

// theJobs are the jobs that operators have submitted. The instances declare more.
func theJobs() []job.Job {
	of := func(name, schedule, duration string, more ...func(*job.Job)) job.Job {
		j := job.Job{Name: name, Schedule: schedule, Handler: "work", Args: map[string]string{"for": duration}}
		for _, change := range more {
			change(&j)
		}
		return j
	}
	const each, second, third = "* * * * * ?", "*/2 * * * * ?", "*/3 * * * * ?"
	queue := func(j *job.Job) { j.Overlap = job.OverlapQueue }
	flaky := func(j *job.Job) { j.Handler = "flaky" }
	watched := func(j *job.Job) { j.AlarmAfter = alarmAfter }
	limited := func(need int) func(*job.Job) {
		return func(j *job.Job) { j.Limits = map[string]int{theLimit: need} }
	}
	after := func(parents ...string) func(*job.Job) {
		return func(j *job.Job) { j.Schedule, j.After = "@after", parents }
	}
	var crowd []job.Job
	for k := range crowdSize {
		crowd = append(crowd, of(fmt.Sprintf("crowd-%03d", k), fmt.Sprintf("*/%d * * * * ?", crowdPeriod/time.Second), "1ms", watched))
	}
	return append(crowd,
		of("second-20ms", each, "20ms", watched),
		of("second-500ms", each, "500ms"),
		of("second-900ms", each, "900ms", queue),
		of("second-1500ms", each, "1500ms"),
		of("all", second, "100ms", watched, func(j *job.Job) { j.Misfire = job.MisfireAll }),
		of("skip", third, "100ms", watched, func(j *job.Job) { j.Misfire = job.MisfireSkip }),
		of("once", second, "1500ms", func(j *job.Job) { j.Interrupted = job.InterruptedSkip }),
		of("long", third, "8s"),
		of("flaky", second, "50ms", flaky, func(j *job.Job) { j.Retries, j.Backoff = 2, 200*time.Millisecond }),
		of("flaky-once", each, "50ms", flaky),
		of("timeout", third, "5s", func(j *job.Job) { j.Timeout = time.Second }),
		of("rows", second, "300ms", watched, func(j *job.Job) { j.Shards = 3 }),
		of("rows-queue", each, "700ms", queue, func(j *job.Job) { j.Shards = 2 }),
		of("changing", each, "200ms"),
		// A diamond, and one after a job whose schedule changes.
		of("left", "", "50ms", after("skip")),
		of("right", "", "400ms", after("skip")),
		of("end", "", "50ms", after("left", "right"), func(j *job.Job) { j.Deadline = 2 * time.Second }),
		of("follower", "", "50ms", after("changing")),
		// Six that share three places.
		of("api-0", each, "100ms", limited(1)),
		of("api-1", each, "300ms", limited(1)),
		of("api-2", second, "500ms", limited(1)),
		of("api-3", third, "1s", limited(1)),
		of("api-4", third, "200ms", limited(2)),
		of("api-5", second, "200ms", limited(2), func(j *job.Job) { j.Interrupted = job.InterruptedSkip }),
	)
}

// A limit that some jobs share, and its places.
const (
	theLimit  = "api"
	thePlaces = 3
)

// The crowd is jobs that are due at the same moments.
const (
	crowdSize   = 150
	crowdPeriod = 5 * time.Second
	// alarmAfter is for the crowd and some others.
	alarmAfter = 5 * time.Second
)

// An operator changes jobs and gives orders to instances, while the servers are there or not. Each
// command has its own goroutine.
type operator struct {
	t      *testing.T
	client *admin.Client
	jobs   []job.Job

	running sync.WaitGroup
	mu      sync.Mutex
	notes   map[*deed]string // what came of it
}

func newOperator(t *testing.T, servers string) *operator {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := admin.Dial(ctx, admin.Config{Servers: servers, ServerType: groupName})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	o := &operator{t: t, client: client, jobs: theJobs(), notes: make(map[*deed]string)}
	t.Cleanup(o.running.Wait)
	o.setLimit(ctx)
	for _, j := range o.jobs {
		if _, err := client.Submit(ctx, j, admin.SubmitOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func (o *operator) setLimit(ctx context.Context) {
	o.t.Helper()
	if _, err := o.client.SetLimit(ctx, theLimit, thePlaces, admin.NamedOptions{}); err != nil {
		o.t.Fatal(err)
	}
}

// run calls a command. Errors are no failures: the servers may be away, or the job is.
func (o *operator) run(d *deed, command func(context.Context) error) {
	o.running.Go(func() {
		ctx, cancel := context.WithTimeout(o.t.Context(), operatorLimit)
		defer cancel()
		note := "ok"
		if err := command(ctx); err != nil {
			note = err.Error()
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.notes[d] += note + " "
	})
}

// drain orders an instance to own nothing, and returns a function that withdraws the order.
func (o *operator) drain(d *deed) (end func()) {
	sid := d.On
	o.run(d, func(ctx context.Context) error {
		_, err := o.client.Drain(ctx, sid, admin.OrderOptions{By: "chaos"})
		return err
	})
	return func() {
		o.run(d, func(ctx context.Context) error {
			_, err := o.client.Enable(ctx, sid)
			return err
		})
	}
}

// onJobs changes a job, and returns a function that changes it back, or nil.
func (o *operator) onJobs(d *deed) (end func()) {
	pick := func(names []string) string { return names[d.Target%len(names)] }
	var all []string
	for _, j := range o.jobs[crowdSize-1:] { // one of the crowd
		all = append(all, j.Name)
	}
	edit := func(change func(*job.Job)) {
		o.run(d, func(ctx context.Context) error {
			_, err := o.client.Edit(ctx, d.On, func(j *job.Job) error { change(j); return nil }, admin.EditOptions{})
			return err
		})
	}
	switch d.Kind {
	case reshard:
		d.On, d.Note = pick(Divided), fmt.Sprintf("to %d", d.Number)
		edit(func(j *job.Job) { j.Shards = d.Number })
	case reschedule:
		d.On, d.Note = pick(changing), fmt.Sprintf("every %d s", 1+d.Number%3)
		edit(func(j *job.Job) { j.Schedule = fmt.Sprintf("*/%d * * * * ?", 1+d.Number%3) })
	case resubmit:
		d.On = pick(all)
		o.run(d, func(ctx context.Context) error { return o.resubmit(ctx, d.On) })
	case suspend:
		d.On = pick(suspended)
		o.run(d, func(ctx context.Context) error {
			_, err := o.client.Pause(ctx, d.On, admin.PauseOptions{By: "chaos"})
			return err
		})
		return func() {
			o.run(d, func(ctx context.Context) error {
				_, err := o.client.Resume(ctx, d.On, admin.ResumeOptions{Missed: job.MisfireOnce})
				return err
			})
		}
	case trigger:
		d.On = pick(all)
		o.run(d, func(ctx context.Context) error {
			_, err := o.client.Trigger(ctx, d.On, admin.TriggerOptions{By: "chaos"})
			return err
		})
	case stopRun:
		d.On = pick(slow)
		o.run(d, func(ctx context.Context) error {
			_, err := o.client.StopRun(ctx, d.On, admin.StopOptions{By: "chaos"})
			return err
		})
	default:
		panic("unknown fault " + d.Kind)
	}
	return nil
}

// resubmit cancels a job and submits it again at once.
func (o *operator) resubmit(ctx context.Context, name string) error {
	if _, err := o.client.Cancel(ctx, name); err != nil && !errors.Is(err, admin.ErrNotFound) {
		return err
	}
	return o.submit(ctx, name)
}

func (o *operator) submit(ctx context.Context, name string) error {
	k := slices.IndexFunc(o.jobs, func(j job.Job) bool { return j.Name == name })
	_, err := o.client.Submit(ctx, o.jobs[k], admin.SubmitOptions{})
	if errors.Is(err, admin.ErrExists) {
		err = nil // the cancellation was not done, or has been repeated
	}
	return err
}

// submitAll submits lost jobs, as soon as the servers serve.
func (o *operator) submitAll(d *deed) {
	o.run(d, func(ctx context.Context) error {
		for _, j := range o.jobs {
			for err := o.submit(ctx, j.Name); err != nil; err = o.submit(ctx, j.Name) {
				select {
				case <-ctx.Done():
					return err
				case <-time.After(200 * time.Millisecond):
				}
			}
		}
		return nil
	})
}

// tidy waits for all commands, and repeats those that failed and leave something behind: canceled
// jobs, pauses and orders. It returns the result of each command.
func (o *operator) tidy() (notes map[*deed]string) {
	o.t.Helper()
	o.running.Wait()
	ctx, cancel := context.WithTimeout(o.t.Context(), time.Minute)
	defer cancel()
	o.setLimit(ctx) // servers that were emptied have lost it
	for _, j := range o.jobs {
		err := o.submit(ctx, j.Name)
		if err == nil {
			_, err = o.client.Resume(ctx, j.Name, admin.ResumeOptions{})
		}
		if err != nil {
			o.t.Fatalf("tidy %s: %v", j.Name, err)
		}
	}
	orders, err := o.client.Orders(ctx)
	for _, order := range orders {
		_, enableErr := o.client.Enable(ctx, order.InstanceID)
		err = errors.Join(err, enableErr)
	}
	if err != nil {
		o.t.Fatalf("tidy orders: %v", err)
	}
	return o.notes
}
