package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/swjobs/singleworker/sample/sql/child"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// patience limits the whole demonstration, which takes 10 s on an idle machine.
const patience = time.Minute

var instances = []string{"app-1", "app-2", "app-3"}

// An outcome is the result of a demonstration; judge checks it.
type outcome struct {
	killed, stopped, healthy string // the instances by their fate

	held  map[string][]write // by instance, what was about to be written at the kill and the stop
	late  []write            // what became of those of the stopped one
	lease time.Duration      // how long an instance may run without a sign of life
	stood time.Duration      // how long the stopped one stood still

	ticks []tick // what the hooks were told
	parts []part // what the table holds in the end, and
	twice int    // how many rows were processed more than once in a pass
}

// A stage is the state of the demonstration.
type stage struct {
	say      func(format string, args ...any)
	store    *store
	alive    map[string]*child.Process
	messages chan message
	ticks    []tick
}

// demonstrate runs the scene. All its files are in dir; its processes end before it returns.
func demonstrate(ctx context.Context, dir string, say func(format string, args ...any)) (o outcome, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("nothing after %v", patience))
	defer cancel()
	s := stage{
		say: say, alive: map[string]*child.Process{},
		messages: make(chan message, 256), // more than they can send in that time: after an error there is no reader
	}
	if s.store, err = openStore(filepath.Join(dir, database), put+fence); err != nil {
		return o, err
	}
	defer s.store.db.Close()
	if err := s.store.create(ctx, rowCount); err != nil {
		return o, err
	}
	zk, err := zkdev.New(zkdev.Config{})
	if err == nil {
		err = zk.Start()
	}
	if err != nil {
		return o, err
	}
	defer zk.Stop()
	defer func() {
		for _, p := range s.alive {
			p.Kill()
		}
	}()
	for _, id := range instances {
		p, err := child.Start(id, zk.Addr(), dir, func(messages iter.Seq[message]) { s.listen(id, messages) })
		if err != nil {
			return o, err
		}
		s.alive[id] = p
	}
	say("three instances share the %d shards of the job %s, which is due every %v; session timeout %v",
		shards, jobName, period, sessionTimeout)
	return s.play(ctx)
}

// listen forwards an instance's messages, and its end.
func (s *stage) listen(id string, messages iter.Seq[message]) {
	for m := range messages {
		m.from = id
		s.messages <- m
	}
	s.messages <- message{from: id, ended: true}
}

func (s *stage) play(ctx context.Context) (o outcome, err error) {
	if err := s.cast(ctx, &o); err != nil {
		return o, err
	}
	if err := s.holdBoth(ctx, &o); err != nil {
		return o, err
	}

	s.alive[o.killed].Kill()
	delete(s.alive, o.killed)
	s.say("kill -9 %s: its shards are interrupted half-way", o.killed)
	begun := time.Now()
	if err := s.alive[o.stopped].Signal(syscall.SIGSTOP); err != nil {
		return o, err
	}
	s.say("kill -STOP %s, while its writes are about to be sent", o.stopped)
	if err := s.tickIsComplete(ctx, &o); err != nil {
		return o, err
	}

	o.lease, o.stood = sessionTimeout*3/4, time.Since(begun)
	if err := errors.Join(s.alive[o.stopped].Tell("go"), s.alive[o.stopped].Signal(syscall.SIGCONT)); err != nil {
		return o, err
	}
	s.say("kill -CONT %s, which was stopped for %v: it continues with its writes", o.stopped, o.stood.Round(time.Millisecond))
	if err := s.lateWrites(ctx, &o); err != nil {
		return o, err
	}
	_, err = s.await(ctx, "two instances share the work", func(m message) bool { return m.Tick != nil && m.Tick.even(2) })
	if err != nil {
		return o, err
	}
	if err := s.stop(ctx); err != nil {
		return o, err
	}
	s.say("stopped both; counting the rows")
	o.ticks = s.ticks
	o.parts, o.twice, err = s.store.load(ctx)
	return o, err
}

// cast waits until all three have their share, and assigns their parts.
func (s *stage) cast(ctx context.Context, o *outcome) error {
	m, err := s.await(ctx, "three instances share the work", func(m message) bool { return m.Tick != nil && m.Tick.even(3) })
	if err != nil {
		return err
	}
	// The instance that reports ticks is killed, so another must take over that, too.
	o.killed = m.Tick.Shards[0].On
	others := slices.DeleteFunc(slices.Clone(instances), func(id string) bool { return id == o.killed })
	o.stopped, o.healthy = others[0], others[1]
	return nil
}

// holdBoth makes the two that will fail stop in the middle of their runs.
func (s *stage) holdBoth(ctx context.Context, o *outcome) error {
	if err := errors.Join(s.alive[o.killed].Tell("hold"), s.alive[o.stopped].Tell("hold")); err != nil {
		return err
	}
	o.held = map[string][]write{}
	_, err := s.await(ctx, "two instances are in the middle of their runs", func(m message) bool {
		if m.Held != nil {
			o.held[m.from] = append(o.held[m.from], *m.Held)
			s.say("%s has done the first half of shard %d for tick %s with token %d",
				m.from, m.Held.Shard, clock(m.Held.Pass), m.Held.Token)
		}
		return len(o.held[o.killed]) >= shards/3 && len(o.held[o.stopped]) >= shards/3
	})
	return err
}

// tickIsComplete waits until the interrupted shards are done elsewhere.
func (s *stage) tickIsComplete(ctx context.Context, o *outcome) error {
	var interrupted int64
	for _, writes := range o.held {
		for _, w := range writes {
			interrupted = max(interrupted, w.Pass)
		}
	}
	_, err := s.await(ctx, "the interrupted tick is complete", func(m message) bool {
		return m.Tick != nil && m.Tick.Pass >= interrupted
	})
	if err == nil {
		s.say("%s has run the shards of both again (*) and completed them", o.healthy)
	}
	return err
}

// lateWrites waits for the table's answers.
func (s *stage) lateWrites(ctx context.Context, o *outcome) error {
	_, err := s.await(ctx, "the late writes arrive", func(m message) bool {
		if m.Late != nil {
			o.late = append(o.late, *m.Late)
			knew := "its context had not ended yet"
			if m.Late.CtxOver {
				knew = "its context had just ended"
			}
			answer := m.Late.Err
			if answer == "" {
				answer = "written"
			}
			s.say("late write of %s, %d rows of shard %d; %s: %s", m.from, m.Late.Rows, m.Late.Shard, knew, answer)
		}
		return len(o.late) == len(o.held[o.stopped])
	})
	return err
}

// stop stops all processes cleanly.
func (s *stage) stop(ctx context.Context) error {
	for _, p := range s.alive {
		_ = p.In.Close()
	}
	for id, p := range s.alive {
		select {
		case <-p.Ended:
		case <-ctx.Done():
			return fmt.Errorf("waited until %s ends: %w", id, context.Cause(ctx))
		}
	}
	return nil
}

// await reads messages until last accepts one, and returns that.
func (s *stage) await(ctx context.Context, what string, last func(message) bool) (message, error) {
	for {
		select {
		case m := <-s.messages:
			if _, alive := s.alive[m.from]; m.ended && alive {
				return m, fmt.Errorf("%s ended before %s: see its log", m.from, what)
			}
			if m.Tick != nil {
				s.ticks = append(s.ticks, *m.Tick)
				s.say("%s reports that tick %s is complete: %v", m.from, clock(m.Tick.Pass), m.Tick)
			}
			if last(m) {
				return m, nil
			}
		case <-ctx.Done():
			return message{}, fmt.Errorf("waited until %s: %w", what, context.Cause(ctx))
		}
	}
}

// even reports whether n instances have run the same number of shards each.
func (t *tick) even(n int) bool {
	on := map[string]int{}
	for _, s := range t.Shards {
		on[s.On]++
	}
	return len(on) == n && slices.Max(slices.Collect(maps.Values(on))) == shards/n
}

// String lists the shards of each instance; those that ran again have a star.
func (t *tick) String() string {
	on := map[string]string{}
	for i, s := range t.Shards {
		again := ""
		if s.Attempt > 1 {
			again = "*"
		}
		on[s.On] += fmt.Sprintf(" %d%s", i, again)
	}
	var words []string
	for _, id := range slices.Sorted(maps.Keys(on)) {
		words = append(words, id+":"+on[id])
	}
	return strings.Join(words, ", ")
}

func clock(pass int64) string { return time.UnixMilli(pass).UTC().Format(time.TimeOnly) }
