package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

func runGocron(ctx context.Context, w work) error {
	client := redis.NewClient(&redis.Options{Addr: w.addr})
	defer client.Close()
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker{client}))
	if err != nil {
		return err
	}
	for k := range w.jobs {
		name := w.name(k)
		task := func() error { return w.tick(name, time.Now().Round(w.period)) } // it is not told the tick
		if _, err := scheduler.NewJob(gocron.CronJob(w.cron()+"*", true), gocron.NewTask(task), gocron.WithName(name)); err != nil {
			return err
		}
	}
	scheduler.Start()
	<-ctx.Done()
	return scheduler.Shutdown()
}

// locker takes a lock per job in redis, as gocron-redis-lock does with redsync's defaults: one try,
// for eight seconds, and released after the run.
type locker struct{ client *redis.Client }

const lockedFor = 8 * time.Second

var errLocked = errors.New("another process has the lock")

func (l locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	mine := lock{l.client, key, uuid.NewString()}
	switch ok, err := l.client.SetNX(ctx, key, mine.token, lockedFor).Result(); {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errLocked
	}
	return mine, nil
}

type lock struct {
	client     *redis.Client
	key, token string
}

var release = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

func (l lock) Unlock(ctx context.Context) error {
	return release.Run(ctx, l.client, []string{l.key}, l.token).Err()
}
