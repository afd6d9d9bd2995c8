package admin

import (
	"context"
	"maps"
)

// Group is a group as it was read at once.
type Group struct {
	Jobs      []JobStatus // as List returns them
	Instances []Instance  // as Instances returns them; of a job that may not be read, they own nothing
	// Orders are as Orders returns them. A kind that may not be listed is left out.
	Orders []Order
}

// Group reads the jobs, the instances and the operators' orders. It sends about a sixth fewer
// requests to ZooKeeper than List, Instances and Orders, and all that it returns is judged by the
// same instances. Errors: ErrDenied if jobs or instances may not be listed, ErrUnavailable.
func (c *Client) Group(ctx context.Context) (Group, error) {
	return retried(ctx, c.conn, "read the group", func() (Group, error) { return c.group(ctx) })
}

func (o observer) group(ctx context.Context) (g Group, err error) {
	all, orders, err := o.nodes(ctx)
	if err != nil {
		return g, err
	}
	live := maps.Clone(all)
	maps.DeleteFunc(live, isNone)
	list, readings, err := o.listAmong(ctx, live)
	if err == nil && len(readings) == 0 {
		err = o.compare(ctx, live) // otherwise the jobs have had that done
	}
	if err != nil {
		return g, err
	}
	owned := make(map[string]int)
	for _, r := range readings {
		if r.of.isEverywhere() {
			continue // its parts are owned by nature
		}
		for _, slot := range r.slots {
			owned[slot.owner.SID]++
		}
	}
	for sid, instance := range all {
		instance.Owned = owned[sid]
		all[sid] = instance
	}
	instances, err := o.withLives(ctx, all)
	return Group{list, instances, orders}, err
}
