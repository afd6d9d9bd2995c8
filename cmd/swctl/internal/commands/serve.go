package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/zkdev/durable"
)

const (
	flagData           = "data"
	flagAnyoneConnects = "anyone-may-connect"
)

var serveListens = listener{
	cmdline.DefaultZK, flagAnyoneConnects, "whoever does can act in the session of an instance",
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
a socket in the directory. Another address needs --anyone-may-connect as well: there is
no encryption, and whoever reaches the server can act in the session of an instance, whose
password can be guessed, as ZooKeeper's can. Access control lists hold there, too.`,
		Examples: `swctl serve --data /var/lib/singleworker
swctl serve --data /var/lib/singleworker --listen 127.0.0.1:0 -o json
swctl audit --txnlog /var/lib/singleworker`,
		Flags: []cmdline.Flag{
			{Name: flagData, Usage: "`DIR` of the data; it is created if it does not exist"},
			serveListens.flag(),
			{Name: flagAnyoneConnects, Usage: "serve at an address that other machines reach"},
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
	config := durable.Config{
		Dir: r.Flags.String(flagData), Logger: slog.New(slog.NewTextHandler(r.Stderr, nil)),
	}
	if config.Dir == "" {
		return cmdline.Usage("serve: where is the data to be?").Try("swctl serve --%s DIR; swctl dev keeps nothing", flagData)
	}
	var err error
	if config.Listen, err = serveListens.address(r.Call); err != nil {
		return err
	}
	err = serve(ctx, config, func(addr string) error { return putDurable(r, addr, config.Dir) })
	switch {
	case err == nil:
		return nil
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
	ZK   string `json:"zk"`   // connect string
	Data string `json:"data"` // directory
}

// putDurable prints the server's address.
func putDurable(r *reply, addr, dir string) error {
	return r.tell(api.New("Server", durableServer{addr, dir}), func(render.Page) {
		fmt.Fprintf(&r.Out, "ZooKeeper  %s  with its data in %s, on this machine only: a copy elsewhere is a backup\n", addr, dir)
		fmt.Fprintf(&r.Out, "\n  export SWCTL_ZK=%s\n\n", addr)
		fmt.Fprintln(&r.Out, "Press Ctrl-C to stop it.")
	})
}

// durableServing runs a server until ctx ends, or it cannot write. It calls ready once the server
// can be reached.
type durableServing func(ctx context.Context, config durable.Config, ready func(addr string) error) error

// serveDurable runs the server until ctx ends, which is how one is stopped, or it cannot write.
func serveDurable(ctx context.Context, config durable.Config, ready func(addr string) error) error {
	server, err := durable.Open(config)
	if err != nil {
		return err
	}
	if err := ready(server.Addr()); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case <-ctx.Done():
	case <-server.Failed():
	}
	return errors.Join(server.Err(), server.Close())
}
