package commands

import (
	"context"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

func configCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "config", Args: "view",
		Short: "show the value of each shared flag, and where it comes from",
		Long: `A flag comes before a variable, a variable before the profile, and that before the default.
Profiles are in ~/.config/swctl/config.json, or in the file that SWCTL_CONFIG names. Nobody
else may be able to change it:

  {
    "profiles": {
      "prod": {"zk": "zk1:2181,zk2:2181/prod", "server-type": "billing", "auth-file": "billing.auth"},
      "test": {"zk": "127.0.0.1:2181", "server-type": "billing"}
    }
  }

A profile has any of zk, server-type, timeout, auth-file, tls-ca, tls-cert and tls-key. Paths
are relative to the file, which holds no secrets itself. SWCTL_PROFILE names the profile of a
shell. If --profile names one and a variable has another value, the line is refused.`,
		Examples: `swctl config view
swctl config view --profile prod
swctl list --profile prod
export SWCTL_PROFILE=prod`,
		Run: alone(config),
	}
}

func config(_ context.Context, r *reply) error {
	if len(r.Args) != 1 || r.Args[0] != "view" {
		return cmdline.Usage("config knows only view").Try("swctl config view")
	}
	var t output.Table
	t.Row("FLAG", "VALUE", "SOURCE")
	for _, s := range r.Sources {
		t.Row("--"+s.Flag, s.Value, s.Source)
	}
	return r.put(api.List("SettingList", r.Sources), func(render.Page) { t.Write(&r.Out, "") })
}
