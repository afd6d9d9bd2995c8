package commands

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/effects"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// A DatabaseOpener opens the database that a URL names, in which an application uses package once.
// readOnly says that nothing will be written. Its errors must not have the URL's password.
type DatabaseOpener func(address *url.URL, readOnly bool) (effects.Database, error)

const (
	flagDB = "db"
	envDB  = "SWCTL_DB"
)

// databases are where markers are, by the scheme of their URLs.
type databases map[string]DatabaseOpener

func (d databases) flag() cmdline.Flag {
	return cmdline.Flag{Name: flagDB, Usage: "`URL` of the application's database, such as " + databaseForms + " ($" + envDB + ")"}
}

const databaseForms = "postgres://USER@HOST/DATABASE, mariadb://USER@HOST:PORT/DATABASE or sqlite:FILE"

// open opens the database that the flag or the variable names. The caller must close it.
func (d databases) open(c *cmdline.Call, readOnly bool) (effects.Database, error) {
	if len(d) == 0 {
		return nil, cmdline.Usage("%s: this program has no databases", c.Command).
			Try("go install %s, and swctl-sql instead of swctl", withDatabases)
	}
	try := "--" + flagDB + " " + databaseForms
	address, err := addressOf(c, flagDB, envDB, "the application's database", try)
	if err != nil {
		return nil, err
	}
	open := d[address.Scheme]
	if open == nil {
		return nil, cmdline.Usage("%s: a URL begins with one of %s", sourceOf(c, flagDB, envDB), strings.Join(slices.Sorted(maps.Keys(d)), ", ")).Try("%s", try)
	}
	db, err := open(address, readOnly)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Command, err)
	}
	return db, nil
}

func checkOnceCommand(databases databases, stores stores) *cmdline.Command {
	return &cmdline.Command{
		Name: "once", Aliases: []string{"once check"},
		Short: "compare the effects in a database with the run log",
		Long: `For applications whose handlers use package once. Each tick that the run log has as ok must have
its marker in the application's database, and each marker a tick that is ok. Shows the others,
and exits with 1 if there are any, or if there is nothing to compare. It belongs to swctl-sql.

It writes nothing, and needs SELECT on once_schema, once_fences and once_ticks. Neither
ZooKeeper nor an instance is asked, and both may be at work meanwhile. A job is compared
from the first tick that both sides keep, so what was pruned is no difference, up to runs of
which it is certain that they have ended. Holes of the log are left out. Jobs that have
never used the package are counted as others. A handler that has nothing to do for a tick
must call once.Do all the same. --timeout applies only if it is given.

A URL with a password belongs into $` + envDB + `. PGPASSFILE counts, too.`,
		Examples: `swctl once check --db postgres://check@db/billing --store file:/var/lib/swctl
SWCTL_DB="$(cat /etc/billing/db.url)" swctl once check --store file:/var/lib/swctl
swctl once check --db sqlite:/var/lib/billing.db --store file:/var/lib/swctl --since 7d
swctl once check -o json | jq -r '.differences[] | [.missing, .slot, .tick, .run_id] | @tsv'`,
		Flags: []cmdline.Flag{
			databases.flag(), stores.flag("of the run log"),
			{Name: flagSince, Usage: "`TIME` compare ticks from then on, or so long ago, such as 7d"},
		},
		Run: alone(func(ctx context.Context, r *reply) error { return checkOnce(ctx, r, databases, stores) }),
	}
}

func checkOnce(ctx context.Context, r *reply, databases databases, stores stores) error {
	if err := r.NoArgs("swctl once check"); err != nil {
		return err
	}
	if r.ServerType == "" {
		return cmdline.NoServerType()
	}
	since, err := pastTime(r.Call, flagSince)
	if err != nil {
		return err
	}
	db, err := databases.open(r.Call, true)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // it was only read
	log, err := stores.open(r.Call)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // as above
	r.Lasts()
	ctx, cancel := r.Within(ctx)
	defer cancel()
	report, err := effects.Compare(ctx, db, log, r.ServerType, since)
	if err != nil {
		return fmt.Errorf("once check: %w", err)
	}
	err = r.put(api.New("OnceCheck", report), func(p render.Page) {
		p.Effects(report)
	})
	switch {
	case err != nil:
	case report.Slots == 0:
		err = cmdline.WithHint(fmt.Errorf("once check: %w: nothing was compared, as no job of %s is in the run log and has a fence in the database", cmdline.ErrNo, r.ServerType),
			"the --server-type of the application, its database, and the store to which swctl runlog writes")
	case report.Found > 0:
		err = fmt.Errorf("once check: %w: %d ticks are done on one side alone", cmdline.ErrNo, report.Found)
	}
	return err
}

func resetOnceCommand(e *env, databases databases) *cmdline.Command {
	return &cmdline.Command{
		Name:  "once reset",
		Short: "after a restore of ZooKeeper, let lower tokens write again",
		Long: `For applications whose handlers use package once. Fencing tokens are ZooKeeper's transaction
numbers. After a restore from an older backup, or with a new ensemble, they begin lower, and runs
fail as fenced off. This lowers each fence that is above ZooKeeper's present transaction to that.
Markers stay, so no tick is done twice. It belongs to swctl-sql.

Stop all instances first, also those that cannot reach ZooKeeper: a run that began before
the restore would not be fenced off. It refuses while instances are in the group. It needs
SELECT and UPDATE on once_fences, and SELECT on once_schema and once_ticks.
Without a terminal to ask on it exits with 8 unless --yes is given.`,
		Examples: `swctl once reset --dry-run
SWCTL_DB="$(cat /etc/billing/db.url)" swctl once reset --server-type billing
swctl once reset --db sqlite:/var/lib/billing.db --yes`,
		Flags: []cmdline.Flag{databases.flag(), {Name: flagDryRun, Usage: "only say which fences would be lowered"}, yesFlag()},
		Run:   e.run(func(ctx context.Context, c *call) error { return resetOnce(ctx, c, databases) }),
	}
}

func resetOnce(ctx context.Context, c *call, databases databases) error {
	if err := c.NoArgs("swctl once reset"); err != nil {
		return err
	}
	db, err := databases.open(c.Call, c.Flags.Bool(flagDryRun))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // the statement has been executed
	act := func(ctx context.Context, client group.Client) error {
		found, err := fencesAbove(ctx, c, client, db)
		if err == nil && !found.DryRun {
			_, err = db.Lower(ctx, found.Group, found.Token)
		}
		if err != nil {
			return err
		}
		return c.put(api.New("OnceReset", found), func(render.Page) {
			for _, f := range found.Fences {
				fmt.Fprintf(&c.Out, "%s: %d\n", plain.Printable(f.Slot), f.Token)
			}
			verb := "lowered"
			if found.DryRun {
				verb = "to be lowered"
			}
			fmt.Fprintf(&c.Out, "fences %s to %d, ZooKeeper's present transaction: %d\n", verb, found.Token, len(found.Fences))
		})
	}
	if c.Flags.Bool(flagDryRun) {
		return c.connected(ctx, act)
	}
	return c.confirmed(ctx, func(ctx context.Context, client group.Client) (cmdline.Question, error) {
		found, err := fencesAbove(ctx, c, client, db)
		if err != nil || len(found.Fences) == 0 {
			return cmdline.Question{}, err
		}
		return cmdline.Question{
			Text: fmt.Sprintf("%s, whose ZooKeeper is at transaction %d: lower %d fences to that, of which the highest is %d? All its instances must be stopped. [y/N] ",
				c.ServerType, found.Token, len(found.Fences), highest(found.Fences)),
			Nothing: "no fence was lowered",
		}, nil
	}, act)
}

func highest(fences []effects.ResetFence) (token int64) {
	for _, f := range fences {
		token = max(token, f.Token)
	}
	return token
}

// fencesAbove lists the fences that are above ZooKeeper's present transaction. It refuses while
// instances are in the group.
func fencesAbove(ctx context.Context, c *call, client group.Client, db effects.Database) (effects.Reset, error) {
	found := effects.Reset{Group: c.ServerType, DryRun: c.Flags.Bool(flagDryRun), Fences: []effects.ResetFence{}}
	ids, err := client.InstanceIDs(ctx)
	if err != nil {
		return found, err
	}
	if len(ids) > 0 && !found.DryRun {
		return found, cmdline.WithHint(fmt.Errorf("once reset: %w: %s", admin.ErrInstancesLive, strings.Join(ids, ", ")), "stop them first")
	}
	found.Token = client.Zxid()
	fences, err := db.Fences(ctx, found.Group)
	for _, f := range fences {
		if f.Token > found.Token {
			found.Fences = append(found.Fences, effects.ResetFence{Slot: f.Slot, Token: f.Token})
		}
	}
	return found, err
}
