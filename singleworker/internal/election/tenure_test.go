package election

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// Held asks the clock: a term that has lapsed is over before the timer that ends it has fired.
func TestHeldAsksTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Path: "/leader", ID: "a", Clock: leases.NewClock(), Logger: slog.New(slog.DiscardHandler)})
		c.tenure = &tenure{term: Term{Token: 7}, until: 10 * time.Second}
		time.Sleep(10*time.Second - time.Nanosecond)
		if term, held := c.Held(); !held || term.Token != 7 {
			t.Errorf("just before the end of the lease: %+v, held %v", term, held)
		}
		time.Sleep(time.Nanosecond)
		if term, held := c.Held(); held {
			t.Errorf("at the end of the lease: %+v is held", term)
		}
	})
}

// Each event of the session ends the term, with its own cause.
func TestEventsEndTheTerm(t *testing.T) {
	t.Parallel()
	for kind, want := range map[zkconn.EventKind]error{
		zkconn.Connected: ErrSuspended, zkconn.Disconnected: ErrSuspended, zkconn.Expired: ErrExpired,
	} {
		c := New(Config{Path: "/leader", ID: "a", Clock: leases.NewClock(), Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancelCause(t.Context())
		c.tenure = &tenure{cancel: cancel, until: time.Hour}
		c.OnEvent(zkconn.Event{Kind: kind})
		if _, held := c.Held(); held || !errors.Is(context.Cause(ctx), want) {
			t.Errorf("event %d: held %v, the term ended because of %v, want %v", kind, held, context.Cause(ctx), want)
		}
	}
}
