package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/swjobs/singleworker/sample/sql/child"
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/once"
)

const (
	job            = "daily-report"
	sessionTimeout = 2 * time.Second // short, so that the takeover comes soon
)

// The databases of the demonstration, in its directory. The second is the counter-example:
// the same writes at the same moments, without the fence.
const (
	fencedDB   = "fenced.db"
	unfencedDB = "unfenced.db"
)

// instance is the application; it is started twice.
func instance(id, zk, dir string) error {
	g, err := openGate(dir)
	if err != nil {
		return err
	}
	m, err := singleworker.New(singleworker.Config{
		Servers:        zk,
		ServerType:     "fencing",
		InstanceID:     id,
		SessionTimeout: sessionTimeout,
		SyncPeriod:     sessionTimeout / 4,
		StopGrace:      time.Second,
		Logger:         slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	// In an application without a gate, this is reportJob(store.sum, store.save).
	if err := m.Handle(job, reportJob(g.fenced.sum, g.save)); err != nil {
		return err
	}
	if err := m.Schedule(singleworker.Job{Name: job, Schedule: "@every 1s"}); err != nil {
		return err
	}
	return child.Serve(m.Run, g.hear)
}

// A message is a line of JSON from an instance to the demonstration.
type message struct {
	Report  report `json:"report"`
	Done    bool   `json:"done"` // written or refused; false: about to write
	Fenced  answer `json:"fenced"`
	Plain   answer `json:"plain"`    // of the database without the fence
	CtxOver bool   `json:"ctx_over"` // whether the run's context had ended when it wrote
}

// An answer is a database's answer to a write.
type answer struct {
	Refused bool   `json:"refused"`
	Err     string `json:"err"` // empty: written
}

// A gate is between the handler and its databases, so that the demonstration can
// stop the process at the one moment that no lease and no context can protect: all
// checks have passed, and the write is about to be sent.
type gate struct {
	fenced, plain *store
	passes        chan struct{} // one for each write
	gone          chan struct{} // the demonstration has ended
}

func openGate(dir string) (*gate, error) {
	fenced, err := openStore(filepath.Join(dir, fencedDB), true)
	if err != nil {
		return nil, err
	}
	plain, err := openStore(filepath.Join(dir, unfencedDB), false)
	if err != nil {
		return nil, err
	}
	return &gate{fenced: fenced, plain: plain, passes: make(chan struct{}), gone: make(chan struct{})}, nil
}

// hear takes every line as the permission for one write. It returns when the other
// end is closed, for example because the demonstration has died.
func (g *gate) hear(in io.Reader) {
	defer close(g.gone)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		g.passes <- struct{}{}
	}
}

func (g *gate) save(ctx context.Context, run *singleworker.Run, total int64) error {
	r := reportOf(run, total)
	if err := tell(message{Report: r}); err != nil {
		return err
	}
	select {
	case <-g.passes:
	case <-g.gone:
		return errors.New("the demonstration is over")
	}
	// A process that continues may notice first that its context has ended, or send its
	// write first. The demonstration always needs the second case; an application
	// passes ctx.
	unlucky := context.WithoutCancel(ctx)
	done := message{Report: r, Done: true, CtxOver: ctx.Err() != nil}
	done.Plain = answerOf(g.plain.save(unlucky, run, total))
	err := g.fenced.save(unlucky, run, total)
	done.Fenced = answerOf(err)
	return errors.Join(err, tell(done))
}

func answerOf(err error) answer {
	if err == nil {
		return answer{}
	}
	return answer{Refused: errors.Is(err, once.ErrFenced), Err: err.Error()}
}

func tell(m message) error {
	if err := json.NewEncoder(os.Stdout).Encode(m); err != nil {
		return fmt.Errorf("tell the demonstration: %w", err)
	}
	return nil
}
