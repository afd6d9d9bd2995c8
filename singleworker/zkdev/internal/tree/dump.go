package tree

import (
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// A NodeInfo describes a node.
type NodeInfo struct {
	Path string
	Data []byte // read only
	Stat wire.Stat
}

// Dump lists all nodes, sorted by path.
func (s *State) Dump() []NodeInfo {
	list := make([]NodeInfo, 0, len(s.nodes))
	for _, path := range slices.Sorted(maps.Keys(s.nodes)) {
		if path != "" {
			n := s.nodes[path]
			list = append(list, NodeInfo{Path: path, Data: n.data, Stat: n.stat()})
		}
	}
	return list
}

// Ephemerals returns the number of ephemeral nodes.
func (s *State) Ephemerals() int {
	n := 0
	for _, session := range s.sessions {
		n += session.ephemerals.len()
	}
	return n
}

// DataSize returns the number of bytes in all nodes and their paths.
func (s *State) DataSize() int {
	n := 0
	for path, node := range s.nodes {
		n += len(path) + len(node.data)
	}
	return n
}
