package commands

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// ownerWait is how long submit waits at most until an instance adopts the job.
const ownerWait = 2 * time.Second

// awaitOwner gives the instances a moment to adopt the job, and says who owns it.
// The job is accepted by now, so nothing that happens here is a failure.
func awaitOwner(ctx context.Context, client group.Client, name string) (admin.JobStatus, string) {
	waiting, cancel := context.WithTimeout(ctx, ownerWait)
	defer cancel()
	status, err := client.AwaitOwner(waiting, name)
	if errors.Is(err, context.DeadlineExceeded) {
		status, err = client.Get(ctx, name)
	}
	owned := func(job admin.JobStatus) bool { return job.State == admin.StateOwned }
	switch {
	case err != nil:
		return status, "unknown: " + plain.OneLine(err.Error())
	case owned(status) || slices.ContainsFunc(status.Slots, owned):
		return status, words.Owner(status)
	} // one that is gone may still be recorded as its owner
	return status, "none yet: " + cmp.Or(plain.OneLine(status.Reason.String()), "no instance took it so far")
}

// ownerNow reads a job that was changed, and says who owns it.
func ownerNow(ctx context.Context, client group.Client, name string) (admin.JobStatus, string) {
	status, err := client.Get(ctx, name)
	if err != nil { // the change was accepted
		return status, "unknown: " + plain.OneLine(err.Error())
	}
	return status, words.Owner(status)
}

// putChange prints what submit or set did. Status is how the job is afterwards; zero if that is
// not known.
func putChange(r *reply, kind string, done admin.Change, dryRun bool, status admin.JobStatus, owner string) error {
	change := api.ChangeOf(done, dryRun, status)
	return r.put(api.New(kind, change), func(p render.Page) { p.Changed(change, owner) })
}
