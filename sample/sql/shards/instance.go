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
	"github.com/swjobs/singleworker/singleworker/job"
)

const (
	job            = "rows"
	shards         = 6
	rowCount       = 600
	period         = 2 * time.Second // of the job
	sessionTimeout = 4 * time.Second
	database       = "rows.db" // in the demonstration's directory
)

// instance is the application: the process that is started three times.
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
	if err := m.Handle(job, rowsJob(g)); err != nil {
		return err
	}
	err = m.Schedule(singleworker.Job{
		Name: job, Schedule: "@every " + period.String(),
		Shards:          shards,
		ShardParameters: map[int]string{0: "25"}, // the size of its batches; for the others 10 will do
		// A pass that came while nobody owned a shard is made up for, and so is the latest that
		// came while its run went on.
		Misfire: job.MisfireAll, Overlap: job.OverlapQueue,
	})
	if err != nil {
		return err
	}
	return child.Serve(m.Run, g.hear)
}

// A message is what an instance tells the demonstration, as a line of JSON. One of its
// fields is set.
type message struct {
	Held *write `json:"held,omitempty"` // about to be sent
	Late *write `json:"late,omitempty"` // held, and let go
	Tick *tick  `json:"tick,omitempty"` // all shards are done with it

	from  string // the instance; set by listen
	ended bool   // the process has
}

// A write is a batch of a run that was held, and what became of it.
type write struct {
	Pass    int64  `json:"pass"`
	Shard   int    `json:"shard"`
	Token   int64  `json:"token"`
	Rows    int    `json:"rows"`
	CtxOver bool   `json:"ctx_over"` // whether the run's context had ended when it was sent
	Refused bool   `json:"refused"`
	Err     string `json:"err"` // empty: written
}

// A tick is what the hook OnTickComplete was told.
type tick struct {
	Pass   int64   `json:"pass"`
	Shards []shard `json:"shards"`
}

type shard struct {
	State   singleworker.State `json:"state"`
	On      string             `json:"on"`
	Attempt int                `json:"attempt"`
	Token   int64              `json:"token"`
	Ended   int64              `json:"ended"` // in milliseconds, as passes are
}

// A gate stands between the handler and the table, so that the demonstration can kill
// or stop the process where it wants to: in the middle of a run, when all checks are
// passed and the write is about to be sent.
type gate struct {
	*store

	holding atomic.Bool
	open    chan struct{} // closed when those who wait may go on
	gone    chan struct{} // closed when the demonstration has ended

	mu  sync.Mutex
	out *json.Encoder
}

// hear obeys: the first line has the gate closed, the second has it open for ever. It
// returns when the other end is closed, also by the death of the demonstration.
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

// mark lets the first half of the table pass, always.
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
	// Whether a process that wakes up sees first that its context has ended, or sends
	// its write first, is chance. A demonstration needs the bad chance each time;
	// an application passes ctx.
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
