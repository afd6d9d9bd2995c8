package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
)

func (a *app) guardCommand() *command {
	return &command{
		name: "guard", args: "-- COMMAND...",
		short: "start an instance, and have its jobs move at once when it dies",
		long: `When a process is killed or crashes, its jobs wait for its session to time out. guard
starts COMMAND, waits for it, and when it has died of whatever cause removes its
registration, so that the others take over at once. It then exits with the exit code of
COMMAND, or 128 + the number of the signal that killed it; with 127 when COMMAND was not
found, and 126 when it could not be started. After a stop in good order nothing is left
to be removed. It restarts nothing: that is for systemd or Kubernetes.

COMMAND must be the application itself: a script has to start it with exec. Its process
tells its registration by a variable, SINGLEWORKER_GUARD, that guard sets; what it runs on
is the same host, not a container that it starts. What is left of its process group when
it has died is killed, before the registration is removed.

Signals that guard gets go to COMMAND, and not to what that has started: it may need its
children to finish a run. (systemd signals them all, unless told KillMode=mixed.) In a
container guard can be the init (process 1); it reaps. It starts COMMAND also when
ZooKeeper is away. After the death it tries to remove the
registration for --timeout, which should be the session timeout of the application, or
until a signal tells it to stop. If guard itself is killed, COMMAND goes on without it.`,
		examples: `swctl guard --zk zk1:2181,zk2:2181/prod --server-type billing -- /usr/bin/billing --port 80
# Dockerfile; the variables SWCTL_ZK and SWCTL_SERVER_TYPE are set where it runs
ENTRYPOINT ["swctl", "guard", "--", "/billing"]
# systemd unit
Environment=SWCTL_ZK=zk1:2181,zk2:2181/prod SWCTL_SERVER_TYPE=billing
ExecStart=/usr/bin/swctl guard -- /usr/bin/billing --port 80
KillMode=mixed
Restart=always`,
		run: a.action(guard),
	}
}

// childExitError ends swctl guard as the child has ended. Its text is for nobody.
type childExitError struct{ code exitCode }

func (e *childExitError) Error() string { return fmt.Sprintf("the command ended with %d", e.code) }

// notStartedError is a command that guard could not start; the codes are a shell's.
type notStartedError struct {
	code exitCode
	err  error
}

func (e *notStartedError) Error() string { return "guard: " + e.err.Error() }
func (e *notStartedError) Unwrap() error { return e.err }

func guard(ctx context.Context, c *call) error {
	if len(c.args) == 0 {
		return usage("guard: no command given").try("swctl guard -- COMMAND [ARGUMENT...]")
	}
	cfg, err := c.adminConfig()
	if err != nil {
		return err
	}
	registrar, err := admin.NewGuard(cfg) // connects while the child starts
	if err != nil {
		return err
	}
	defer registrar.Close()
	w, err := startWard(ctx, c, registrar.Env())
	if err != nil {
		return err
	}
	defer w.close()
	w.wait()
	ended := time.Now()
	left := w.killRest()
	if left != nil {
		c.sayf("guard: %v", left)
	}
	c.bury(ctx, registrar, w, ended)
	return &childExitError{w.code()}
}

// bury removes the registration of a ward that has died, and says what came of
// it. It says nothing of one that has left in good order.
func (c *call) bury(ctx context.Context, registrar *admin.Guard, w *ward, ended time.Time) {
	// The signal that ended the child may have ended ctx; a further one is for us.
	ctx, stop := w.untilSignal(context.WithoutCancel(ctx))
	defer stop()
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	burial, err := registrar.Bury(ctx, w.isDead)
	for _, i := range burial.Removed {
		c.sayf("guard: %s; removed the registration of %s (pid %d) after %v", w, i.ID, i.PID, round(time.Since(ended)))
	}
	for _, s := range burial.Spared {
		c.sayf("guard: %s; NOT REMOVED: the registration of %s: %v; its jobs move when its session ends", w, s.ID, s.Why)
	}
	switch {
	case err != nil:
		c.sayf("guard: %s; NOT REMOVED: %v; what it owned moves when its session ends", w, c.explain(err))
		if hint := hintOf(c.explain(err)); hint != "" {
			fmt.Fprintf(c.stderr, "try: %s\n", oneLine(hint))
		}
	case len(burial.Removed)+len(burial.Spared) == 0 && w.code() != exitOK:
		c.sayf("guard: %s; it had no registration under server type %s at %s", w, c.serverType, c.zk)
	}
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// isDead says why the process of an instance that has the guard's token may
// live. The token alone is no proof: what the child has started has it, too.
func (w *ward) isDead(i admin.Instance) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	switch {
	case i.Host == "" || !strings.HasPrefix(host, i.Host): // long names are cut
		return fmt.Errorf("it runs on host %q, and guard on %q: process numbers of one mean nothing on the other", i.Host, host)
	case i.PID <= 0:
		return errors.New("its record has no process number")
	case i.PID != w.pid() && !w.alone:
		return fmt.Errorf("it runs in process %d, which is not the one that guard started, and something of what that has started still runs", i.PID)
	case exists(i.PID):
		return fmt.Errorf("there is a process %d", i.PID)
	}
	return nil
}
