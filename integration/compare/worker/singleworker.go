package main

import (
	"context"

	"github.com/swjobs/singleworker/singleworker"
)

func runSingleworker(ctx context.Context, w work) error {
	m, err := singleworker.New(singleworker.Config{Servers: w.addr, ServerType: "compare", InstanceID: w.id, SessionTimeout: w.session})
	if err != nil {
		return err
	}
	for k := range w.jobs {
		name := w.name(k)
		if err := m.Handle(name, func(_ context.Context, run *singleworker.Run) error { return w.tick(run.Job, run.Tick) }); err != nil {
			return err
		}
		if err := m.Schedule(singleworker.Job{Name: name, Schedule: w.cron() + "?"}); err != nil {
			return err
		}
	}
	return m.Run(ctx)
}
