package commands

import (
	"cmp"
	"context"
	"fmt"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

func (a *app) versionCommand() *cmdline.Command {
	return &cmdline.Command{
		Name:  "version",
		Short: "show the version of swctl",
		Examples: `swctl version
swctl version -o json | jq -r .version`,
		Run: a.run(version),
	}
}

// versionInfo is the content of a Version document.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
}

func version(_ context.Context, c *call) error {
	if err := c.noArgs("swctl %s", c.Command); err != nil {
		return err
	}
	out := versionInfo{Version: "unknown", Go: "unknown"}
	if info, ok := c.build(); ok {
		out.Version, out.Go = cmp.Or(info.Main.Version, "(devel)"), info.GoVersion
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				out.Revision = s.Value
			}
		}
	}
	return c.put(api.New("Version", out), func(render.Page) {
		about := out.Go
		if out.Revision != "" {
			about = fmt.Sprintf("%.7s, %s", out.Revision, out.Go)
		}
		fmt.Fprintf(&c.Out, "%s %s (%s)\n", c.Program, out.Version, about)
	})
}
