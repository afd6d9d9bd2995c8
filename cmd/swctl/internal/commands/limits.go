package commands

import (
	"context"
	"fmt"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/job"
)

const flagMax = "max"

func limitsCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "limits", Aliases: []string{"limits list"},
		Short: "list limits, with the runs that hold their places",
		Long: `A limit has places, of which each run of the jobs that name it needs some: swctl set NAME
--limit crm-api. HELD is how many places are taken, and BY whose runs have them. WAITING is how
many instances have runs that wait.`,
		Examples: `swctl limits
swctl limits -o json | jq -r '.items[] | select(.waiting) | .name'`,
		Run: e.reads(func(ctx context.Context, c *call) error {
			if err := c.NoArgs("swctl limits show NAME"); err != nil {
				return err
			}
			return c.reading(ctx, func(ctx context.Context, client group.Client) error {
				list, err := client.Limits(ctx)
				if err != nil {
					return err
				}
				return c.put(api.New("LimitList", api.ItemsOf(list)), func(p render.Page) {
					if p.Limits(list); len(list) == 0 {
						c.Notef("no limits: swctl limits set NAME --%s NUMBER makes one", flagMax)
					}
				})
			})
		}),
	}
}

func showLimitCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "limits show", Args: "NAME",
		Short: "show a limit: who holds its places, and who waits",
		Long: `For each place that is taken, it says which job or shard has it, and since when. Of the instances
whose runs wait, it says since when the oldest of these was due: the oldest gets the next place.`,
		Examples: `swctl limits show crm-api`,
		Run: e.reads(func(ctx context.Context, c *call) error {
			name, err := c.theName("limit", "swctl limits")
			if err != nil {
				return err
			}
			return c.reading(ctx, func(ctx context.Context, client group.Client) error {
				list, err := client.Limits(ctx)
				if err != nil {
					return err
				}
				for _, of := range list {
					if of.Name == name {
						return c.put(api.New("Limit", of), func(p render.Page) { p.Limit(of) })
					}
				}
				return fmt.Errorf("limits show %s: %w", name, admin.ErrNoLimit)
			})
		}),
	}
}

func setLimitCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "limits set", Args: "NAME --max NUMBER",
		Short: "make a limit, or change how many places it has",
		Long: `More places are there at once, for those who wait. With fewer, the runs in progress keep theirs
until they end, and no other begins until then. A number that is less than a job needs is refused.`,
		Examples: `swctl limits set crm-api --max 2
swctl limits set crm-api --max 1 --reason 'their API is slow today'`,
		Flags: append([]cmdline.Flag{
			{Name: flagMax, Usage: "`NUMBER` of places, 1 to 1000"},
			{Name: flagDryRun, Usage: "check it and list the jobs that name it, change nothing"},
		}, whoFlags(inLog)...),
		Run: e.run(func(ctx context.Context, c *call) error {
			name, err := c.theName("limit", "swctl limits set crm-api --max 2")
			if err != nil {
				return err
			}
			places, err := c.Number(flagMax, 0, 1, job.MaxPlaces)
			if err != nil {
				return err
			}
			if places == 0 {
				return cmdline.Usage("limits set needs --%s", flagMax).Try("swctl limits set %s --%s 1", name, flagMax)
			}
			return c.changeNamed(ctx, "limit", func(ctx context.Context, client group.Client, opts admin.NamedOptions) (admin.NamedChange, error) {
				return client.SetLimit(ctx, name, places, opts)
			})
		}),
	}
}

func deleteLimitCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "limits delete", Args: "NAME",
		Short:    "delete a limit that no job names",
		Examples: `swctl limits delete crm-api`,
		Flags:    append([]cmdline.Flag{{Name: flagDryRun, Usage: "only say whether it can be deleted"}}, whoFlags(inLog)...),
		Run: e.run(func(ctx context.Context, c *call) error {
			name, err := c.theName("limit", "swctl limits")
			if err != nil {
				return err
			}
			return c.changeNamed(ctx, "limit", func(ctx context.Context, client group.Client, opts admin.NamedOptions) (admin.NamedChange, error) {
				return client.DeleteLimit(ctx, name, opts)
			})
		}),
	}
}

func freeLimitCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "limits free", Args: "NAME",
		Short: "give back places that no run has",
		Long: `Whatever ends a run gives its places back. After a change with ZooKeeper's own shell, or a restore
of part of its data, a place may be held for a run that is gone: swctl doctor tells. A place of a
run in progress stays: swctl stop-run ends that.`,
		Examples: `swctl limits free crm-api --dry-run`,
		Flags:    append([]cmdline.Flag{{Name: flagDryRun, Usage: "only list them"}}, whoFlags(inLog)...),
		Run: e.run(func(ctx context.Context, c *call) error {
			name, err := c.theName("limit", "swctl limits")
			if err != nil {
				return err
			}
			dry := c.Flags.Bool(flagDryRun)
			return c.connected(ctx, func(ctx context.Context, client group.Client) error {
				freed, err := client.FreePlaces(ctx, name, admin.NamedOptions{DryRun: dry})
				if err != nil {
					return err
				}
				return c.put(api.New("FreedPlaces", api.Named{Name: name}, api.ItemsOf(freed)), func(p render.Page) { p.Freed(name, freed, dry) })
			})
		}),
	}
}
