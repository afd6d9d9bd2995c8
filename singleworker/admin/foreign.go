package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// ForeignNode is a node that another program keeps in ZooKeeper, and one below it.
type ForeignNode struct {
	Name  string
	Data  []byte
	Below []byte // what the child has that was asked for
	Found bool   // there is such a child
}

// Foreign reads the children of a node that does not belong to the group, sorted by name, each with
// its child of the name below. Root is a path below the connection's chroot. It is for tools that
// take over what another scheduler has, and changes nothing. Errors: *invalid.FieldError for a path
// that cannot be, ErrNotFound if there is no root, ErrDenied, ErrUnavailable.
func (c *Client) Foreign(ctx context.Context, root, below string) ([]ForeignNode, error) {
	for name := range strings.SplitSeq(strings.TrimPrefix(root, "/")+"/"+below, "/") {
		if err := job.CheckNodeName(strings.TrimLeft(name, job.Reserved)); err != nil {
			return nil, &invalid.FieldError{Field: "root", Value: root, Err: fmt.Errorf("has an element %q that %w", name, err)}
		}
	}
	root = "/" + strings.TrimPrefix(root, "/")
	return retried(ctx, c.conn, "read "+root, func() ([]ForeignNode, error) { return c.readForeign(ctx, root, below) })
}

func (rd reader) readForeign(ctx context.Context, root, below string) ([]ForeignNode, error) {
	names, _, err := rd.conn.Children(ctx, root)
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var reads []zkconn.Read
	for _, name := range names {
		reads = append(reads, zkconn.Read{Path: root + "/" + name}, zkconn.Read{Path: root + "/" + name + "/" + below})
	}
	results, err := rd.readMany(ctx, reads)
	if err != nil {
		return nil, err
	}
	var nodes []ForeignNode
	for i, name := range names {
		node, child := results[2*i], results[2*i+1]
		switch {
		case errors.Is(node.Err, zkconn.ErrNoNode):
			continue // it went meanwhile
		case node.Err != nil:
			return nil, node.Err
		case child.Err != nil && !errors.Is(child.Err, zkconn.ErrNoNode):
			return nil, child.Err
		}
		nodes = append(nodes, ForeignNode{name, node.Data, child.Data, child.Err == nil})
	}
	return nodes, nil
}
