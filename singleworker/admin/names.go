package admin

import (
	"context"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Names lists the names of all jobs, sorted, without reading the jobs. Errors: ErrDenied,
// ErrUnavailable.
func (c *Client) Names(ctx context.Context) ([]string, error) {
	return retried(ctx, c, "list names of jobs", func() ([]string, error) {
		names, err := c.children(ctx, c.tree.Root())
		names = slices.DeleteFunc(names, func(name string) bool { return !zkrec.IsJob(name) })
		slices.Sort(names)
		return names, err
	})
}

// ServerTypes lists the server types below the connection's chroot that an instance has joined,
// sorted. Errors: ErrDenied, ErrUnavailable.
func (c *Client) ServerTypes(ctx context.Context) ([]string, error) {
	return retried(ctx, c, "list server types", func() ([]string, error) {
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
