package commands

import (
	"context"
	"slices"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

const (
	flagSummary = "summary"

	// defaultLogged is how many entries of a store are shown unless -n says otherwise, and mostLogged
	// the most that it may.
	defaultLogged = 100
	mostLogged    = 1_000_000
)

// ofStore reports whether history is asked for a store's entries.
func ofStore(c *cmdline.Call) bool {
	return slices.ContainsFunc([]string{flagStore, flagSince, flagUntil, flagAll, flagSummary}, c.Flags.IsSet)
}

// storedHistory shows a store's entries. ZooKeeper is not asked.
func storedHistory(ctx context.Context, r *reply, stores stores) error {
	q, err := storeQuery(r.Call)
	if err != nil {
		return err
	}
	store, err := stores.open(r.Call)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // it was only read
	ctx, cancel := r.Within(ctx)
	defer cancel()
	if r.Flags.Bool(flagSummary) {
		sums, err := runlog.Summarize(store.Entries(ctx, q))
		if err != nil {
			return err
		}
		return putList(r, api.List("RunLogSummary", sums), sums, render.Page.Summaries, noneStored, r.ServerType)
	}
	var entries []runlog.Entry
	for e, err := range store.Entries(ctx, q) {
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	return putList(r, api.List("RunLog", entries), entries, func(p render.Page, entries []runlog.Entry) {
		p.RunLog(entries, r.Flags.Bool(flagAll))
		if len(entries) == q.Limit && !r.Flags.IsSet(flagNumber) {
			r.Notef("these are the newest %d; -n shows more, --since and --until others", q.Limit)
		}
	}, noneStored, r.ServerType)
}

const noneStored = "the store has no such entries of %s; swctl runlog keeps them from then on when it is started"

// storeQuery is the flags' query of a store.
func storeQuery(c *cmdline.Call) (q runlog.Query, err error) {
	if c.ServerType == "" {
		return q, cmdline.NoServerType()
	}
	q.Group, q.Failed = c.ServerType, c.Flags.Bool(flagFailed)
	summary := c.Flags.Bool(flagSummary)
	switch {
	case c.Flags.Bool(flagAll) && len(c.Args) > 0:
		return q, cmdline.Usage("history: --%s is all jobs, and a name is given, too", flagAll).Try("leave one out")
	case !c.Flags.Bool(flagAll):
		if q.Slot, err = jobName(c); err != nil {
			return q, err
		}
	}
	if summary && (q.Failed || c.Flags.IsSet(flagNumber)) {
		return q, cmdline.Usage("history: --%s sums up all entries; --%s and -%s are for those themselves", flagSummary, flagFailed, flagNumber)
	}
	if !summary {
		if q.Limit, err = c.Number(flagNumber, defaultLogged, 1, mostLogged); err != nil {
			return q, err
		}
	}
	if q.Since, err = pastTime(c, flagSince); err != nil {
		return q, err
	}
	q.Until, err = pastTime(c, flagUntil)
	return q, err
}
