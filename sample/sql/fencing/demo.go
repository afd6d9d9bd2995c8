package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// patience limits the whole demonstration, which takes 5 s on an idle machine.
const patience = time.Minute

// The orders: the total found by the first owner, and the one added while it is stopped.
const (
	oldTotal = 100
	newOrder = 30
)

// An outcome is the result of a demonstration; judge checks it.
type outcome struct {
	late, next message       // the writes of the stopped owner and of the one after it
	lease      time.Duration // of the first owner
	stopped    time.Duration // how long it was stopped
	takeover   time.Duration // from the stop to the second owner's run

	fenced, plain               report // the final contents of the databases
	fencedHistory, plainHistory map[string]int
}

// A stage is the state of the demonstration.
type stage struct {
	say           func(format string, args ...any)
	fenced, plain *store
	one, two      *process
}

// demonstrate runs the scene. All its files are in dir; its processes end before it returns.
func demonstrate(ctx context.Context, dir string, say func(format string, args ...any)) (o outcome, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("nothing after %v", patience))
	defer cancel()
	s := stage{say: say}
	if err := s.createDatabases(ctx, dir); err != nil {
		return o, err
	}
	defer s.fenced.db.Close()
	defer s.plain.db.Close()

	zk, err := zkdev.New(zkdev.Config{})
	if err == nil {
		err = zk.Start()
	}
	if err != nil {
		return o, err
	}
	defer zk.Stop()
	if s.one, err = startInstance("app-1", zk.Addr(), dir); err != nil {
		return o, err
	}
	defer s.one.Kill()
	if s.two, err = startInstance("app-2", zk.Addr(), dir); err != nil {
		return o, err
	}
	defer s.two.Kill()
	say("two instances, app-1 and app-2, share the job %s; session timeout %v", job, sessionTimeout)

	return s.play(ctx)
}

func (s *stage) createDatabases(ctx context.Context, dir string) (err error) {
	if s.fenced, err = openStore(filepath.Join(dir, fencedDB), true); err != nil {
		return err
	}
	if s.plain, err = openStore(filepath.Join(dir, unfencedDB), false); err != nil {
		return err
	}
	return errors.Join(s.fenced.create(ctx), s.plain.create(ctx), s.order(ctx, oldTotal))
}

func (s *stage) order(ctx context.Context, amount int64) error {
	return errors.Join(s.fenced.order(ctx, amount), s.plain.order(ctx, amount))
}

func (s *stage) play(ctx context.Context) (o outcome, err error) {
	first, second, err := s.whoOwns(ctx)
	if err != nil {
		return o, err
	}
	normal, err := s.write(ctx, first)
	if err != nil {
		return o, err
	}
	s.say("%s owns it with token %d and reports %d, the sum of the orders", first.ID, normal.Report.Token, normal.Report.Total)
	if err := normal.accepted(); err != nil {
		return o, err
	}

	about, err := first.next(ctx, false)
	if err != nil {
		return o, err
	}
	stopped := time.Now()
	if err := first.Signal(syscall.SIGSTOP); err != nil {
		return o, err
	}
	s.say("%s has added up %d in its next run and is about to write: kill -STOP", first.ID, about.Report.Total)
	if err := s.order(ctx, newOrder); err != nil {
		return o, err
	}
	s.say("an order of %d comes in: the report should say %d now", newOrder, oldTotal+newOrder)

	if _, err := second.next(ctx, false); err != nil {
		return o, err
	}
	o.takeover = time.Since(stopped)
	if o.next, err = s.write(ctx, second); err != nil {
		return o, err
	}
	s.say("%s has taken over with token %d, and reports %d", second.ID, o.next.Report.Token, o.next.Report.Total)
	if err := o.next.accepted(); err != nil {
		return o, err
	}

	// From now on only the first one writes: the second one's next run gets no permission.
	o.lease, o.stopped = sessionTimeout*3/4, time.Since(stopped)
	if err := errors.Join(first.Tell("write"), first.Signal(syscall.SIGCONT)); err != nil {
		return o, err
	}
	s.say("kill -CONT %s, which was stopped for %v: it continues with its write", first.ID, o.stopped.Round(time.Millisecond))
	if o.late, err = first.next(ctx, true); err != nil {
		return o, err
	}
	if o.fenced, o.fencedHistory, err = s.fenced.load(ctx); err != nil {
		return o, err
	}
	o.plain, o.plainHistory, err = s.plain.load(ctx)
	return o, err
}

// whoOwns waits until one of the instances is about to write, and returns it first.
func (s *stage) whoOwns(ctx context.Context) (first, second *process, err error) {
	ended := errors.New("an instance ended before its first write: see its log")
	select {
	case _, ok := <-s.one.messages:
		if !ok {
			return nil, nil, ended
		}
		return s.one, s.two, nil
	case _, ok := <-s.two.messages:
		if !ok {
			return nil, nil, ended
		}
		return s.two, s.one, nil
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("waited until an instance owns the job: %w", context.Cause(ctx))
	}
}

// write lets a process continue with its write.
func (s *stage) write(ctx context.Context, p *process) (message, error) {
	if err := p.Tell("write"); err != nil {
		return message{}, err
	}
	return p.next(ctx, true)
}

// accepted returns an error if a valid write was not accepted.
func (m message) accepted() error {
	if m.Fenced.Err != "" || m.Plain.Err != "" {
		return fmt.Errorf("the write of the owner, %s, was refused: %s%s", m.Report.Writer, m.Fenced.Err, m.Plain.Err)
	}
	return nil
}
