package commands

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/web"
)

const (
	flagAnyone     = "anyone-may-read"
	flagServerName = "server-name"
	flagProxy      = "proxy"
	flagActions    = "allow-actions"
	flagTokenFile  = "token-file"
	flagRunURL     = "run-url"
)

var uiListens = listener{usual: "127.0.0.1:7468", anyone: flagAnyone, risk: "everyone there could read all jobs, their arguments and errors"}

func uiCommand(e *env, stores stores) *cmdline.Command {
	return &cmdline.Command{
		Name:  "ui",
		Short: "show the group in a browser, until interrupted",
		Long: `Serves pages, and the JSON of -o json under /api/v1/, on this machine only: what needs
attention and the command that mends it, jobs, runs, instances. Whatever the number of
viewers, ZooKeeper is read once for all of them, and only while someone looks.

Nothing can be changed unless --allow-actions is given. Then pages can trigger, pause, resume
and cancel jobs, stop runs, and drain and enable instances: for those who have the token,
which is in --token-file or else printed at the start, and who say their name and a reason.
Each action is a line on stderr with both; runs, pauses and drains are recorded with them, too.

With --store, the page of a job has what swctl runlog has kept of it, too, and the timeline goes
further back. Without the store, or while it is down, they have what ZooKeeper holds.

The pages ask nobody who they are, and have the schedules, arguments, errors and hosts of
all jobs. So another address than one of this machine needs --anyone-may-read as well:
everyone who reaches it reads all that, without encryption. Better put a proxy in front
that asks for a password and speaks TLS, name it with --server-name, and its address with
--proxy, so that limits count by its clients' addresses. Actions are taken
from this machine only, at whatever address: a token crosses no network in clear text.`,
		Examples: `swctl ui
swctl ui --listen 127.0.0.1:0 -o json
swctl ui --store file:/var/lib/swctl
swctl ui --run-url 'https://logs.example.org/?q={run}&from={started_ms}'
swctl ui --allow-actions --token-file /etc/swctl/token
swctl ui --listen 10.0.0.5:7468 --anyone-may-read --server-name jobs.example.org`,
		Flags: []cmdline.Flag{
			uiListens.flag(),
			{Name: flagAnyone, Usage: "serve at an address that other machines reach: everyone there may read everything"},
			{Name: flagServerName, Usage: "`NAME` by which browsers reach it, beside localhost and addresses; may be repeated", Repeated: true},
			{Name: flagProxy, Usage: "`ADDRESS` of a proxy, or of a network of them, whose X-Forwarded-For is believed; may be repeated", Repeated: true},
			stores.flag("a store that swctl runlog keeps"),
			{Name: flagRunURL, Usage: "`URL` of the logs or traces of a run, with {run}, {job}, {instance}, {started}, {ended}, {started_ms}, {ended_ms}"},
			{Name: flagActions, Usage: "let those who have the token change jobs and instances; on this machine only"},
			{Name: flagTokenFile, Usage: "`FILE` that holds the token, mode 0600 (default: a new one at each start); it is read for each action"},
		},
		Run: e.run(func(ctx context.Context, c *call) error { return ui(ctx, c, stores) }),
	}
}

// uiServer is the content of a UIServer document.
type uiServer struct {
	URL   string `json:"url"`
	Token string `json:"token,omitempty"` // if it was made at this start
}

func ui(ctx context.Context, c *call, stores stores) error {
	if err := c.NoArgs("swctl %s", c.Command); err != nil {
		return err
	}
	listen, err := uiListens.address(c.Call)
	if err != nil {
		return err
	}
	proxies, err := proxiesOf(c.Call)
	if err != nil {
		return err
	}
	token, made, err := actionToken(c.Call)
	if err != nil {
		return err
	}
	c.Lasts()
	opts := web.Options{
		Title: c.ServerType, Group: c.ServerType, RunURL: c.Flags.String(flagRunURL), Hosts: append(c.Flags.StringSlice(flagServerName), "localhost"), Proxies: proxies,
		AllowActions: token != nil, ActionsFromHere: true, TokenNow: token, Logger: slog.New(slog.NewTextHandler(c.Stderr, nil)),
	}
	if c.Flags.IsSet(flagStore) || c.Env(envStore) != "" {
		store, err := stores.open(c.Call)
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }() // it was only read
		opts.History = store
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		pages, err := web.Handler(client, opts)
		if err != nil {
			return err
		}
		return servePages(ctx, c.reply, listen, pages, token != nil, made)
	})
}

// proxiesOf are addresses, and networks such as 10.0.0.0/8.
func proxiesOf(c *cmdline.Call) (all []netip.Prefix, err error) {
	for _, text := range c.Flags.StringSlice(flagProxy) {
		one, err := netip.ParsePrefix(text)
		if address, notOne := netip.ParseAddr(text); notOne == nil {
			one, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil {
			return nil, cmdline.Usage("--%s %q: is neither an address nor a network", flagProxy, text).Try("--%s 127.0.0.1, or --%s 10.0.0.0/8", flagProxy, flagProxy)
		}
		all = append(all, one)
	}
	return all, nil
}

// actionToken returns the secret for actions; nil without --allow-actions. It is made unless a file
// has it, and then printed. A file is read for each action, so that the secret can be changed.
func actionToken(c *cmdline.Call) (token func() (string, error), made string, err error) {
	file := c.Flags.String(flagTokenFile)
	switch {
	case !c.Flags.Bool(flagActions) && file != "":
		return nil, "", cmdline.Usage("--%s goes with --%s", flagTokenFile, flagActions)
	case !c.Flags.Bool(flagActions):
		return nil, "", nil
	case file == "":
		made = rand.Text()
		return func() (string, error) { return made, nil }, made, nil
	}
	token = func() (string, error) {
		text, err := group.ReadSecret(flagTokenFile, file)
		if err == nil && len(text) < web.MinToken {
			err = cmdline.Usage("--%s %s: want one line of at least %d bytes", flagTokenFile, file, web.MinToken)
		}
		return text, err
	}
	_, err = token()
	return token, "", err
}

// servePages serves until ctx ends.
func servePages(ctx context.Context, r *reply, listen string, pages http.Handler, acts bool, token string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return cmdline.Usage("ui: %w", err).Try("--%s 127.0.0.1:0 takes any port that is free", flagListen)
	case err != nil:
		return cmdline.Usage("ui: %w", err)
	}
	server := httpServer(ctx, pages)
	defer func() { _ = server.Close() }()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	if err := putUI(r, listener.Addr().String(), acts, token); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return fmt.Errorf("ui: %w", err)
	case <-ctx.Done(): // that is how it ends
		return nil
	}
}

// putUI prints where the pages are.
func putUI(r *reply, address string, acts bool, token string) error {
	url := "http://" + address + "/"
	return r.tell(api.New("UIServer", uiServer{url, token}), func(render.Page) {
		if host, _, _ := net.SplitHostPort(address); !isLoopback(strings.Trim(host, "[]")) {
			r.Remark("everyone who reaches " + address + " may read all jobs, their arguments and errors")
		}
		what := "read-only"
		if acts {
			what = "actions are allowed from this machine with the token"
		}
		fmt.Fprintf(&r.Out, "%s  %s, %s; press Ctrl-C to stop\n", url, plain.Printable(r.ServerType), what)
		if token != "" {
			fmt.Fprintf(&r.Out, "token  %s\n", token)
		}
	})
}
