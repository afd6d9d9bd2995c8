package commands

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// defaultDevPort is ZooKeeper's own.
const defaultDevPort = 2181

const maxPort = 65535

func devCommand(serve devServing) *cmdline.Command {
	return &cmdline.Command{
		Name:  "dev",
		Short: "run a ZooKeeper server for development, in memory, until interrupted",
		Long: `For trying an application without a Java server, on this machine only. It is a single
server that keeps everything in memory and forgets it at exit: NEVER FOR PRODUCTION. The
other commands find it without --zk if it uses the default port.`,
		Examples: `swctl dev
swctl dev --port 0 -o json`,
		Flags: []cmdline.Flag{
			{Name: "port", Usage: "`NUMBER` port on 127.0.0.1, 0 for any that is free (default 2181)"},
		},
		Run: alone(func(ctx context.Context, r *reply) error { return dev(ctx, r, serve) }),
	}
}

func dev(ctx context.Context, r *reply, serve devServing) error {
	if err := r.NoArgs("swctl %s", r.Command); err != nil {
		return err
	}
	if r.Flags.IsSet(cmdline.FlagZK) {
		return cmdline.Usage("dev: --%s says where other commands find a server, and not where this one is", cmdline.FlagZK).Try("swctl dev --port NUMBER")
	}
	port, err := r.Number("port", defaultDevPort, 0, maxPort)
	if err != nil {
		return err
	}
	serves := false
	err = serve(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), func(addr string) error {
		serves = true
		return putServing(r, addr)
	})
	if err == nil || cmdline.HintOf(err) != "" {
		return err
	}
	err = fmt.Errorf("dev: %w", err)
	if serves {
		return err // not the port's fault
	}
	return cmdline.WithHint(err, "swctl dev --port 0 takes any port that is free")
}

// devServer is the content of a DevServer document.
type devServer struct {
	ZK string `json:"zk"` // connect string
}

// putServing prints the server's address.
func putServing(r *reply, addr string) error {
	return r.tell(api.New("DevServer", devServer{addr}), func(render.Page) {
		fmt.Fprintf(&r.Out, "ZooKeeper  %s  in memory, for development, NEVER FOR PRODUCTION\n", addr)
		fmt.Fprintf(&r.Out, "\n  export SWCTL_ZK=%s\n\n", addr)
		fmt.Fprintln(&r.Out, "It forgets everything at exit; press Ctrl-C to stop it.")
	})
}

// devServing runs a server until ctx ends. It calls ready once the server can be reached.
type devServing func(ctx context.Context, listen string, ready func(addr string) error) error

// serveDev runs the server until ctx ends, which is how one is stopped.
func serveDev(ctx context.Context, listen string, ready func(addr string) error) error {
	const keepLog = -1 // nobody asks it for its transactions
	server, err := zkdev.New(zkdev.Config{Listen: listen, KeepLog: keepLog})
	if err != nil {
		return err
	}
	switch err := server.Start(); {
	case errors.Is(err, syscall.EADDRINUSE):
		return cmdline.Usage("%w", err)
	case err != nil:
		return err
	}
	defer server.Stop()
	if err := ready(server.Addr()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
