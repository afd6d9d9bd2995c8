package commands

import (
	"context"
	"embed"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
)

// scripts are what completion prints, by the names of the shells.
//
//go:embed completion.bash completion.fish completion.zsh
var scripts embed.FS

var shells = []string{"bash", "zsh", "fish"}

func completionCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "completion", Args: strings.Join(shells, " | "),
		Short: "print the script with which a shell completes command lines",
		Long: `The Tab key then completes commands, flags and their values, and the names of jobs, instances,
handlers and server types, which are read from ZooKeeper with the flags of the line and the
variables of the shell. A server that does not answer within 200 ms completes nothing.`,
		Examples: `swctl completion bash > /etc/bash_completion.d/swctl    # or: source <(swctl completion bash)
swctl completion zsh > "${fpath[1]}/_swctl"             # or: source <(swctl completion zsh), after compinit
swctl completion fish > ~/.config/fish/completions/swctl.fish`,
		Run: completion, Lenient: true,
	}
}

func completion(_ context.Context, c *cmdline.Call) error {
	if len(c.Args) != 1 || !slices.Contains(shells, c.Args[0]) {
		return cmdline.Usage("completion needs the name of a shell: %s", strings.Join(shells, ", ")).Try("swctl completion bash")
	}
	script, err := scripts.ReadFile("completion." + c.Args[0])
	c.Out.WriteString(strings.ReplaceAll(string(script), "swctl", c.Program))
	return err
}

// names lists the names of a kind, with one request or a few, however many jobs there are.
func (e *env) names(ctx context.Context, set cmdline.Settings, kind cmdline.Kind) (offers []cmdline.Offer, err error) {
	if kind == cmdline.KindServerType && set.ServerType == "" {
		set.ServerType = "any" // it is not read
	}
	return offers, group.Do(ctx, set, e.dial, func(string) {}, func(ctx context.Context, client group.Client) error {
		var names []string
		switch kind {
		case cmdline.KindJob:
			names, err = client.Names(ctx)
		case cmdline.KindHandler:
			names, err = client.Handlers(ctx)
		case cmdline.KindServerType:
			names, err = client.ServerTypes(ctx)
		case cmdline.KindInstance:
			names, err = client.InstanceIDs(ctx)
		}
		for _, name := range names {
			offers = append(offers, cmdline.Offer{Value: name})
		}
		return err
	})
}
