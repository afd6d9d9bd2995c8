package commands

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

func versionCommand(build buildInfo) *cmdline.Command {
	return &cmdline.Command{
		Name:  "version",
		Short: "show the version of swctl",
		Examples: `swctl version
swctl version -o json | jq -r .version`,
		Run: alone(func(_ context.Context, r *reply) error { return version(r, build) }),
	}
}

// buildInfo tells how the program was built, if that is known.
type buildInfo func() (*debug.BuildInfo, bool)

// versionInfo is the content of a Version document.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
}

func version(r *reply, build buildInfo) error {
	if err := r.NoArgs("swctl %s", r.Command); err != nil {
		return err
	}
	out := versionInfo{Version: "unknown", Go: "unknown"}
	if info, ok := build(); ok {
		out.Version, out.Go = cmp.Or(info.Main.Version, "(devel)"), info.GoVersion
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				out.Revision = s.Value
			}
		}
	}
	return r.put(api.New("Version", out), func(render.Page) {
		about := out.Go
		if out.Revision != "" {
			about = fmt.Sprintf("%.7s, %s", out.Revision, out.Go)
		}
		fmt.Fprintf(&r.Out, "%s %s (%s)\n", r.Program, out.Version, about)
	})
}
