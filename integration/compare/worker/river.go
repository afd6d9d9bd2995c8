package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

func runRiver(ctx context.Context, w work) error {
	pool, err := pgxpool.New(ctx, w.addr)
	if err != nil {
		return err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	if w.jobs == 0 { // only prepares the database
		migrator, err := rivermigrate.New(driver, nil)
		if err != nil {
			return err
		}
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{work: w})
	var periodic []*river.PeriodicJob
	for k := range w.jobs {
		args := riverArgs{Job: w.name(k)}
		periodic = append(periodic, river.NewPeriodicJob(every(w.period), func() (river.JobArgs, *river.InsertOpts) { return args, nil }, nil))
	}
	client, err := river.NewClient(driver, &river.Config{
		ID: w.id, Workers: workers, PeriodicJobs: periodic,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	<-client.Stopped()
	return nil
}

// every is a schedule by the clock, like the others'.
type every time.Duration

func (e every) Next(t time.Time) time.Time {
	return t.Truncate(time.Duration(e)).Add(time.Duration(e))
}

type riverArgs struct {
	Job string `json:"job"`
}

func (riverArgs) Kind() string { return "tick" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]

	work work
}

func (r *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	return r.work.tick(job.Args.Job, job.ScheduledAt.Round(r.work.period))
}
