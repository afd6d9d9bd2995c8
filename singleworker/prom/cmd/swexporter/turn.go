package main

import (
	"log/slog"
	"sync"
)

// turn logs when something begins to fail, and when it succeeds again.
type turn struct {
	log *slog.Logger

	mu      sync.Mutex
	failing bool
}

func newTurn(log *slog.Logger) *turn { return &turn{log: log} }

// is takes the latest error, or nil.
func (t *turn) is(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil && !t.failing:
		t.log.Warn("the group cannot be read", "err", err)
	case err == nil && t.failing:
		t.log.Info("the group can be read again")
	}
	t.failing = err != nil
}
