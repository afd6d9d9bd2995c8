package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/health/probe"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/zkdev/durable"
)

const (
	flagAnyoneConnects = "anyone-may-connect"
	flagMembers        = "members"
	flagHealth         = "health"
)

var serveListens = listener{
	usual: cmdline.DefaultZK, anyone: flagAnyoneConnects, known: flagTLSClientCA, risk: "whoever does can act in the session of an instance",
}

func serveCommand(serve durableServing) *cmdline.Command {
	return &cmdline.Command{
		Name:  "serve",
		Short: "run a ZooKeeper server for one machine, with its data on disk, until interrupted",
		Long: `For production on one machine, without Java. All that the server has acknowledged is on
disk, with an fsync, before anybody sees it: it is there after a kill -9 and after a power
failure. Sessions survive a restart. One machine is what it is for: if that is lost, so is
the group. An ensemble of three ZooKeepers survives the loss of one.

--data has ZooKeeper's own files, in version-2 below it. Apache ZooKeeper starts from them,
with the same transaction numbers, and swctl serve from a directory of ZooKeeper: stop the one
before you start the other. swctl audit --txnlog reads them. A second process on the
directory is refused. If the disk is full, or does not write, the server stops rather than
acknowledge what it could lose.

It listens on this machine only. Commands of the same user also find it there by --zk file:DIR,
a socket in the directory. --tls-cert and --tls-key encrypt all connections but those, and
--tls-client-ca requires that clients show a certificate. The files are read again when they
change. Another address needs --tls-client-ca, or --anyone-may-connect: whoever reaches the
server can act in the session of an instance, whose password can be guessed, as ZooKeeper's
can. Access control lists hold there, too. There are at most 4,096 connections, 1,024 of them
from one address, and 16,384 sessions. Who leaves 32 MB unread is cut off.

With --health, /readyz says 200 once the data is read and while the disk takes writes, and
otherwise 503 and why not.`,
		Examples: `swctl serve --data /var/lib/singleworker
swctl serve --data /var/lib/singleworker --listen 127.0.0.1:0 -o json
swctl serve --data /var/lib/singleworker --listen :2281 --tls-cert zk.pem --tls-key zk.key --tls-client-ca ca.pem
swctl audit --txnlog /var/lib/singleworker`,
		Flags: []cmdline.Flag{
			{Name: flagData, Usage: "`DIR` of the data; it is created if it does not exist"},
			serveListens.flag(),
			{Name: flagAnyoneConnects, Usage: "serve at an address that other machines reach"},
			{Name: flagHealth, Usage: "`ADDRESS` host:port of /livez and /readyz, for probes by HTTP, which need no certificate"},
			{Name: flagTLSClientCA, Usage: "`FILE` take only clients whose certificates these sign (PEM); needs --tls-cert"},
		},
		Run: alone(func(ctx context.Context, r *reply) error { return serveFiles(ctx, r, serve) }),
	}
}

func serveFiles(ctx context.Context, r *reply, serve durableServing) error {
	if err := r.NoArgs("swctl %s", r.Command); err != nil {
		return err
	}
	if r.Flags.IsSet(cmdline.FlagZK) {
		return cmdline.Usage("serve: --%s says where other commands find a server, and not where this one is", cmdline.FlagZK).Try("swctl serve --%s ADDRESS", flagListen)
	}
	logger := slog.New(slog.NewTextHandler(r.Stderr, nil))
	config := durable.Config{Dir: r.Flags.String(flagData), Logger: logger}
	if config.Dir == "" {
		return cmdline.Usage("serve: where is the data to be?").Try("swctl serve --%s DIR; swctl dev keeps nothing", flagData)
	}
	var err error
	if config.Listen, err = serveListens.address(r.Call); err != nil {
		return err
	}
	if config.TLS, err = serveTLS(r.Call, logger); err != nil {
		return err
	}
	health := r.Flags.String(flagHealth)
	if host, _, err := net.SplitHostPort(health); r.Flags.IsSet(flagHealth) && (err != nil || host == "") {
		return cmdline.Usage("serve: --%s %q: want host:port", flagHealth, health).Try("--%s 127.0.0.1:8081", flagHealth)
	}
	err = serve(ctx, config, health, func(at durableServer) error { return putDurable(r, at, config.TLS != nil) })
	switch {
	case err == nil || cmdline.HintOf(err) != "":
		return err
	case errors.Is(err, durable.ErrInUse):
		return cmdline.Usage("serve: %w", err).Try("swctl serve --%s OTHER, or stop the other process", flagData)
	case errors.Is(err, syscall.EADDRINUSE):
		return cmdline.Usage("serve: %w", err).Try("swctl serve --%s DIR --%s 127.0.0.1:0 takes any port that is free", flagData, flagListen)
	case errors.Is(err, durable.ErrDamaged):
		return cmdline.WithHint(fmt.Errorf("serve: %w", err), "copy the directory before anything else, and restore a backup")
	}
	return fmt.Errorf("serve: %w", err)
}

// durableServer is the content of a Server document.
type durableServer struct {
	ZK     string `json:"zk"`               // connect string
	Data   string `json:"data"`             // directory
	Health string `json:"health,omitempty"` // URL below which /livez and /readyz are
}

// putDurable prints where the server is.
func putDurable(r *reply, at durableServer, secure bool) error {
	return r.tell(api.New("Server", at), func(render.Page) {
		fmt.Fprintf(&r.Out, "ZooKeeper  %s  with its data in %s, on this machine only: a copy elsewhere is a backup\n", at.ZK, at.Data)
		if at.Health != "" {
			fmt.Fprintf(&r.Out, "health     %s/readyz\n", at.Health)
		}
		fmt.Fprintf(&r.Out, "\n  export SWCTL_ZK=%s\n\n", at.ZK)
		if secure {
			fmt.Fprintln(&r.Out, "Clients speak TLS: see swctl help serve.")
		}
		fmt.Fprintln(&r.Out, "Press Ctrl-C to stop it.")
	})
}

// durableServing runs a server until ctx ends, or it cannot write, with its probes at the address
// health, unless that is empty. It calls ready once the server can be reached.
type durableServing func(ctx context.Context, config durable.Config, health string, ready func(at durableServer) error) error

// serveDurable runs the server until ctx ends, which is how one is stopped, or it cannot write.
// Probes are answered while it still reads its data.
func serveDurable(ctx context.Context, config durable.Config, health string, ready func(at durableServer) error) error {
	var opened atomic.Pointer[durable.Server]
	at := durableServer{Data: config.Dir}
	if health != "" {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", health)
		if err != nil {
			return cmdline.Usage("serve: --%s: %w", flagHealth, err).Try("--%s 127.0.0.1:0 takes any port that is free", flagHealth)
		}
		at.Health = "http://" + listener.Addr().String()
		probes := httpServer(ctx, probe.Handler(func() error { return nil }, func() error { return readiness(ctx, opened.Load()) }))
		go func() { _ = probes.Serve(listener) }() // ends with Close
		defer func() { _ = probes.Close() }()
	}
	server, err := durable.Open(config)
	if err != nil {
		return err
	}
	opened.Store(server)
	at.ZK = server.Addr()
	if err := ready(at); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case <-ctx.Done():
	case <-server.Failed():
	}
	return errors.Join(server.Err(), server.Close())
}

// readiness returns nil, or why a server that is nil until it is open is not ready.
func readiness(ctx context.Context, server *durable.Server) error {
	switch {
	case ctx.Err() != nil:
		return errors.New("stopping")
	case server == nil:
		return errors.New("reading its data")
	}
	return server.Ready()
}

func exportServerCommand() *cmdline.Command {
	return &cmdline.Command{
		Name:  "serve export",
		Short: "write the directories of an ensemble that goes on with the data of swctl serve",
		Long: `When one machine is not enough any more: stop swctl serve, and export its directory. For each
host there is a directory in --to, with zoo.cfg and with data. Copy data to dataDir on that
host (/var/lib/zookeeper there, unless you change zoo.cfg), on all hosts before the first
ZooKeeper starts: each has all of the data, because two empty ones could outvote the one that
has it. Then start them, and give --zk and Config.Servers their addresses. Transaction numbers
go on, and with them tokens. Do not start swctl serve on the old directory again.

The way back needs no export: stop all, and start swctl serve on dataDir of the one with the
last transaction.`,
		Examples: `swctl serve export --data /var/lib/singleworker --members zk1 --members zk2 --members zk3 --to members`,
		Flags: []cmdline.Flag{
			{Name: flagData, Usage: "`DIR` of swctl serve, which does not run"},
			{Name: flagMembers, Usage: "`HOST` of a ZooKeeper server; repeated, for all of them", Repeated: true},
			{Name: flagTo, Usage: "`DIR` to write, which does not exist"},
		},
		Run: alone(func(_ context.Context, r *reply) error { return exportServer(r) }),
	}
}

// serverExport is the content of a ServerExport document.
type serverExport struct {
	Members []string `json:"members"` // their directories, in the order of their numbers
}

func exportServer(r *reply) error {
	if err := r.NoArgs("swctl %s", r.Command); err != nil {
		return err
	}
	dir, to, hosts := r.Flags.String(flagData), r.Flags.String(flagTo), r.Flags.StringSlice(flagMembers)
	if dir == "" || to == "" {
		return cmdline.Usage("serve export needs --%s and --%s", flagData, flagTo).Try("swctl help serve export")
	}
	err := durable.Export(dir, to, hosts)
	bad := new(invalid.FieldError)
	switch {
	case err == nil:
	case errors.As(err, &bad):
		return cmdline.Usage("--%s %q: %w", flagMembers, bad.Value, bad.Err).Try("--%s zk1 --%s zk2 --%s zk3", flagMembers, flagMembers, flagMembers)
	case errors.Is(err, durable.ErrInUse):
		return cmdline.Usage("serve export: %w", err).Try("stop swctl serve first")
	case errors.Is(err, durable.ErrEmpty):
		return cmdline.Usage("serve export: %w", err).Try("--%s DIR, the directory of swctl serve", flagData)
	case errors.Is(err, fs.ErrExist):
		return cmdline.Usage("serve export: %w", err).Try("--%s OTHER, or remove it", flagTo)
	default:
		return fmt.Errorf("serve export: %w", err)
	}
	var members []string
	for _, host := range hosts {
		members = append(members, filepath.Join(to, host))
	}
	return r.tell(api.New("ServerExport", serverExport{members}), func(render.Page) {
		for _, member := range members {
			fmt.Fprintf(&r.Out, "%s  zoo.cfg, and data for dataDir\n", member)
		}
		fmt.Fprintln(&r.Out, "\nCopy data to each host before the first ZooKeeper starts: empty ones could outvote the others.")
	})
}
