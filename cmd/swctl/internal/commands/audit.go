package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/txnaudit"
)

const (
	flagTxnLog = "txnlog"
	flagFollow = "follow"
)

func auditCommand(run auditing) *cmdline.Command {
	return &cmdline.Command{
		Name:  "audit",
		Short: "prove from ZooKeeper's transaction log what the group did",
		Long: `Reads the transaction logs and snapshots of a ZooKeeper server and verifies for each
transaction of the group that it was allowed: no tick was claimed twice, each change of
owner was legal, fencing tokens grew, and every tick is accounted for. Shows the first
violation with the transactions around it, and exits with 1.

It connects to nothing: run it on the server, as a user who can read its files, or on a
copy of them. The server may be running. Of --zk only the chroot counts. --timeout applies
only if it is given. What was purged cannot be judged; the remarks say so. A log has only
writes that were made: whether a run began in time, or what its handler did, is not in it.

--follow judges a server's log as it grows, until the first broken promise, which it exits with
as above, or until interrupted. Run it as a service whose unit has an OnFailure=.`,
		Examples: `swctl audit --txnlog /var/lib/zookeeper
swctl audit --txnlog /data --txnlog /datalog --since '2026-11-22 02:00' --until '2026-11-22 04:00'
swctl audit --txnlog zk1/data --txnlog zk2/data --zk zk1:2181/apps
swctl audit --txnlog /data -o json | jq '.violations[0], .around'
swctl audit --txnlog /var/lib/zookeeper --follow || mail -s 'audit of billing' ops@example.com`,
		Flags: []cmdline.Flag{
			{Name: flagTxnLog, Usage: "`DIR` dataDir or dataLogDir of a server; may be repeated, also for other servers of the ensemble", Repeated: true},
			{Name: flagSince, Usage: "`TIME` judge from then on: 2006-01-02 15:04 in UTC, or RFC 3339"},
			{Name: flagUntil, Usage: "`TIME` until when"},
			{Name: flagFollow, Usage: "go on as the log grows, until a promise is broken"},
		},
		Run: alone(func(ctx context.Context, r *reply) error { return audit(ctx, r, run) }),
	}
}

// auditing is txnaudit.Run.
type auditing func(context.Context, txnaudit.Options) (txnaudit.Report, error)

func audit(ctx context.Context, r *reply, run auditing) error {
	opts, err := auditOptions(r.Call)
	if err != nil {
		return err
	}
	r.Lasts()
	ctx, cancel := r.Within(ctx)
	defer cancel()
	report, err := run(ctx, opts)
	if err != nil {
		return auditError(err)
	}
	err = r.put(api.New("AuditReport", report), func(p render.Page) { p.Audit(report) })
	if !report.OK {
		err = errors.Join(err, cmdline.WithCode(cmdline.ExitNo, broken(report)))
	}
	return err
}

// broken says that a promise was broken, with the first violation; or what ZooKeeper has lost.
func broken(report txnaudit.Report) error {
	if len(report.Violations) == 0 {
		first := report.Losses[0]
		return fmt.Errorf("audit: no promise of the group was broken, but ZooKeeper has lost transactions, the first time zxid %v to %v", first.First, first.Last)
	}
	first := report.Violations[0]
	return fmt.Errorf("audit: a promise was broken: %s: zxid %v: %s", first.Job, first.Zxid, first.Text)
}

func auditOptions(c *cmdline.Call) (opts txnaudit.Options, err error) {
	if err := c.NoArgs("swctl audit --%s DIR", flagTxnLog); err != nil {
		return opts, err
	}
	if opts.Dirs = c.Flags.StringSlice(flagTxnLog); len(opts.Dirs) == 0 {
		return opts, cmdline.Usage("audit needs --%s", flagTxnLog).Try("--%s DIR, the dataDir of a ZooKeeper server", flagTxnLog)
	}
	if c.ServerType == "" {
		return opts, cmdline.NoServerType()
	}
	opts.ServerType = c.ServerType
	if !strings.HasPrefix(c.ZK, "file:") { // which has none
		_, opts.Chroot, _ = strings.Cut(c.ZK, "/")
	}
	for flag, bound := range map[string]*time.Time{flagSince: &opts.Since, flagUntil: &opts.Until} {
		given, err := c.ClockTime(flag)
		if err == nil && given.Given() {
			*bound, err = given.In(time.UTC, c.Now())
		}
		if err != nil {
			return opts, err
		}
	}
	opts.Follow = c.Flags.Bool(flagFollow)
	if c.Interactive {
		opts.Progress = auditProgress(c)
		opts.CaughtUp = auditCaughtUp(c)
	}
	return opts, nil
}

// progressAfter is how often a long audit says how far it is.
const progressAfter = 3 * time.Second

// auditProgress says on the terminal how far an audit is.
func auditProgress(c *cmdline.Call) func(done, total int64) {
	last := c.Now()
	return func(done, total int64) {
		if now := c.Now(); now.Sub(last) >= progressAfter && total > 0 {
			last = now
			c.Sayf("audit: %d %% of %d MB", done*100/total, total>>20)
		}
	}
}

// saysEach is how often an audit that follows the log says how far it is.
const saysEach = time.Minute

// auditCaughtUp says on the terminal up to when an audit has judged, when it has read all there was
// and then now and then.
func auditCaughtUp(c *cmdline.Call) func(txnaudit.Point, txnaudit.Counts) {
	var last time.Time
	return func(at txnaudit.Point, counts txnaudit.Counts) {
		if now := c.Now(); now.Sub(last) >= saysEach {
			last = now
			c.Sayf("audit: nothing is broken up to %s, zxid %v: %d claims", at.Time.Format(time.RFC3339), at.Zxid, counts.Claims)
		}
	}
}

// auditError says what to try when files cannot be audited.
func auditError(err error) error {
	switch {
	case errors.Is(err, txnaudit.ErrNoLog):
		return cmdline.Usage("audit: %w", err).Try("--%s DIR, what zoo.cfg calls dataDir or dataLogDir", flagTxnLog)
	case errors.Is(err, txnaudit.ErrNoGroup):
		return cmdline.Usage("audit: %w", err).Try("--server-type NAME, --zk HOSTS/CHROOT if the application has a chroot, and other times (--since, --until)")
	case errors.Is(err, txnaudit.ErrServers):
		return cmdline.Usage("audit: %w", err).Try("a --%s of each server, in a process of its own", flagFollow)
	case errors.Is(err, txnaudit.ErrCorrupt):
		return cmdline.Usage("audit: %w", err).Try("the files of another server of the ensemble")
	case errors.Is(err, txnaudit.ErrFile):
		return cmdline.Usage("audit: %w", err).Try("run it as the user that ZooKeeper runs as, or copy its files")
	}
	return fmt.Errorf("audit: %w", err)
}
