package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/zkdev/durable"
)

const (
	flagFrom  = "from"
	flagLost  = "lost"
	flagAbove = "above"
	flagFirst = "first"
)

func restoreServerCommand() *cmdline.Command {
	return &cmdline.Command{
		Name:  "serve restore",
		Short: "make a directory of a backup in which transaction numbers, and with them tokens, go on",
		Long: `A server that starts on a backup as it is counts from there, once more. Fencing tokens, which
are transaction numbers, go back, and targets refuse the writes of those who have the new ones.
This writes a directory with the nodes of the backup in which all numbers are higher than those
of the lost servers, for swctl serve or, by swctl serve export, for an ensemble. --from is a copy
of the directory of swctl serve, or of dataDir of a ZooKeeper, with its logs. It stays as it is.

The numbers rise by 65,536 epochs, of which each start of a server takes one. By that, swctl
watch, runlog, notify and the pages see that there was a restore, and say that something is
missing. No session of the backup goes on, so instances and programs that run on join again by
themselves. Start the server one session timeout after the end of the lost ones or later: until
then their instances may still be running jobs.

Say how far the lost servers may have counted. --lost is what is left of their data. Otherwise
--above is any number that was seen after the last restore: a token in a target, a cursor, or
seen_zxid in a log. --first says that there was no restore since the backup was taken. If one
backup is restored twice with --first, tokens go back.

A backup with containers, or with nodes that have a time to live, is refused: swctl serve has
neither.`,
		Examples: `swctl serve restore --from backup --data /var/lib/restored --lost /var/lib/singleworker
swctl serve restore --from zk1/data --data restored --above 0x1000000a7
swctl serve restore --from backup --data restored --first
swctl serve export --data restored --members zk1 --members zk2 --members zk3 --to members`,
		Flags: []cmdline.Flag{
			{Name: flagFrom, Usage: "`DIR` the backup"},
			{Name: flagData, Usage: "`DIR` to write, which does not exist"},
			{Name: flagLost, Usage: "`DIR` of a server that was lost; repeated, for all that are left", Repeated: true},
			{Name: flagAbove, Usage: "`ZXID` a transaction number of the lost servers"},
			{Name: flagFirst, Usage: "there was no restore since the backup was taken"},
		},
		Run: alone(func(_ context.Context, r *reply) error { return restoreServer(r) }),
	}
}

// serverRestore is the content of a ServerRestore document.
type serverRestore struct {
	Data  string `json:"data"`       // directory
	Last  int64  `json:"last_zxid"`  // of the backup
	Above int64  `json:"above_zxid"` // numbers begin above it, and those of the lost servers are lower
}

func restoreServer(r *reply) error {
	if err := r.NoArgs("swctl %s", r.Command); err != nil {
		return err
	}
	from, dir, lost := r.Flags.String(flagFrom), r.Flags.String(flagData), r.Flags.StringSlice(flagLost)
	above := int64(0)
	switch {
	case from == "" || dir == "":
		return cmdline.Usage("serve restore needs --%s and --%s", flagFrom, flagData).Try("swctl help serve restore")
	case r.Flags.IsSet(flagAbove):
		var err error
		if above, err = strconv.ParseInt(r.Flags.String(flagAbove), 0, 64); err != nil || above <= 0 {
			return cmdline.Usage("--%s %q: want a transaction number", flagAbove, r.Flags.String(flagAbove)).Try("--%s 0x1000000a7, a token, or the cursor of a reader", flagAbove)
		}
	case len(lost) == 0 && !r.Flags.Bool(flagFirst):
		return cmdline.Usage("serve restore: how far may the lost servers have counted?").
			Try("--%s DIR, their data; --%s ZXID, a token; or --%s, if there was no restore since the backup was taken", flagLost, flagAbove, flagFirst)
	}
	restored, err := durable.Restore(from, dir, lost, above)
	switch {
	case err == nil:
	case errors.As(err, new(*invalid.FieldError)):
		return cmdline.Usage("serve restore: %w", err).Try("--%s with a token, or a cursor, as it was written", flagAbove)
	case errors.Is(err, fs.ErrExist):
		return cmdline.Usage("serve restore: %w", err).Try("--%s OTHER, or move it away", flagData)
	case errors.Is(err, durable.ErrEmpty):
		return cmdline.Usage("serve restore: %w", err).Try("DIR with version-2 below it, as swctl serve and ZooKeeper have it")
	case errors.Is(err, durable.ErrDamaged):
		return cmdline.WithHint(fmt.Errorf("serve restore: %w", err), "take another backup")
	default:
		return fmt.Errorf("serve restore: %w", err)
	}
	return r.tell(api.New("ServerRestore", serverRestore{dir, restored.Last, restored.Above}), func(render.Page) {
		fmt.Fprintf(&r.Out, "%s  has the nodes of zxid %#x, and goes on above %#x\n\n", dir, restored.Last, restored.Above)
		fmt.Fprintln(&r.Out, "Start it a session timeout after the end of the lost servers, and not before.")
	})
}
