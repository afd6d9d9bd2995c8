package admin

import (
	"context"
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Names lists the names of all jobs, sorted, without reading the jobs. Errors: ErrDenied,
// ErrUnavailable.
func (c *Client) Names(ctx context.Context) ([]string, error) {
	return retried(ctx, c.conn, "list names of jobs", func() ([]string, error) {
		names, err := c.children(ctx, c.tree.Root())
		names = slices.DeleteFunc(names, func(name string) bool { return !zkrec.IsJob(name) })
		slices.Sort(names)
		return names, err
	})
}

// ServerTypes lists the server types below the connection's chroot that an instance has joined,
// sorted. Errors: ErrDenied, ErrUnavailable.
func (c *Client) ServerTypes(ctx context.Context) ([]string, error) {
	return retried(ctx, c.conn, "list server types", func() ([]string, error) {
		names, err := c.children(ctx, "/")
		if err != nil {
			return nil, err
		}
		joined := make([]bool, len(names))
		err = task.Each(ctx, readers, names, func(ctx context.Context, i int, name string) (err error) {
			_, joined[i], err = c.conn.Exists(ctx, zkrec.NewTree(name).Instances())
			return err
		})
		var found []string
		for i, name := range names {
			if joined[i] {
				found = append(found, name)
			}
		}
		slices.Sort(found)
		return found, err
	})
}

// InstanceIDs lists the IDs of the instances, sorted, without reading the instances. Errors:
// ErrDenied, ErrUnavailable.
func (c *Client) InstanceIDs(ctx context.Context) ([]string, error) {
	return retried(ctx, c.conn, "list IDs of instances", func() ([]string, error) {
		ids, err := c.children(ctx, c.tree.Instances())
		slices.Sort(ids)
		return ids, err
	})
}

// Handlers lists the names of the handlers that the running instances publish, sorted. It reads no
// job, and one list for all instances of a program. Errors: ErrDenied, ErrUnavailable.
func (c *Client) Handlers(ctx context.Context) ([]string, error) {
	return retried(ctx, c.conn, "list handlers", func() ([]string, error) {
		live, err := c.live(ctx)
		if err != nil {
			return nil, err
		}
		read, found := map[string]bool{}, map[string]bool{} // lists, and the handlers in them
		for _, i := range live {
			if read[i.place.record.Handlers] {
				continue
			}
			read[i.place.record.Handlers] = true
			names, err := c.handlersOf(ctx, i.place.record)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				found[name] = true
			}
		}
		return slices.Sorted(maps.Keys(found)), nil
	})
}
