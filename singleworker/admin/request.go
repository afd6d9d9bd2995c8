package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// ask is a request to the owner of a job, over its tries.
type ask struct {
	client  *Client
	name    string
	id      string
	request zkrec.Request
	// judge says, by the records of the job and the requests that wait at it,
	// whether there is anything to ask for.
	judge func(status JobStatus, able []string, waiting map[string]zkrec.Request) (bool, error)

	wrote  bool // a write was sent whose outcome is not known
	status JobStatus
}

// newAsk gives a request an id of its own; ids sort by time.
func (c *Client) newAsk(name string, request zkrec.Request) (*ask, error) {
	if err := zkrec.CheckName(name); err != nil {
		return nil, &InvalidError{"Name", name, err}
	}
	if err := checkText("By", request.By); err != nil {
		return nil, err
	}
	if err := checkText("Reason", request.Reason); err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make an id: %w", err)
	}
	return &ask{client: c, name: name, id: id.String(), request: request}, nil
}

func (a *ask) run(ctx context.Context) error {
	err := a.client.retry(ctx, func() error {
		return persist(func() error { return a.once(ctx) })
	})
	return uncertain(err, a.wrote)
}

// once reads, and writes the request unless it is there or was there. The
// write depends on the version of the parent, which it changes: so two
// requests cannot both be the last that there is room for, and one whose
// reply was lost cannot be applied after it was looked for in vain.
func (a *ask) once(ctx context.Context) error {
	conn, tree := a.client.conn, a.client.tree
	parent, stat, err := conn.Get(ctx, tree.Requests(a.name))
	guard := zkconn.SetOp(tree.Requests(a.name), parent, stat.Version)
	switch {
	case errors.Is(err, zkconn.ErrNoNode): // an older version made the job, or there is none
		guard = zkconn.CreateOp(tree.Requests(a.name), nil)
	case err != nil:
		return err
	}
	live, err := a.client.live(ctx)
	if err != nil {
		return err
	}
	if a.status, err = a.client.status(ctx, a.name, live); err != nil {
		return err
	}
	waiting, err := a.client.waiting(ctx, a.name)
	if err != nil {
		return err
	}
	if done, err := a.applied(ctx, waiting); done || err != nil {
		return err
	}
	if wanted, err := a.judge(a.status, able(a.status.Registered, live), waiting); !wanted || err != nil {
		return err
	}
	a.wrote = true
	_, err = conn.Multi(ctx, guard, zkconn.CreateOp(tree.Request(a.name, a.id), a.request.Encode()))
	return err
}

// applied reports whether an earlier try was applied after all: its node is
// there, or what it asked for was done already.
func (a *ask) applied(ctx context.Context, waiting map[string]zkrec.Request) (bool, error) {
	if !a.wrote {
		return false, nil
	}
	if _, ok := waiting[a.id]; ok {
		return true, nil
	}
	past, err := a.client.past(ctx, a.name)
	if err != nil {
		return false, err
	}
	_, found := past.manual(a.id)
	return found, nil
}

// waiting reads the requests that wait at a job. One that cannot be read takes
// a place all the same.
func (c *Client) waiting(ctx context.Context, name string) (map[string]zkrec.Request, error) {
	ids, _, err := c.conn.Children(ctx, c.tree.Requests(name))
	if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
		return nil, err
	}
	waiting := make(map[string]zkrec.Request, len(ids))
	for _, id := range ids {
		data, _, err := c.conn.Get(ctx, c.tree.Request(name, id))
		if errors.Is(err, zkconn.ErrNoNode) {
			continue // done meanwhile
		}
		if err != nil {
			return nil, err
		}
		request, err := zkrec.ParseRequest(data)
		if err != nil {
			request = zkrec.Request{}
		}
		waiting[id] = request
	}
	return waiting, nil
}

// manual finds the last entry of a manual run.
func (p past) manual(id string) (Entry, bool) {
	for _, entry := range p.newestFirst() {
		if entry.Manual == id {
			return entry, true
		}
	}
	return Entry{}, false
}

// run finds the entry of a run.
func (p past) run(id string) (Entry, bool) {
	for _, entry := range p.newestFirst() {
		if entry.RunID == id {
			return entry, true
		}
	}
	return Entry{}, false
}
