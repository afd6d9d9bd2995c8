package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// InstanceDetails is all that the records say of one running instance.
type InstanceDetails struct {
	Instance Instance
	// SessionID is its session with ZooKeeper, in hexadecimal as ZooKeeper's own tools print it:
	// "0x1000a2b". SessionTimeout is what the server granted it; 0 if it does not say.
	SessionID      string
	SessionTimeout time.Duration
	// Handlers are the names of its handlers, sorted; nil if it does not publish them.
	Handlers []string
	// Slots are the jobs and shards that it owns, and its parts, such as "report/app-1", of jobs that
	// run on every instance, sorted by name.
	Slots []OwnedSlot
}

// OwnedSlot is a job without shards, or one shard, that an instance owns.
type OwnedSlot struct {
	Name  string       `json:"name"`
	Token int64        `json:"token"`           // as Owner.Token
	Since time.Time    `json:"since,omitzero"`  // as Owner.Since
	Run   *history.Run `json:"run,omitempty"`   // the run in progress, or nil
	Error string       `json:"error,omitempty"` // why its record of runs cannot be read
}

// Instance reads a running instance. It reads the owner records of all jobs in few requests, and
// the records of runs of the slots that the instance owns. Errors: *invalid.FieldError,
// ErrNoInstance, ErrDenied, ErrUnavailable.
func (c *Client) Instance(ctx context.Context, sid string) (InstanceDetails, error) {
	if err := job.CheckNodeName(sid); err != nil {
		return InstanceDetails{}, &invalid.FieldError{Field: "InstanceID", Value: sid, Err: err}
	}
	return retried(ctx, c.conn, fmt.Sprintf("instance %q", sid), func() (InstanceDetails, error) { return c.instance(ctx, sid) })
}

func (m members) instance(ctx context.Context, sid string) (d InstanceDetails, err error) {
	all, err := m.judges(ctx)
	if err != nil {
		return d, err
	}
	i, runs := all[sid]
	stat, found, err := m.conn.Exists(ctx, m.tree.Instance(sid))
	if err != nil {
		return d, err
	}
	if !runs || !found {
		return d, ErrNoInstance
	}
	record := i.place.record
	d = InstanceDetails{SessionID: fmt.Sprintf("0x%x", stat.EphemeralOwner), SessionTimeout: time.Duration(record.SessionTimeout)}
	if d.Handlers, err = m.handlersOf(ctx, record); err != nil {
		return d, err
	}
	if d.Slots, err = m.ownedBy(ctx, sid); err != nil {
		return d, err
	}
	i.Owned = 0
	for _, slot := range d.Slots {
		if _, _, part := zkrec.SplitInstance(slot.Name); !part {
			i.Owned++
		}
	}
	one := []Instance{i}
	err = m.readLives(ctx, one)
	d.Instance = one[0]
	return d, err
}

// handlersOf reads the handlers that an instance publishes, sorted. It is nil of one that publishes
// none, or whose list cannot be read.
func (m members) handlersOf(ctx context.Context, record zkrec.Instance) ([]string, error) {
	if record.Handlers == "" {
		return nil, nil
	}
	data, _, err := m.conn.Get(ctx, m.tree.HandlerList(record.Handlers))
	if zkconn.IsUnknown(err) {
		return nil, err
	}
	names, parseErr := zkrec.ParseHandlers(record.Handlers, data)
	if err != nil || parseErr != nil {
		return nil, nil //nolint:nilerr // who lists jobs judges by their registrations then
	}
	return append([]string{}, names...), nil
}

// ownedBy reads the slots that an instance owns.
func (m members) ownedBy(ctx context.Context, sid string) (owned []OwnedSlot, err error) {
	names, err := m.children(ctx, m.tree.Root())
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !zkrec.IsJob(name) })
	var slots []string
	err = m.owners(ctx, names, func(slot, owner string) {
		if owner == sid {
			slots = append(slots, slot)
		}
	})
	if err != nil {
		return nil, err
	}
	own, err := m.partsAt(ctx, names, sid)
	if err != nil {
		return nil, err
	}
	slots = append(slots, own...)
	slices.Sort(slots)
	var reads []zkconn.Read
	for _, slot := range slots {
		reads = append(reads, zkconn.Read{Path: m.tree.Tick(slot)}, zkconn.Read{Path: m.tree.Alive(slot)})
	}
	results, err := m.readMany(ctx, reads)
	if err != nil {
		return nil, err
	}
	for i, slot := range slots {
		ticks, alive := results[2*i], results[2*i+1]
		if owner, _ := zkrec.ParseOwner(alive.Data); owner.SID != sid {
			continue // it has just handed the slot over
		}
		one := OwnedSlot{Name: slot, Token: alive.Stat.Mzxid, Since: zkrec.UTC(alive.Stat.Mtime)}
		tick, err := zkrec.ParseTick(ticks.Data, time.Time{})
		if ticks.Err != nil && !errors.Is(ticks.Err, zkconn.ErrNoNode) {
			err = ticks.Err
		}
		if err != nil {
			one.Error = err.Error()
		} else if tick.Open() && tick.Token == one.Token {
			run := tick.Public()
			one.Run = &run
		}
		owned = append(owned, one)
	}
	return owned, nil
}
