package main

import (
	"context"
	"fmt"
	"iter"

	"github.com/swjobs/singleworker/sample/sql/child"
)

// A process is an instance of the demonstration.
type process struct {
	*child.Process

	messages chan message // closed when the process has ended
}

func startInstance(id, zk, dir string) (p *process, err error) {
	// More than it can send: one message for every permission, and one before.
	p = &process{messages: make(chan message, 16)}
	p.Process, err = child.Start(id, zk, dir, func(messages iter.Seq[message]) {
		defer close(p.messages)
		for m := range messages {
			p.messages <- m
		}
	})
	return p, err
}

// next waits for the next message with the given Done.
func (p *process) next(ctx context.Context, done bool) (message, error) {
	what := "comes to its next write"
	if done {
		what = "has written"
	}
	for {
		select {
		case m, ok := <-p.messages:
			if !ok {
				return m, fmt.Errorf("%s ended before it %s: see its log", p.ID, what)
			}
			if m.Done == done {
				return m, nil
			}
		case <-ctx.Done():
			return message{}, fmt.Errorf("waited until %s %s: %w", p.ID, what, context.Cause(ctx))
		}
	}
}
