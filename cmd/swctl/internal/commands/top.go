package commands

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
)

func (a *app) topCommand() *cmdline.Command {
	return &cmdline.Command{
		Name:  "top",
		Short: "show on one screen how the group is: instances, trouble, runs in progress",
		Long: `The first line counts the jobs by their state. Below it are the instances, with how many
of the runs in progress each has, and then jobs: those that need attention, the worst first,
those that run, the longest run first, and those that are due next.

On a terminal it is drawn again every second until interrupted. Jobs are read again when
something has changed. Elsewhere it is printed once: for programs there are swctl list -o json,
swctl instances -o json, and swctl watch.`,
		Examples: `swctl top
swctl top --server-type billing
swctl top | head -1`,
		Run: a.run(top),
	}
}

func top(ctx context.Context, c *call) error {
	if err := c.noArgs("swctl list NAME"); err != nil {
		return err
	}
	if c.JSON {
		return cmdline.Usage("top is for people").Try("swctl list -o json, or swctl instances -o json")
	}
	var jobs []admin.JobStatus
	var instances []admin.Instance
	look := func(ctx context.Context, client group.Client) (err error) {
		if jobs, err = client.List(ctx); err == nil {
			instances, err = client.Instances(ctx)
		}
		if err == nil && len(jobs)+len(instances) == 0 {
			err = c.empty(ctx, client)
		}
		now := c.now() // the order of the runs in progress stays until the next look
		slices.SortStableFunc(jobs, func(a, b admin.JobStatus) int {
			return cmp.Or(orders["state"](troubled(a), troubled(b)), cmp.Compare(render.Running(b, now), render.Running(a, now)), orders["next"](a, b))
		})
		return err
	}
	draw := func() { c.page().Top(instances, jobs) }
	if columns, _, _ := c.Screen(); columns > 0 {
		return c.watching(ctx, look, func() error { draw(); return nil })
	}
	return c.reading(ctx, func(ctx context.Context, client group.Client) error {
		err := look(ctx, client)
		if err == nil {
			draw()
		}
		return err
	})
}

// troubled is a job without the conditions that are meant, such as a pause.
func troubled(job admin.JobStatus) admin.JobStatus {
	if severity(job) == reason.Fine {
		job.Conditions = nil
	}
	return job
}

// redrawEvery is how often a screen changes at most.
const redrawEvery = time.Second

// restBetween is how many times as long as it takes to read all jobs nothing is read after it.
const restBetween = 5

// watching looks at the group whenever something has changed, and draws it again. On a terminal,
// times count on.
func (c *call) watching(ctx context.Context, look func(context.Context, group.Client) error, draw func() error) error {
	if !c.Flags.IsSet(cmdline.FlagTimeout) {
		c.Timeout = 0
	}
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
