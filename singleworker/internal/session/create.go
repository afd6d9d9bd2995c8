package session

import (
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// CreateOps creates nodes, in their order.
func CreateOps(nodes []zkrec.Node) []zkconn.Op {
	ops := make([]zkconn.Op, len(nodes))
	for i, node := range nodes {
		ops[i] = zkconn.CreateOp(node.Path, node.Data)
	}
	return ops
}
