package commands

import (
	"context"
	"fmt"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/files"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

func calendarsCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "calendars", Aliases: []string{"calendars list"},
		Short: "list calendars, and the jobs that name them",
		Long: `A calendar is a set of times that jobs leave out, or are bound to: swctl set NAME
--calendar=-de-holidays, or --calendar trading-hours. Times that are left out are no ticks.`,
		Examples: `swctl calendars
swctl calendars -o json | jq -r '.items[].name'`,
		Run: e.reads(func(ctx context.Context, c *call) error {
			if err := c.NoArgs("swctl calendars show NAME"); err != nil {
				return err
			}
			return c.reading(ctx, func(ctx context.Context, client group.Client) error {
				list, err := client.Calendars(ctx)
				if err != nil {
					return err
				}
				return c.put(api.New("CalendarList", api.ItemsOf(list)), func(p render.Page) {
					if p.Calendars(list); len(list) == 0 {
						c.Notef("no calendars: swctl calendars set NAME FILE makes one")
					}
				})
			})
		}),
	}
}

func showCalendarCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "calendars show", Args: "NAME",
		Short: "show a calendar, its former contents and its jobs",
		Long: `The present content is as swctl calendars set reads it. The last seven contents before are
kept, with since when each held: ticks until a change go by the one before.`,
		Examples: `swctl calendars show de-holidays > de-holidays.yaml
swctl calendars show de-holidays -o json | jq .calendar`,
		Run: e.reads(func(ctx context.Context, c *call) error {
			name, err := c.theName("calendar", "swctl calendars")
			if err != nil {
				return err
			}
			return c.reading(ctx, func(ctx context.Context, client group.Client) error {
				list, err := client.Calendars(ctx)
				if err != nil {
					return err
				}
				for _, of := range list {
					if of.Name == name {
						return c.put(api.New("Calendar", of), func(p render.Page) { p.Calendar(of) })
					}
				}
				return fmt.Errorf("calendars show %s: %w", name, admin.ErrNoCalendar)
			})
		}),
	}
}

func setCalendarCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "calendars set", Args: "NAME FILE",
		Short: "make a calendar, or replace its content",
		Long: `FILE is YAML or JSON; - is stdin. dates, yearly and weekdays name days, and a day that one
of them names counts. hours are parts of these days, or of all days:

    time_zone: Europe/Berlin
    dates: [2026-12-24, 2026-12-27..2027-01-02]
    yearly: ["12-25", "12-24..01-02", "*-15"]
    weekdays: [sat, sun]
    hours: ["09:00..17:30", "22:00..06:00"]

A change holds for ticks after it, in all jobs that name the calendar, from the same moment
on. Ticks until then go by the content before, also if they are run later. A change that leaves a
job without a tick to come is refused.`,
		Examples: `swctl calendars set de-holidays holidays.yaml --dry-run
swctl calendars set de-holidays holidays.yaml --reason 'Christmas Eve is free'`,
		Flags: append([]cmdline.Flag{{Name: flagDryRun, Usage: "check it and list the jobs that name it, change nothing"}}, whoFlags(inLog)...),
		Run: e.run(func(ctx context.Context, c *call) error {
			if len(c.Args) != 2 { //nolint:mnd // its name and a file
				return cmdline.Usage("calendars set needs a name and a file").Try("swctl calendars set de-holidays holidays.yaml")
			}
			is, err := files.ReadCalendar(c.Args[1], c.Stdin)
			if err != nil {
				return cmdline.Usage("%s: %w", plain.Quoted(c.Args[1]), err).Try("swctl help calendars set describes the file")
			}
			return c.changeNamed(ctx, "calendar", func(ctx context.Context, client group.Client, opts admin.NamedOptions) (admin.NamedChange, error) {
				return client.SetCalendar(ctx, c.Args[0], is, opts)
			})
		}),
	}
}

func deleteCalendarCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "calendars delete", Args: "NAME",
		Short:    "delete a calendar that no job names",
		Examples: `swctl calendars delete de-holidays`,
		Flags:    append([]cmdline.Flag{{Name: flagDryRun, Usage: "only say whether it can be deleted"}}, whoFlags(inLog)...),
		Run: e.run(func(ctx context.Context, c *call) error {
			name, err := c.theName("calendar", "swctl calendars")
			if err != nil {
				return err
			}
			return c.changeNamed(ctx, "calendar", func(ctx context.Context, client group.Client, opts admin.NamedOptions) (admin.NamedChange, error) {
				return client.DeleteCalendar(ctx, name, opts)
			})
		}),
	}
}
