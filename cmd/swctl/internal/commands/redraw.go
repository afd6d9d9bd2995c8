package commands

import (
	"cmp"
	"context"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/singleworker/admin"
)

// redrawEvery is how often a screen changes at most.
const redrawEvery = time.Second

// restBetween is how many times as long as it takes to read all jobs nothing is read after it.
const restBetween = 5

// watching looks at the group whenever something has changed, and draws it again. On a terminal,
// times count on.
func watching(ctx context.Context, c *call, look func(context.Context, group.Client) error, draw func() error) error {
	c.Lasts()
	c.reads = false
	columns, _, _ := c.Screen()
	inPlace := columns > 0 && !c.JSON
	err := c.connected(ctx, func(ctx context.Context, client group.Client) error {
		ctx, stop := context.WithCancelCause(ctx)
		changed, ended := make(chan struct{}, 1), make(chan struct{})
		go func() {
			defer close(ended)
			stop(changes(ctx, client, changed))
		}()
		defer func() { stop(nil); <-ended }()
		var again time.Time
		for drawn := false; ; drawn = true {
			onlyTimes := inPlace && (len(changed) == 0 || time.Now().Before(again))
			if !drawn || !onlyTimes {
				select {
				case <-changed:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				began := time.Now()
				if err := look(ctx, client); err != nil {
					return err
				}
				again = time.Now().Add(restBetween * time.Since(began))
			}
			if err := cmp.Or(draw(), c.Redraw()); err != nil {
				return err
			}
			wait := redrawEvery
			if !inPlace {
				wait = max(wait, time.Until(again))
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
	if cmdline.SignalOf(ctx) != nil {
		err = nil // that is how it ends
	}
	return err
}

// changes tells that something has changed since it was told last, at first that it begins to tell.
func changes(ctx context.Context, client group.Client, changed chan<- struct{}) error {
	past := true
	for ev, err := range client.Watch(ctx, admin.WatchOptions{Trouble: true}) {
		if err != nil {
			return err
		}
		if past = past && ev.Kind != admin.EventWatching; past {
			continue
		}
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	return nil
}
