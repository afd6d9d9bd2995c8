// Package group is how swctl talks to the instances' records: it connects as the shared flags say,
// bounds its requests by --timeout, and adds to an error the flag or command to look at.
package group

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/fields"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Client is what swctl needs of *admin.Client.
type Client interface { //nolint:interfacebloat // it stands for a whole type, so that tests can have another
	Get(ctx context.Context, name string) (admin.JobStatus, error)
	List(ctx context.Context) ([]admin.JobStatus, error)
	Group(ctx context.Context) (admin.Group, error)
	Names(ctx context.Context) ([]string, error)
	Children(ctx context.Context, parents ...string) ([]string, error)
	ServerTypes(ctx context.Context) ([]string, error)
	InstanceIDs(ctx context.Context) ([]string, error)
	Handlers(ctx context.Context) ([]string, error)
	Instances(ctx context.Context) ([]admin.Instance, error)
	Examine(ctx context.Context, g admin.Group) (admin.Examination, error)
	Instance(ctx context.Context, sid string) (admin.InstanceDetails, error)
	Gone(ctx context.Context) ([]admin.GoneInstance, error)
	History(ctx context.Context, name string) (admin.History, error)
	Log(ctx context.Context, opts admin.LogOptions) ([]admin.LogEntry, error)
	Histories(ctx context.Context, jobs []admin.JobStatus) ([][]history.Entry, error)
	Why(ctx context.Context, name string, at time.Time) (admin.Explanation, error)
	Job(ctx context.Context, name string) (admin.JobDetails, error)
	Clock() (now time.Time, ahead time.Duration, own bool)
	Zxid() int64
	Stale() (sign time.Time, stale bool)
	Foreign(ctx context.Context, root, below string) ([]admin.ForeignNode, error)

	Submit(ctx context.Context, j job.Job, opts admin.SubmitOptions) (admin.Change, error)
	SubmitAll(ctx context.Context, jobs []admin.Submission) ([]admin.Change, error)
	AwaitOwner(ctx context.Context, name string) (admin.JobStatus, error)
	Edit(ctx context.Context, name string, change func(*job.Job) error, opts admin.EditOptions) (admin.Change, error)
	Version(ctx context.Context, name string, number int) (admin.JobVersion, error)
	Rollback(ctx context.Context, name string, to int, opts admin.EditOptions) (admin.Change, error)
	Pause(ctx context.Context, name string, opts admin.PauseOptions) (admin.PauseResult, error)
	Resume(ctx context.Context, name string, opts admin.ResumeOptions) (admin.PauseResult, error)
	Freeze(ctx context.Context, opts admin.FreezeOptions) (admin.FreezeResult, error)
	Unfreeze(ctx context.Context, opts admin.ResumeOptions) (admin.FreezeResult, error)
	Cancel(ctx context.Context, name string) (admin.JobStatus, error) // for swctl ui
	CancelSeen(ctx context.Context, name string, seen admin.Seen) (admin.JobStatus, error)
	Undelete(ctx context.Context, name string, opts admin.UndeleteOptions) (admin.Change, error)
	Clear(ctx context.Context, opts admin.ClearOptions) (admin.Cleared, error)
	Unreadable(ctx context.Context, name string) ([]admin.UnreadableNode, error)
	Repair(ctx context.Context, name string, nodes []admin.UnreadableNode) error

	Trigger(ctx context.Context, name string, opts admin.TriggerOptions) (admin.TriggerResult, error)
	Backfill(ctx context.Context, name string, opts admin.BackfillOptions) (admin.BackfillResult, error)
	AwaitRun(ctx context.Context, name, id string) ([]history.Entry, error)
	StopRun(ctx context.Context, name string, opts admin.StopOptions) ([]history.Entry, error)
	Requests(ctx context.Context, name string) ([]admin.Request, error)
	CancelRequests(ctx context.Context, name, id string) ([]admin.Request, error)

	Watch(ctx context.Context, opts admin.WatchOptions) iter.Seq2[admin.Event, error]
	WatchHistories(ctx context.Context, opts admin.WatchHistoriesOptions) iter.Seq2[admin.HistoryReading, error]

	Orders(ctx context.Context) ([]admin.Order, error)
	Drain(ctx context.Context, sid string, opts admin.OrderOptions) (admin.OrderResult, error)
	DisableAt(ctx context.Context, t admin.Target, opts admin.OrderOptions) (admin.OrderResult, error)
	EnableAt(ctx context.Context, t admin.Target) (admin.OrderResult, error)
	AwaitDrained(ctx context.Context, sid string) (instance admin.Instance, runs bool, err error)

	Calendars(ctx context.Context) ([]admin.Calendar, error)
	SetCalendar(ctx context.Context, name string, is job.Calendar, opts admin.NamedOptions) (admin.NamedChange, error)
	DeleteCalendar(ctx context.Context, name string, opts admin.NamedOptions) (admin.NamedChange, error)

	Limits(ctx context.Context) ([]admin.Limit, error)
	SetLimit(ctx context.Context, name string, places int, opts admin.NamedOptions) (admin.NamedChange, error)
	DeleteLimit(ctx context.Context, name string, opts admin.NamedOptions) (admin.NamedChange, error)
	FreePlaces(ctx context.Context, name string, opts admin.NamedOptions) ([]admin.HeldPlace, error)

	Roles(ctx context.Context) (admin.Roles, error)
	SetRoles(ctx context.Context, roles admin.Roles) (admin.RolesSet, error)
	CheckRoles(ctx context.Context) (admin.RolesCheck, error)

	Close()
}

// Dialer connects to a group.
type Dialer func(context.Context, admin.Config) (Client, error)

// Dial is the Dialer of package admin.
func Dial(ctx context.Context, cfg admin.Config) (Client, error) {
	c, err := admin.Dial(ctx, cfg)
	if err != nil {
		return nil, err // not c: a nil *admin.Client is no nil Client
	}
	return c, nil
}

// Do does one thing with a group within --timeout. Its errors have hints: see Explain. If no server
// answers at first, that is the error, unless --timeout was given: then it says so, and keeps
// trying.
func Do(ctx context.Context, set cmdline.Settings, dial Dialer, say func(string), do func(context.Context, Client) error) error {
	ctx, cancel := set.Within(ctx)
	defer cancel()
	return connected(ctx, set, dial, say, nil, do)
}

// Read is Do for a call that may read a great many nodes: the time of --timeout starts again with
// each answer, of which heard is told how many nodes were read.
func Read(ctx context.Context, set cmdline.Settings, dial Dialer, say func(string), heard func(nodes int),
	do func(context.Context, Client) error,
) error {
	if set.Timeout == 0 {
		return connected(ctx, set, dial, say, heard, do)
	}
	limited, stop := withPatience(ctx, set.Timeout)
	defer stop()
	return connected(limited, set, dial, say, func(nodes int) {
		limited.renew()
		heard(nodes)
	}, do)
}

func connected(ctx context.Context, set cmdline.Settings, dial Dialer, say func(string), heard func(nodes int),
	do func(context.Context, Client) error,
) error {
	cfg, err := Config(set)
	if err != nil {
		return err
	}
	until := "interrupted"
	if set.Timeout > 0 {
		until = fmt.Sprintf("--timeout (%s) is over", set.Timeout)
	}
	cfg.OnTrouble = func(trouble *admin.ServersError) error {
		if !set.Patient && set.Timeout > 0 && !trouble.Any(admin.ServerServing) {
			return trouble
		}
		say(fmt.Sprintf("%v; trying until %s", trouble, until))
		return nil
	}
	cfg.OnOpenACL = func(err error) { say(fmt.Sprintf("warning: %v", err)) }
	cfg.OnRead = heard
	client, err := dial(ctx, cfg)
	if err != nil {
		return Explain(set, fmt.Errorf("connect to %s: %w", set.ZK, err))
	}
	defer client.Close()
	return Explain(set, do(ctx, client))
}

// Explain adds a hint to what went wrong with the server, unless the command knew a better
// one.
func Explain(set cmdline.Settings, err error) error {
	switch {
	case err == nil || cmdline.HintOf(err) != "":
		return err
	case errors.As(err, new(*cmdline.SignalError)):
		return err // the server is not to blame
	case errors.Is(err, admin.ErrUnavailable):
		return cmdline.WithHint(err, "%s", unavailable(set, err))
	case errors.Is(err, admin.ErrFull):
		return cmdline.WithHint(err, "another --server-type, or servers with a chroot (host:2181/jobs2), for part of the jobs")
	case errors.Is(err, admin.ErrTooLarge):
		return cmdline.WithHint(err, "fewer jobs at once, or without --atomic")
	case errors.Is(err, admin.ErrTooLong):
		return cmdline.WithHint(err, "ZooKeeper's own shell (deleteall) to remove what the application did not create there")
	case errors.Is(err, admin.ErrDenied):
		return cmdline.WithHint(err, "--auth-file FILE with the user:password of the application%s", orRole(set, err))
	case errors.Is(err, admin.ErrCutOff):
		return cmdline.WithHint(err, "--auth-file with the application's credentials, or an admin's; swctl help acl init")
	case errors.Is(err, admin.ErrNoRoles):
		return cmdline.WithHint(err, "swctl acl init; until then nodes belong to whom the application's Config.Auth and Config.ACL say")
	case errors.Is(err, admin.ErrOpenACL):
		return cmdline.WithHint(err, "the command above first; or no --auth-file, if the group is meant to be open")
	case errors.Is(err, admin.ErrInstancesLive):
		return cmdline.WithHint(err, "swctl instances, and stop them first; or --despite-instances, if only the jobs are to go")
	case errors.Is(err, admin.ErrConflict):
		return cmdline.WithHint(err, "again; swctl list shows what became of the job")
	case errors.Is(err, context.DeadlineExceeded):
		return cmdline.WithHint(fmt.Errorf("not done within %s: %w", set.Timeout, err), "a longer --timeout")
	case errors.Is(err, admin.ErrUnreadable):
		return cmdline.WithHint(err, "swctl submit NAME SCHEDULE --replace overwrites a spec, swctl repair NAME other records; a newer swctl reads what a newer version wrote")
	case errors.Is(err, admin.ErrNoInstance):
		return cmdline.WithHint(err, "swctl instances lists those of server type %s at %s; swctl instances disable is for one that does not run", set.ServerType, set.ZK)
	case errors.Is(err, admin.ErrNoShard):
		return cmdline.WithHint(err, "swctl show NAME lists the shards of a job, or the instances that it runs on")
	case errors.Is(err, admin.ErrNoGroup):
		return cmdline.WithHint(err, "swctl list --server-type TYPE; there is nothing of server type %s at %s", set.ServerType, set.ZK)
	case errors.Is(err, admin.ErrNotFound):
		return cmdline.WithHint(err, "swctl list shows the jobs of server type %s at %s", set.ServerType, set.ZK)
	}
	return Refused(err)
}

// orRole names the role that allows a call that was refused, if the error tells.
func orRole(set cmdline.Settings, err error) string {
	if role := admin.NeededRole(set.ServerType, err); role != "" {
		return "; in a group with roles (swctl acl show), of one of its " + role
	}
	return ""
}

// unavailable says what to look at when no server answers.
func unavailable(set cmdline.Settings, err error) string {
	servers := new(admin.ServersError)
	switch {
	case errors.As(err, new(*net.DNSError)):
		return fmt.Sprintf("correct the host name in --zk %s (or SWCTL_ZK)", set.ZK)
	case strings.Contains(err.Error(), "tls: "):
		return "correct --tls-ca, --tls-cert or --tls-key: a server answered, and it or swctl refused the other's certificate"
	case errors.As(err, &servers):
		return fmt.Sprintf("%s; --zk (or SWCTL_ZK) is %s", servers.Remedy(), set.ZK)
	}
	return fmt.Sprintf("look whether ZooKeeper is up at %s (--zk or SWCTL_ZK): swctl doctor", set.ZK)
}

// flags has the flags of package admin's options, by the field in an *invalid.FieldError that is
// not of a job.
var flags = map[string]string{
	"Servers": cmdline.FlagZK, "ServerType": cmdline.FlagServerType, "Auth": cmdline.FlagAuthFile,
	"Until": "until", "Missed": "missed", "By": "by", "Reason": "reason",
}

// Refused puts an error about an option or a field into the words of the command line.
func Refused(err error) error {
	refused := new(invalid.FieldError)
	if !errors.As(err, &refused) || refused.Of == "job" {
		return fields.Refused(err)
	}
	if refused.Field == "Roles" { // of which there are several flags
		return cmdline.Usage("--%s: %w", refused.Value, refused.Err)
	}
	flag, ok := flags[refused.Field]
	if !ok {
		return err
	}
	bad := cmdline.Usage("--%s %q: %w", flag, refused.Value, refused.Err)
	switch flag {
	case cmdline.FlagZK:
		return bad.Try("--%s host:port,host:port/chroot", flag)
	case cmdline.FlagServerType:
		return bad.Try("--%s NAME, the Config.ServerType of the application", flag)
	case cmdline.FlagAuthFile: // its value is a secret
		return cmdline.Usage("--%s: %w", flag, refused.Err).Try("a file that holds user:password")
	}
	return bad
}
