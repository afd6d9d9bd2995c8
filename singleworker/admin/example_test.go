package admin_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// serve starts a server for the examples; a program has ZooKeeper.
func serve() (servers string, stop func()) {
	server, err := zkdev.New(zkdev.Config{})
	check(err)
	check(server.Start())
	return server.Addr(), server.Stop
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A job is submitted while no instance runs, and waits for one.
func Example() {
	servers, stop := serve()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // every call ends with it
	defer cancel()
	client, err := admin.Dial(ctx, admin.Config{Servers: servers, ServerType: "billing"})
	check(err)
	defer client.Close()

	stats := job.Job{Name: "daily-stats", Schedule: "0 0 3 * * ?", TimeZone: "Asia/Shanghai"}
	done, err := client.Submit(ctx, stats, admin.SubmitOptions{})
	check(err)
	fmt.Println(done.Outcome)

	stats.Schedule = "0 30 3 * * ?"
	_, err = client.Submit(ctx, stats, admin.SubmitOptions{}) // Replace would change it
	fmt.Println(errors.Is(err, admin.ErrExists))

	jobs, err := client.List(ctx)
	check(err)
	for _, status := range jobs {
		fmt.Println(status.Name, status.Job.Schedule, status.Health())
	}
	// Output:
	// created
	// true
	// daily-stats 0 0 3 * * ? nobody
}

// A job is run now, beside its schedule, by the instance that owns it.
func ExampleClient_Trigger() {
	servers, stop := serve()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	client, err := admin.Dial(ctx, admin.Config{Servers: servers, ServerType: "billing"})
	check(err)
	_, err = client.Submit(ctx, job.Job{Name: "report", Schedule: "@monthly"}, admin.SubmitOptions{})
	check(err)

	m, err := singleworker.New(singleworker.Config{Servers: servers, ServerType: "billing"})
	check(err)
	check(m.Handle("report", func(_ context.Context, run *singleworker.Run) error {
		fmt.Println("the report of", run.Args["month"])
		return nil
	}))
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()

	_, err = client.AwaitOwner(ctx, "report")
	check(err)
	request, err := client.Trigger(ctx, "report", admin.TriggerOptions{
		Args: map[string]string{"month": "May"}, By: "alice", Reason: "the first one was lost",
	})
	check(err)
	runs, err := client.AwaitRun(ctx, "report", request.ID)
	check(err)
	fmt.Println(runs[0].State)

	client.Close()
	cancel()
	check(<-ended)
	// Output:
	// the report of May
	// ok
}

// A handler plans a run of another job, and says in the log why: the application does what
// operators do, on its own session.
func ExampleOn() {
	servers, stop := serve()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	m, err := singleworker.New(singleworker.Config{Servers: servers, ServerType: "billing", InstanceID: "app-1", Version: "v1.4.0"})
	check(err)
	operator := admin.On(m)
	_, err = operator.List(ctx)
	fmt.Println(errors.Is(err, singleworker.ErrNotRunning))

	check(m.Handle("import", func(ctx context.Context, _ *singleworker.Run) error {
		_, err := operator.Trigger(ctx, "report", admin.TriggerOptions{Reason: "new data"})
		return err
	}))
	check(m.Handle("report", func(context.Context, *singleworker.Run) error {
		cancel()
		return nil
	}))
	check(m.Schedule(singleworker.Job{Name: "import", Schedule: "@every 1s"}))
	check(m.Schedule(singleworker.Job{Name: "report", Schedule: "@manually"}))
	client, err := admin.Dial(context.Background(), admin.Config{Servers: servers, ServerType: "billing"})
	check(err)
	defer client.Close()
	check(m.Run(ctx))

	log, err := client.Log(context.Background(), admin.LogOptions{Max: 1})
	check(err)
	fmt.Println(log[0].Kind, log[0].Jobs, log[0].From, log[0].Reason)
	// Output:
	// true
	// trigger [report] app-1 (v1.4.0) new data
}

// What happens to a job is heard of as it happens.
func ExampleClient_Watch() {
	servers, stop := serve()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // without it, Watch never ends
	defer cancel()
	client, err := admin.Dial(ctx, admin.Config{Servers: servers, ServerType: "billing"})
	check(err)
	defer client.Close()

	for ev, err := range client.Watch(ctx, admin.WatchOptions{Jobs: []string{"report"}}) {
		check(err)
		switch ev.Kind {
		case admin.EventWatching: // from now on everything is reported
			fmt.Println("watching")
			_, err = client.Submit(ctx, job.Job{Name: "report", Schedule: "@monthly"}, admin.SubmitOptions{})
		case admin.EventJobSubmitted:
			fmt.Println("submitted", ev.Job)
			_, err = client.Cancel(ctx, ev.Job)
		case admin.EventRunEnded:
			fmt.Println("run", ev.Entry.RunID, ev.Entry.State, ev.Entry.Error)
		case admin.EventJobCanceled:
			fmt.Println("canceled", ev.Job)
			return
		default: // there are more
		}
		check(err)
	}
	// Output:
	// watching
	// submitted report
	// canceled report
}
