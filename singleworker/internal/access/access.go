// Package access gives the nodes of a group their access lists, by roles, which ZooKeeper enforces.
//
// The record _acl names the identities that have each role. The access list of a node follows from
// that and from the kind of the node, by one table. Whoever creates a node takes its list from
// there, and never from a parent. Without the record all is as Config.Auth and Config.ACL say.
//
// ZooKeeper asks for permission c and d of the parent of a node that is created or deleted, and for
// r and w of the node itself. A transaction that checks a version needs r.
package access

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// The roles. One identity may have several.
const (
	Viewers   = "viewers"   // read all: swctl list, pages, the exporter
	Operators = "operators" // ask for runs and stops, pause, drain, disable
	Admins    = "admins"    // change specs and roles
	Instances = "instances" // run jobs; also those that declare and change jobs in code
	Guards    = "guards"    // end the registration of an instance that has exited: swctl guard
	Senders   = "senders"   // send notifications
)

// Roles lists the roles, in the order of the table.
var Roles = []string{Viewers, Operators, Admins, Instances, Guards, Senders}

// A Row has the permissions of each role on the nodes of a kind, in the order of Roles, as
// ZooKeeper's letters.
type Row struct {
	Kind  zkrec.Kind
	Perms [6]string
}

// Table has the permissions of all roles. Operators change switches, requests, orders and signals.
// Below a switch they create and delete the proof of zkconn.Conn.MultiOn, too. They do not delete
// from the log: instances do.
var Table = []Row{
	{zkrec.KindGroup, [6]string{"r", "r", "cdrwa", "cdrw", "", "r"}},
	{zkrec.KindSpec, [6]string{"r", "r", "cdrwa", "cdrw", "", "r"}},
	{zkrec.KindSwitch, [6]string{"r", "cdrw", "cdrwa", "cdrw", "", "r"}},
	{zkrec.KindRequests, [6]string{"r", "cdrw", "cdrwa", "cdrw", "", "r"}},
	{zkrec.KindRecord, [6]string{"r", "r", "cdrwa", "cdrw", "", "r"}},
	{zkrec.KindInstances, [6]string{"r", "r", "cdrwa", "cdrw", "dr", "r"}},
	{zkrec.KindInstance, [6]string{"r", "r", "cdrwa", "cdrw", "r", "r"}},
	{zkrec.KindSignals, [6]string{"r", "r", "cdrwa", "cdrw", "", "r"}},
	{zkrec.KindSignal, [6]string{"r", "rw", "cdrwa", "cdrw", "", "r"}},
	{zkrec.KindOrders, [6]string{"r", "cdr", "cdrwa", "cdrw", "", "r"}},
	{zkrec.KindOrder, [6]string{"r", "rw", "cdrwa", "cdrw", "", "r"}},
	{zkrec.KindLog, [6]string{"r", "cr", "cdrwa", "cdr", "", "r"}},
	{zkrec.KindLogEntry, [6]string{"r", "r", "cdrwa", "r", "", "r"}},
	{zkrec.KindFreeze, [6]string{"r", "rw", "cdrwa", "rw", "", "r"}},
	{zkrec.KindNotices, [6]string{"r", "r", "cdrwa", "r", "", "cdrw"}},
	{zkrec.KindOfInstances, [6]string{"r", "r", "cdrwa", "cdrw", "", "r"}},
	{zkrec.KindAccess, [6]string{"r", "r", "cdrwa", "r", "r", "r"}},
	{zkrec.KindNotTheGroups, [6]string{"r", "r", "cdrwa", "cdrw", "", "r"}},
}

// Lists are the access lists of a group's nodes, by kind.
type Lists struct {
	tree   zkrec.Tree
	byKind map[zkrec.Kind][]zkconn.Grant
}

// Of makes the lists that follow from a record.
func Of(tree zkrec.Tree, record zkrec.Access) Lists {
	l := Lists{tree, make(map[zkrec.Kind][]zkconn.Grant)}
	for _, row := range Table {
		l.byKind[row.Kind] = row.grants(record)
	}
	return l
}

// grants is the access list of the row's nodes, in the order of the identities. An identity that
// has several roles may do all that one of them may.
func (r Row) grants(record zkrec.Access) (list []zkconn.Grant) {
	perms := make(map[string]zkconn.Perms)
	for i, role := range Roles {
		for _, who := range record.Roles[role] {
			perms[who] |= zkconn.ParsePerms(r.Perms[i])
		}
	}
	for _, who := range slices.Sorted(maps.Keys(perms)) {
		if perms[who] != 0 {
			list = append(list, zkconn.Grant{Who: who, Perms: perms[who]})
		}
	}
	return list
}

// At is the access list of the node at a path, or nil if the node is not the group's.
func (l Lists) At(path string) []zkconn.Grant {
	kind, _ := l.tree.Kind(path)
	return l.byKind[kind]
}

// Follow has the connection create the group's nodes with the lists that the record gives, now and
// after each change of it. It reports whether there is one. ErrDenied means that the connection has
// no role.
func Follow(ctx context.Context, conn *zkconn.Conn, tree zkrec.Tree) (found bool, err error) {
	return conn.FollowACLs(ctx, tree.Access(), func(data []byte) (zkconn.ACLs, error) {
		record, err := zkrec.ParseAccess(data)
		if err != nil {
			return nil, &zkrec.UnreadableError{Path: tree.Access(), Err: err}
		}
		return Of(tree, record).At, nil
	})
}

// Needed names the least of the roles viewers, operators and admins that may do the operation of a
// refused call, or is "".
func Needed(tree zkrec.Tree, refused *zkconn.OpError) string {
	path, perm := refused.Path, zkconn.ParsePerms("r")
	switch refused.Op {
	case zkconn.OpNameCreate, zkconn.OpNameDelete:
		path = path[:strings.LastIndexByte(path, '/')]
		perm = zkconn.ParsePerms(refused.Op[:1])
	case zkconn.OpNameSet:
		perm = zkconn.ParsePerms("w")
	case zkconn.OpNameSetACL:
		perm = zkconn.ParsePerms("a")
	}
	kind, _ := tree.Kind(path)
	for _, row := range Table {
		for i := range Roles[:3] {
			if row.Kind == kind && zkconn.ParsePerms(row.Perms[i])&perm != 0 {
				return Roles[i]
			}
		}
	}
	return ""
}
