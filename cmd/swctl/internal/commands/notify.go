package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/notify"
)

const aboutConfig = `
The file, and those with secrets that it names, must not be readable by others:

  {
    "targets": {
      "ops":  {"type": "slack", "url_file": "slack.url"},
      "hook": {"type": "webhook", "url_file": "hook.url", "key_file": "hook.key"},
      "ding": {"type": "dingtalk", "url_file": "ding.url", "key_file": "ding.key"},
      "we":   {"type": "wecom", "url_file": "we.url"},
      "mail": {"type": "mail", "server": "mail.example.com:587", "user": "jobs", "password_file": "mail.password",
               "from": "jobs@example.com", "to": ["ops@example.com"]}
    },
    "rules": [
      {"jobs": "report*", "on": ["failed", "missed", "late", "hung", "recovered"], "after": 2, "to": ["ops", "mail"]}
    ],
    "pings": [{"url_file": "hc.url"}, {"url_file": "hc-report.url", "job": "report"}],
    "gather": "5s", "every": "1m"
  }

Paths are relative to the file. A rule without "jobs" is for all jobs, without "on" for everything.
A ping without "job" is sent as long as an instance lives, to a service that raises an alarm when it stops.`

func notifyCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name:  "notify",
		Short: "tell people about jobs that fail, are late or hang, until interrupted",
		Long: `For groups whose applications do not do that themselves, with package notify. Several may run: one of
them sends, and another continues where that one stood. All of a group need the same rules.
` + aboutConfig,
		Examples: `swctl notify --config /etc/swctl/notify.json`,
		Flags:    []cmdline.Flag{configFlag()},
		Run:      e.run(runNotifier),
	}
}

func testNotifyCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name:  "notify test",
		Short: "send a test message to a target of swctl notify",
		Long: `Sends one message, which says that it is a test, and prints what the target answered if that was an
error. ZooKeeper is not asked.
` + aboutConfig,
		Examples: `swctl notify test --config /etc/swctl/notify.json --to ops`,
		Flags:    []cmdline.Flag{configFlag(), {Name: flagTo, Usage: "`TARGET` the target's name in the file"}},
		Run:      e.run(testNotifier),
	}
}

func configFlag() cmdline.Flag {
	return cmdline.Flag{Name: flagConfig, Usage: "`FILE` with the targets and the rules, in JSON"}
}

// notifierOf is made of the file.
func notifierOf(c *call) (*notify.Notifier, error) {
	if err := c.NoArgs("swctl %s --%s FILE", c.Command, flagConfig); err != nil {
		return nil, err
	}
	path := c.Flags.String(flagConfig)
	if path == "" {
		return nil, cmdline.Usage("%s needs the file with the targets", c.Command).Try("swctl %s --%s FILE; swctl help %s describes it", c.Command, flagConfig, c.Command)
	}
	cfg, err := readNotifyFile(path)
	if err != nil {
		return nil, err
	}
	if cfg.Group, err = group.Config(c.Settings); err != nil {
		return nil, err
	}
	cfg.ID, cfg.Logger = c.whoami(), slog.New(remarks{c.Call})
	n, err := notify.New(cfg)
	if refused := (*invalid.FieldError)(nil); errors.As(err, &refused) && refused.Of == "notify.Config" && refused.Field != "Group" {
		return nil, cmdline.Usage("--%s %s: %s: %w", flagConfig, path, strings.TrimSpace(refused.Field+" "+refused.Value), refused.Err)
	}
	return n, err
}

// notifying is the content of a Notifier document.
type notifying struct {
	Group string `json:"group"`
}

func runNotifier(ctx context.Context, c *call) error {
	n, err := notifierOf(c)
	if err != nil {
		return err
	}
	err = c.tell(api.New("Notifier", notifying{c.ServerType}), func(render.Page) {
		fmt.Fprintf(&c.Out, "telling about the jobs of %s; press Ctrl-C to stop\n", plain.Printable(c.ServerType))
	})
	if err != nil {
		return err
	}
	return n.Run(ctx)
}

// notified is the content of a Notification document.
type notified struct {
	Target string `json:"target"`
}

func testNotifier(ctx context.Context, c *call) error {
	n, err := notifierOf(c)
	if err != nil {
		return err
	}
	target := c.Flags.String(flagTo)
	if target == "" {
		return cmdline.Usage("%s needs the name of a target", c.Command).Try("swctl %s --%s FILE --%s TARGET", c.Command, flagConfig, flagTo)
	}
	err = n.Test(ctx, target)
	if refused := (*invalid.FieldError)(nil); errors.As(err, &refused) {
		return cmdline.Usage("--%s %s: %w", flagTo, target, refused.Err)
	}
	if err != nil {
		return cmdline.WithCode(cmdline.ExitNo, fmt.Errorf("%s: %w", target, err)) // swctl has done its part
	}
	return c.put(api.New("Notification", notified{target}), func(render.Page) {
		fmt.Fprintf(&c.Out, "sent a test message to %s\n", plain.Printable(target))
	})
}
