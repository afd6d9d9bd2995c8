package admin

import (
	"cmp"
	"context"
	"strings"

	"github.com/swjobs/singleworker/singleworker/internal/election"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Leader is who leads in latch mode.
type Leader struct {
	ID   string `json:"id"`   // of an instance, or what another program has written to its node
	Node string `json:"node"` // path
	// Instance says that it is an instance that runs. Otherwise it is another program that contends
	// at the same path, such as one with Curator's LeaderLatch, and the instances stand by.
	Instance bool `json:"instance"`
}

// leader is who leads; nil in lease mode, or if nobody does.
func (m members) leader(ctx context.Context) (*Leader, error) {
	mode, live := zkrec.ModeLatch, make(map[string]bool)
	err := m.eachChild(ctx, m.tree.Instances(), func(node child) {
		record, err := zkrec.ParseInstance(node.data)
		if err == nil && node.err == nil && node.stat.Ephemeral() {
			mode, live[node.name] = record.Mode, true
		}
	})
	at, latched := strings.CutPrefix(mode, zkrec.ModeLatch)
	if err != nil || !latched {
		return nil, err
	}
	queue, err := election.Participants(ctx, m.conn, cmp.Or(strings.TrimPrefix(at, " at "), m.tree.Leader()))
	if err != nil || len(queue) == 0 {
		return nil, err
	}
	return &Leader{ID: queue[0].ID, Node: queue[0].Node, Instance: live[queue[0].ID]}, nil
}
