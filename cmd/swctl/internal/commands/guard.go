package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/supervise"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/guard"
)

func guardCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "guard", Args: "-- COMMAND...",
		Short: "start an instance, and hand its jobs over at once when it dies",
		Long: `When a process is killed or crashes, its jobs wait until its session times out. guard
starts COMMAND, waits until it exits, whatever the cause, and removes its registration so
that other instances take over at once. After an orderly stop there is nothing to remove.
guard exits with the exit code of COMMAND, or 128 + the number of the signal that killed
it; with 127 if COMMAND was not found, and 126 if it could not be started. It does not
restart COMMAND: use systemd or Kubernetes for that.

COMMAND must be the application itself; a script must exec it. guard passes it a token in
the environment variable SINGLEWORKER_GUARD and recognizes its registration by the token.
COMMAND must run on the same host, not in a container that it starts. When it has exited,
guard kills the rest of its process group and then removes the registration.

guard passes signals on to COMMAND only, not to the children of COMMAND, which it may need
to finish a run. (systemd signals all of them unless KillMode=mixed is set.) As process 1
of a container guard reaps zombies. COMMAND is started even if ZooKeeper is unreachable.
After the exit guard tries to remove the registration for --timeout, which should be the
session timeout of the application, or until a signal stops it. If guard itself is killed,
COMMAND keeps running.`,
		Examples: `swctl guard --zk zk1:2181,zk2:2181/prod --server-type billing -- /usr/bin/billing --port 80
# Dockerfile; the variables SWCTL_ZK and SWCTL_SERVER_TYPE are set where it runs
ENTRYPOINT ["swctl", "guard", "--", "/billing"]
# systemd unit
Environment=SWCTL_ZK=zk1:2181,zk2:2181/prod SWCTL_SERVER_TYPE=billing
ExecStart=/usr/bin/swctl guard -- /usr/bin/billing --port 80
KillMode=mixed
Restart=always`,
		Run: runGuard,
	}
}

func runGuard(ctx context.Context, c *cmdline.Call) error {
	if len(c.Args) == 0 {
		return cmdline.Usage("guard: no command given").Try("swctl guard -- COMMAND [ARGUMENT...]")
	}
	cfg, err := group.Config(c.Settings)
	if err != nil {
		return err
	}
	g, err := guard.New(cfg) // connects while the child starts
	if err != nil {
		return group.Refused(err)
	}
	defer g.Close()
	child, err := supervise.Start(ctx, supervise.Command{
		Args: c.Args, Env: g.Env(), Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
	})
	if failed := new(supervise.StartError); errors.As(err, &failed) && failed.Hint != "" {
		return cmdline.WithHint(fmt.Errorf("guard: %w", err), "%s", failed.Hint)
	}
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	defer child.Close()
	child.Wait()
	ended := time.Now()
	if err := child.Terminate(); err != nil {
		c.Sayf("guard: %v", err)
	}
	deregister(ctx, c, g, child, ended)
	return &cmdline.SilentError{Code: cmdline.ExitCode(child.ExitCode())}
}

// deregister removes the registration of a child that has exited, and reports the result.
// There is nothing to report when the child has removed its registration itself.
func deregister(ctx context.Context, c *cmdline.Call, g *guard.Guard, child *supervise.Child, ended time.Time) {
	// The signal that ended the child may have ended ctx; the next one is for guard.
	ctx, stop := cmdline.UntilOneOf(context.WithoutCancel(ctx), supervise.StopSignals()...)
	defer stop()
	ctx, cancel := c.Within(ctx)
	defer cancel()
	why := map[string]error{}
	result, err := g.Deregister(ctx, func(i guard.Instance) bool {
		why[i.ID] = child.MayRun(i.Host, i.PID)
		return why[i.ID] == nil
	})
	for _, i := range result.Removed {
		c.Sayf("guard: %s; removed the registration of %s (pid %d) after %v", child, i.ID, i.PID, time.Since(ended).Round(100*time.Microsecond))
	}
	for _, i := range result.Kept {
		c.Sayf("guard: %s; NOT REMOVED: the registration of %s: %v; its jobs move when its session ends", child, i.ID, why[i.ID])
	}
	switch {
	case err != nil:
		err = group.Explain(c.Settings, err)
		c.Sayf("guard: %s; NOT REMOVED: %v; its jobs move when its session ends", child, err)
		if hint := cmdline.HintOf(err); hint != "" {
			fmt.Fprintf(c.Stderr, "try: %s\n", plain.OneLine(hint))
		}
	case len(result.Removed)+len(result.Kept) == 0 && child.ExitCode() != 0:
		c.Sayf("guard: %s; it had no registration under server type %s at %s", child, c.ServerType, c.ZK)
	}
}
