package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestAwaitReportsGoalAndReason(t *testing.T) {
	t.Parallel()
	d := &demo{}
	err := d.await(t.Context(), 0, "godot", func() error { return errors.New("not today") })
	if want := "godot did not happen: not today"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if err := d.await(ctx, time.Hour, "godot", func() error { return errors.New("not today") }); !errors.Is(err, stopped) {
		t.Errorf("%v, want the cause", err)
	}
}
