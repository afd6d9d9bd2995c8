package admin

import (
	"context"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// LogOutage is the Kind of an entry that tells that ZooKeeper did not answer.
const LogOutage = zkrec.DeedOutage

// Outage is a time in which ZooKeeper did not answer instances, by their clocks. At most two tell.
type Outage struct {
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until"`
	Instances []string  `json:"instances"`
}

// maxOutages is how many of the latest entries about outages are read.
const maxOutages = 100

// Outages lists the latest outages of more than 3 seconds, the last one first. Some that
// overlap, as several instances tell, are one. Errors: ErrDenied, ErrUnavailable.
func (c *Client) Outages(ctx context.Context) ([]Outage, error) {
	return retried(ctx, c.conn, "list outages", func() ([]Outage, error) { return c.outages(ctx) })
}

func (o observer) outages(ctx context.Context) ([]Outage, error) {
	names, err := o.children(ctx, o.tree.Deeds())
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		letter, _, _ := zkrec.ParseDeedName(name)
		return letter != zkrec.OutageLetter
	})
	slices.Sort(names)
	var told []Outage
	err = o.eachOf(ctx, o.tree.Deeds(), names[max(0, len(names)-maxOutages):], func(node child) {
		if d, err := zkrec.ParseDeed(node.data); err == nil && node.err == nil {
			told = append(told, Outage{zkrec.Time(d.Since), zkrec.Time(d.Until), []string{d.From}})
		}
	})
	slices.SortStableFunc(told, func(a, b Outage) int { return a.Since.Compare(b.Since) })
	var all []Outage
	for _, o := range told {
		if n := len(all) - 1; n >= 0 && !o.Since.After(all[n].Until) {
			all[n].Instances = append(all[n].Instances, o.Instances...)
			if o.Until.After(all[n].Until) {
				all[n].Until = o.Until
			}
			continue
		}
		all = append(all, o)
	}
	slices.Reverse(all)
	return all, err
}

// outage is the last of those that may explain the fate of the tick: it has the time asked for,
// or some of the time from the tick to the end of its run.
func (x Explanation) outage(all []Outage) *Outage {
	end := x.Tick
	switch {
	case len(x.Entries) > 0 && x.Entries[0].State != history.StateRunning:
		end = x.Entries[0].Ended
	case x.Tick.Before(x.At):
		end = x.At
	}
	for _, o := range all {
		asked := !x.Asked.Before(o.Since) && !x.Asked.After(o.Until)
		if asked || !x.Tick.IsZero() && !x.Tick.After(o.Until) && !end.Before(o.Since) {
			return &o
		}
	}
	return nil
}
