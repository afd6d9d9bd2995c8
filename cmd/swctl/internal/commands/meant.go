package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
)

// meant adds a hint to an error about a job that does not exist: who has canceled it, or another
// name or server type that was probably meant. Reading them is a courtesy: what fails here is not
// reported.
func meant(ctx context.Context, r *reply, client group.Client, err error) error {
	if !errors.Is(err, admin.ErrNotFound) || cmdline.HintOf(err) != "" {
		return err
	}
	if canceled := new(admin.CanceledError); errors.As(err, &canceled) {
		return cmdline.WithHint(err, "swctl undelete %s", plain.Quoted(canceled.Name))
	}
	names, failed := client.Names(ctx)
	var missing []string
	for _, arg := range r.Args {
		if name := jobOf(arg); failed == nil && !slices.Contains(names, name) {
			missing = append(missing, name)
		}
	}
	if hint := canceledBy(ctx, r, client, missing); hint != "" {
		return cmdline.WithHint(err, "%s", hint)
	}
	if hint, _ := unknownServerType(ctx, r.Settings, client); hint != "" {
		return cmdline.WithHint(err, "%s", hint)
	}
	for _, name := range missing {
		if near := cmdline.Nearest(name, names); near != "" {
			return cmdline.WithHint(err, "%s, if you mean that; swctl list shows all jobs", plain.Quoted(near))
		}
	}
	return err
}

// canceledBy is a hint at who has canceled the first of some jobs, which do not exist, and when. It
// is empty if the log does not tell.
func canceledBy(ctx context.Context, r *reply, client group.Client, missing []string) string {
	if len(missing) == 0 {
		return ""
	}
	entries, err := client.Log(ctx, admin.LogOptions{})
	if err != nil {
		return ""
	}
	for _, name := range missing {
		for _, e := range entries {
			if e.Kind != admin.LogCancel || !slices.Contains(e.Jobs, name) {
				continue
			}
			text := fmt.Sprintf("%s canceled it %s", cmp.Or(e.By, e.From), plain.Relative(e.At, r.now()))
			if e.Reason != "" {
				text += ": " + e.Reason
			}
			return fmt.Sprintf("swctl log %s (%s)", plain.Quoted(name), text)
		}
	}
	return ""
}

// unknownServerType is a hint if no instance has ever joined the server type; empty if one has, or
// if the server types may not be listed.
func unknownServerType(ctx context.Context, set cmdline.Settings, client group.Client) (string, error) {
	known, err := client.ServerTypes(ctx)
	if errors.Is(err, admin.ErrDenied) {
		err = nil
	} else if err == nil && !slices.Contains(known, set.ServerType) {
		return noneHasRun(set, known), nil
	}
	return "", err
}

// noneHasRun says that no instance has ever joined the server type, and which one is meant perhaps.
func noneHasRun(set cmdline.Settings, known []string) string {
	hint := fmt.Sprintf("--%s: no instance of %s has ever run at %s", cmdline.FlagServerType, set.ServerType, set.ZK)
	const most = 5
	switch near := cmdline.Nearest(set.ServerType, known); {
	case near != "":
		hint += "; do you mean " + near + "?"
	case len(known) == 0:
		hint += ", nor of any other server type: is the chroot right?"
	case len(known) <= most:
		hint += "; those of " + strings.Join(known, ", ") + " have"
	}
	return hint
}

// empty refuses a server type without jobs and instances if there is no such server type.
func empty(ctx context.Context, set cmdline.Settings, client group.Client) error {
	hint, err := unknownServerType(ctx, set, client)
	if hint != "" {
		return cmdline.WithHint(cmdline.WithCode(cmdline.ExitNotFound, errors.New("no such server type: "+set.ServerType)), "%s", hint)
	}
	return err
}

// handlerMeant remarks that another job's handler has nearly the name that nobody has registered.
func handlerMeant(ctx context.Context, c *cmdline.Call, client group.Client, status admin.JobStatus) {
	if status.Reason.Code != reason.NoHandler {
		return
	}
	all, err := client.List(ctx)
	if err != nil {
		return
	}
	var handlers []string
	for _, other := range all {
		if len(other.Registered) > 0 && other.Job.HandlerName() != status.Reason.Handler {
			handlers = append(handlers, other.Job.HandlerName())
		}
	}
	if near := cmdline.Nearest(status.Reason.Handler, handlers); near != "" {
		c.Notef("do you mean handler %s? swctl set %s --handler %s", near, plain.Quoted(status.Name), plain.Quoted(near))
	}
}
