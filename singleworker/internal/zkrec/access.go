package zkrec

import (
	"strings"
)

// Access is the record of who has which role. With the table of package access it gives the access
// list of every node of the group.
type Access struct {
	Schema int `json:"schema"`
	// Roles are the identities that ZooKeeper knows the holders of each role by, "scheme:id".
	Roles map[string][]string `json:"roles"`

	unknown Unknown
}

// Access is the node of the record of who has which role. Without it, nodes belong to whom
// Config.Auth and Config.ACL say.
func (t Tree) Access() string { return t.root + "/" + accessNode }

// Encode returns the node's data.
func (a Access) Encode() []byte {
	a.Schema = Schema
	return a.unknown.Encode(a)
}

// ParseAccess reads the node. It refuses unreadable records and newer schemas.
func ParseAccess(data []byte) (a Access, err error) {
	if err := parsed("roles", data, a.unknown.Decode(data, &a), &a.Schema); err != nil {
		return Access{}, err
	}
	return a, nil
}

// Kind is a kind of node, of which all have the same access list. It reads like the paths of such
// nodes.
type Kind string

// The kinds of nodes.
const (
	KindGroup        Kind = "the group's root"
	KindSpec         Kind = "{job}"
	KindSwitch       Kind = "{job}/register"
	KindRequests     Kind = "requests"
	KindRecord       Kind = "other nodes of a job"
	KindInstances    Kind = instancesNode
	KindInstance     Kind = instancesNode + "/{sid}"
	KindSignals      Kind = changesNode + ", " + askedNode
	KindSignal       Kind = changesNode + "/{n}, " + askedNode + "/{incarnation}"
	KindOrders       Kind = disabledNode + ", " + excludedNode
	KindOrder        Kind = disabledNode + "/{sid}, " + excludedNode + "/{hash}"
	KindLog          Kind = logNode
	KindLogEntry     Kind = logNode + "/{entry}"
	KindFreeze       Kind = freezeNode
	KindNotices      Kind = noticesNode + " and below"
	KindOfInstances  Kind = lifeNode + ", " + handlersNode + ", " + leaderNode + " and below"
	KindAccess       Kind = accessNode
	KindNotTheGroups Kind = "other nodes"
)

// kinds are the kinds of nodes that are no job's: of a child of the root, and of all below it.
var kinds = map[string][2]Kind{
	instancesNode: {KindInstances, KindInstance},
	changesNode:   {KindSignals, KindSignal},
	askedNode:     {KindSignals, KindSignal},
	disabledNode:  {KindOrders, KindOrder},
	excludedNode:  {KindOrders, KindOrder},
	logNode:       {KindLog, KindLogEntry},
	noticesNode:   {KindNotices, KindNotices},
	lifeNode:      {KindOfInstances, KindOfInstances},
	handlersNode:  {KindOfInstances, KindOfInstances},
	leaderNode:    {KindOfInstances, KindOfInstances},
	freezeNode:    {KindFreeze, KindNotTheGroups},
	accessNode:    {KindAccess, KindNotTheGroups},
}

// Kind is the kind of the node at a path. ok is false if it is neither the root nor below it.
func (t Tree) Kind(path string) (kind Kind, ok bool) {
	if path == t.root {
		return KindGroup, true
	}
	rest, below := strings.CutPrefix(path, t.root+"/")
	if !below {
		return "", false
	}
	parts := strings.Split(rest, "/")
	if of, known := kinds[parts[0]]; known {
		return of[min(len(parts)-1, 1)], true
	}
	slot := parts[1:] // the names below the slot's node
	if len(slot) > 2 && (slot[0] == shardsNode || slot[0] == everyNode) {
		slot = slot[2:]
	}
	switch {
	case !IsJob(parts[0]):
		return KindNotTheGroups, true
	case len(parts) == 1:
		return KindSpec, true
	case len(parts) == 2 && parts[1] == registerNode:
		return KindSwitch, true
	case len(slot) == 1 && slot[0] == requestsNode:
		return KindRequests, true
	}
	return KindRecord, true
}
