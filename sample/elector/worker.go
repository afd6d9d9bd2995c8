package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/swjobs/singleworker/singleworker/latch"
)

// A run is one run of the job, as a line of JSON on the worker's standard output.
type run struct {
	Worker string    `json:"worker"`
	Token  int64     `json:"token"`
	At     time.Time `json:"at"`
}

// work is an application: a latch, a gocron scheduler that uses it, and a job. It ends with ctx, or
// when its standard input is closed.
func work(ctx context.Context, zk, path, id string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	l, err := latch.New(latch.Config{Servers: zk, Path: path, ID: id, SessionTimeout: session})
	if err != nil {
		return err
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(l))
	if err != nil {
		return err
	}
	lines := json.NewEncoder(os.Stdout)
	_, err = scheduler.NewJob(gocron.DurationJob(period), gocron.NewTask(func() error {
		term, held := l.Held()
		if !held {
			return nil // leadership lost since gocron asked
		}
		// A job that writes somewhere passes term.Token as the fencing token.
		return lines.Encode(run{Worker: id, Token: term.Token, At: time.Now()})
	}))
	if err != nil {
		return err
	}
	scheduler.Start()
	err = l.Run(ctx) // when it returns, the next worker can lead
	if shutdownErr := scheduler.Shutdown(); err == nil {
		err = shutdownErr
	}
	return err
}
