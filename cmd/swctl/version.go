package main

import (
	"cmp"
	"context"
	"fmt"
)

func (a *app) versionCommand() *command {
	return &command{
		name:  "version",
		short: "show the version of swctl",
		examples: `swctl version
swctl version -o json | jq -r .version`,
		run: a.action(version),
	}
}

func version(_ context.Context, c *call) error {
	if len(c.args) > 0 {
		return usage("version takes no arguments").try("swctl version")
	}
	out := jsonVersion{jsonHead: head("Version"), Version: "unknown", Go: "unknown"}
	if info, ok := c.build(); ok {
		out.Version, out.Go = cmp.Or(info.Main.Version, "(devel)"), info.GoVersion
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				out.Revision = s.Value
			}
		}
	}
	if c.json {
		return c.putJSON(out)
	}
	about := out.Go
	if out.Revision != "" {
		about = fmt.Sprintf("%.7s, %s", out.Revision, out.Go)
	}
	fmt.Fprintf(&c.out, "swctl %s (%s)\n", out.Version, about)
	return nil
}
