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
	"sync"
	"sync/atomic"
	"time"

	"github.com/swjobs/singleworker/sample/sql/child"
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

const (
	jobName        = "rows"
	shards         = 6
	rowCount       = 600
	period         = 2 * time.Second // of the job
	sessionTimeout = 4 * time.Second
	database       = "rows.db" // in the demonstration's directory
)

// instance is the application; it is started three times.
func instance(id, zk, dir string) error {
	s, err := openStore(filepath.Join(dir, database), put+fence)
	if err != nil {
		return err
	}
	defer s.db.Close()
	g := &gate{store: s, out: json.NewEncoder(os.Stdout), open: make(chan struct{}), gone: make(chan struct{})}
	m, err := singleworker.New(singleworker.Config{
		Servers:        zk,
		ServerType:     "shards",
		InstanceID:     id,
		SessionTimeout: sessionTimeout,
		SyncPeriod:     sessionTimeout / 4,
		StopGrace:      time.Second,
		Logger:         slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Hooks:          singleworker.Hooks{OnTickComplete: g.complete},
	})
	if err != nil {
		return err
	}
	// In an application without a gate, this is rowsJob(s).
	if err := m.Handle(jobName, rowsJob(g)); err != nil {
		return err
	}
	err = m.Schedule(singleworker.Job{
		Name: jobName, Schedule: "@every " + period.String(),
		Shards:          shards,
		ShardParameters: map[int]string{0: "25"}, // the size of its batches; the others use 10
		// Run missed passes: those due while a shard had no owner, and the latest that was
		// due during a run.
		Misfire: job.MisfireAll, Overlap: job.OverlapQueue,
	})
	if err != nil {
		return err
	}
	return child.Serve(m.Run, g.hear)
}

// A message is a line of JSON from an instance to the demonstration. One of its fields is set.
type message struct {
	Held *write `json:"held,omitempty"` // about to be sent
	Late *write `json:"late,omitempty"` // held, and let go
	Tick *tick  `json:"tick,omitempty"` // all shards are done with it

	from  string // the instance; set by listen
	ended bool   // the process has
}

// A write is a batch of a held run and its outcome.
type write struct {
	Pass    int64  `json:"pass"`
	Shard   int    `json:"shard"`
	Token   int64  `json:"token"`
	Rows    int    `json:"rows"`
	CtxOver bool   `json:"ctx_over"` // whether the run's context had ended when it was sent
	Refused bool   `json:"refused"`
	Err     string `json:"err"` // empty: written
}

// A tick is the argument of the hook OnTickComplete.
type tick struct {
	Pass   int64   `json:"pass"`
	Shards []shard `json:"shards"`
}

type shard struct {
	State   history.State `json:"state"`
	On      string        `json:"on"`
	Attempt int           `json:"attempt"`
	Token   int64         `json:"token"`
	Ended   int64         `json:"ended"` // in milliseconds, as passes are
}

// A gate is between the handler and the table, so that the demonstration can kill or stop the
// process in the middle of a run, when all checks have passed and the write is about to be sent.
type gate struct {
	*store

	holding atomic.Bool
	open    chan struct{} // closed when waiting writes may continue
	gone    chan struct{} // closed when the demonstration has ended

	mu  sync.Mutex
	out *json.Encoder
}

// hear reads commands: the first line closes the gate, the second opens it for good. It returns
// when the other end is closed, for example because the demonstration has died.
func (g *gate) hear(in io.Reader) {
	defer close(g.gone)
	lines := bufio.NewScanner(in)
	if lines.Scan() {
		g.holding.Store(true)
	}
	if lines.Scan() {
		g.holding.Store(false)
		close(g.open)
	}
	lines.Scan()
}

// mark always lets the first half of the table pass.
func (g *gate) mark(ctx context.Context, run *singleworker.Run, ids []int64) error {
	if ids[0] <= rowCount/2 || !g.holding.Load() {
		return g.store.mark(ctx, run, ids)
	}
	w := write{Pass: pass(run), Shard: run.Shard.Index, Token: run.Token, Rows: len(ids)}
	g.tell(message{Held: &w})
	select {
	case <-g.open:
	case <-g.gone:
		return errors.New("the demonstration is over")
	}
	// A process that continues may notice first that its context has ended, or send its
	// write first. The demonstration always needs the second case; an application
	// passes ctx.
	late := w
	late.CtxOver = ctx.Err() != nil
	err := g.store.mark(context.WithoutCancel(ctx), run, ids)
	if err != nil {
		late.Refused, late.Err = errors.Is(err, errFenced), err.Error()
	}
	g.tell(message{Late: &late})
	return err
}

// complete is the hook OnTickComplete.
func (g *gate) complete(r singleworker.TickResult) {
	t := tick{Pass: r.Tick.UnixMilli()}
	for _, e := range r.Shards {
		t.Shards = append(t.Shards, shard{
			State: e.State, On: e.InstanceID, Attempt: e.Attempt, Token: e.Token, Ended: e.Ended.UnixMilli(),
		})
	}
	g.tell(message{Tick: &t})
}

func (g *gate) tell(m message) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.out.Encode(m); err != nil {
		fmt.Fprintln(os.Stderr, "tell the demonstration:", err)
	}
}
