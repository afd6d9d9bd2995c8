package admin

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// LogEntry is one change, or one thing that was asked of the owners of jobs, in the log of who did
// what.
type LogEntry struct {
	At time.Time `json:"at"` // on ZooKeeper's clock
	// Kind is "submit", "replace", "set", "rollback", "pause", "resume", "cancel", "undelete",
	// "clear", "repair", "drain", "disable", "enable", "acl" (roles), "freeze", "unfreeze",
	// "set-calendar", "delete-calendar", "set-limit", "delete-limit" or "free-places", or what was
	// asked: "trigger", "backfill", "stop-run" or "withdraw", which cancels requests. "declare" if a
	// program's code has replaced what a job was, or created it while it ran. "outage" if ZooKeeper
	// did not answer the instance From for more than 3 seconds: at most two instances tell of each.
	// "unreadable" if the entry cannot be read. Newer versions have others.
	Kind   string   `json:"kind"`
	Jobs   []string `json:"jobs"`           // the first few; shards are named as such
	More   int      `json:"more,omitempty"` // how many jobs there are beside those
	Where  string   `json:"where,omitempty"`
	By     string   `json:"by"`   // as the client said
	From   string   `json:"from"` // the Config.From of the client, or the instance whose program did it
	Reason string   `json:"reason"`
	// Since and Until are of an outage, by the clock of From.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// Tells reports whether an entry names a job, or one of its shards, or names only some of its jobs.
func (e LogEntry) Tells(job string) bool {
	return e.More > 0 || slices.ContainsFunc(e.Jobs, func(slot string) bool { return zkrec.JobOfSlot(slot) == job })
}

// Edits reports whether an entry tells that a job became another one than it was.
func (e LogEntry) Edits() bool {
	return slices.Contains([]string{zkrec.DeedSet, zkrec.DeedReplace, zkrec.DeedRollback, zkrec.DeedDeclare, zkrec.DeedRepair}, e.Kind)
}

// LogCancel is the Kind of an entry that tells who has canceled jobs.
const LogCancel = zkrec.DeedCancel

// logUnreadable is the Kind of an entry that cannot be read.
const logUnreadable = "unreadable"

// LogOptions choose from the log. The zero value is all of it.
type LogOptions struct {
	// Job chooses what names that job, or one of its shards, and what names only some of its jobs.
	Job string
	// Max is how many entries are returned at most. Default: all.
	Max int
}

// Log returns who did what, newest first: the last 2,000 changes and, apart from them, the last
// 2,000 requests to run or stop jobs, the last 2,000 declarations, and a few more. What a change
// wrote and its entry are of one transaction: one is there exactly if the other was written. What
// instances do by themselves is not in it, but for the pause of a job that fails, nor the jobs that
// a program creates when it starts, whose records say so. Errors: *invalid.FieldError for the name
// of the job, ErrDenied, ErrUnavailable.
func (c *Client) Log(ctx context.Context, opts LogOptions) ([]LogEntry, error) {
	if opts.Job != "" {
		if err := checkName(opts.Job); err != nil {
			return nil, err
		}
	}
	return retried(ctx, c.conn, "read the log", func() ([]LogEntry, error) { return c.log(ctx, opts) })
}

func (o observer) log(ctx context.Context, opts LogOptions) (entries []LogEntry, err error) {
	names, err := o.children(ctx, o.tree.Deeds())
	if err != nil {
		return nil, err
	}
	slices.SortFunc(names, func(a, b string) int {
		_, x, _ := zkrec.ParseDeedName(a)
		_, y, _ := zkrec.ParseDeedName(b)
		return cmp.Compare(y, x)
	})
	if opts.Max > 0 && opts.Job == "" {
		names = names[:min(opts.Max, len(names))]
	}
	err = o.eachOf(ctx, o.tree.Deeds(), names, func(node child) {
		d, err := zkrec.ParseDeed(node.data)
		if err != nil || node.err != nil {
			d = zkrec.Deed{Kind: logUnreadable}
		}
		e := LogEntry{
			At: zkrec.UTC(node.stat.Ctime), Kind: d.Kind, Jobs: append([]string{}, d.Jobs...), More: d.More, Where: d.Where,
			By: d.By, From: d.From, Reason: d.Reason, Since: zkrec.Time(d.Since), Until: zkrec.Time(d.Until),
		}
		if opts.Job == "" || e.Tells(opts.Job) {
			entries = append(entries, e)
		}
	})
	if opts.Max > 0 {
		entries = entries[:min(opts.Max, len(entries))]
	}
	return entries, err
}
