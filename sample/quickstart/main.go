// Command quickstart is the program in the README, word for word.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/swjobs/singleworker/singleworker"
)

func main() {
	m, err := singleworker.New(singleworker.Config{Servers: "127.0.0.1:2181", ServerType: "billing"})
	check(err)
	err = m.Handle("daily-stats", func(ctx context.Context, run *singleworker.Run) error {
		run.Logger().InfoContext(ctx, "counting", "day", run.Tick)
		return nil // work until done, or until ctx ends
	})
	check(err)
	err = m.Schedule(singleworker.Job{Name: "daily-stats", Schedule: "0 0 3 * * ?", TimeZone: "Asia/Shanghai"})
	check(err)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	check(m.Run(ctx)) // blocks; returns when ctx is done, runs have ended and every job is handed back
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
