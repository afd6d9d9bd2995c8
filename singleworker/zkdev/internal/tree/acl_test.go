package tree_test

import (
	"slices"
	"testing"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

func digest(user string) wire.ID { return wire.ID{Scheme: "digest", ID: user + ":secret"} }

// TestPermissions: which permission of which node each operation asks for. Nobody but a client with
// that one permission may do it.
func TestPermissions(t *testing.T) {
	t.Parallel()
	sequential := create("/p/n", wire.FlagSequential)
	chmod := req(wire.OpSetACL, "/p/c")
	for what, test := range map[string]struct {
		request       wire.Request
		parent, child int32 // the permission that is asked for
	}{
		"create":            {create("/p/new", 0), wire.PermCreate, 0},
		"create sequential": {sequential, wire.PermCreate, 0},
		"delete":            {req(wire.OpDelete, "/p/c"), wire.PermDelete, 0},
		"set":               {req(wire.OpSetData, "/p/c"), 0, wire.PermWrite},
		"set ACL":           {chmod, 0, wire.PermAdmin},
		"get":               {req(wire.OpGetData, "/p/c"), 0, wire.PermRead},
		"children":          {req(wire.OpGetChildren, "/p/c"), 0, wire.PermRead},
	} {
		for _, perms := range []struct{ parent, child int32 }{
			{test.parent, test.child},
			{wire.PermAll &^ test.parent, wire.PermAll},
			{wire.PermAll, wire.PermAll &^ test.child},
		} {
			b := newBench(t)
			b.me.IDs = append(b.me.IDs, digest("me"))
			parent, child := create("/p", 0), create("/p/c", 0)
			child.ACL = []wire.ACL{{Perms: wire.PermAll, ID: digest("another")}, {Perms: perms.child, ID: digest("me")}}
			b.must(parent)
			b.must(child)
			acl := req(wire.OpSetACL, "/p")
			acl.ACL = []wire.ACL{{Perms: wire.PermAll, ID: digest("another")}, {Perms: perms.parent, ID: digest("me")}}
			b.must(acl)
			want := wire.NoAuth
			if perms.parent&test.parent == test.parent && perms.child&test.child == test.child {
				want = wire.OK
			}
			if got := b.do(b.me, test.request).Reply.Code; got != want {
				t.Errorf("%s with permissions %d on the parent and %d on the node: %v, want %v", what, perms.parent, perms.child, got, want)
			}
		}
	}
}

// A check needs the permission to read, as in ZooKeeper, and sees the effects of the operations
// before it.
func TestCheckNeedsRead(t *testing.T) {
	t.Parallel()
	for perms, want := range map[int32]wire.Code{wire.PermRead: wire.OK, wire.PermAll &^ wire.PermRead: wire.NoAuth} {
		b := newBench(t)
		b.me.IDs = append(b.me.IDs, digest("me"))
		node := create("/a", 0)
		node.ACL = []wire.ACL{{Perms: perms, ID: digest("me")}}
		b.must(node)
		results := bodyOf[wire.MultiBody](b, multi(versioned(wire.OpCheck, "/a", 0)))
		if got := results[0].Code; got != want {
			t.Errorf("a check with permissions %d: %v, want %v", perms, got, want)
		}
	}
}

// TestIdentities: to whom an entry of an ACL grants something.
func TestIdentities(t *testing.T) {
	t.Parallel()
	ip := func(text string) wire.ID { return wire.ID{Scheme: "ip", ID: text} }
	for _, test := range []struct {
		entry, client wire.ID
		granted       bool
	}{
		{digest("me"), digest("me"), true},
		{digest("me"), digest("another"), false},
		{ip("10.0.0.1"), ip("10.0.0.1"), true},
		{ip("10.0.0.1"), ip("10.0.0.2"), false},
		{ip("10.0.0.0/24"), ip("10.0.0.2"), true},
		{ip("10.0.0.0/24"), ip("10.0.1.2"), false},
		{wire.ID{Scheme: "digest", ID: "10.0.0.1:x"}, ip("10.0.0.1"), false},
		{ip("10.0.0.1"), wire.ID{Scheme: "digest", ID: "10.0.0.1"}, false},
	} {
		b := newBench(t)
		node := create("/a", 0)
		node.ACL = []wire.ACL{{Perms: wire.PermRead, ID: test.entry}}
		b.must(node)
		client := tree.Client{Session: b.me.Session, Conn: b.me.Conn, IDs: []wire.ID{test.client}}
		if granted := b.do(client, req(wire.OpGetData, "/a")).Reply.Code == wire.OK; granted != test.granted {
			t.Errorf("%+v grants %+v to read: %v, want %v", test.entry, test.client, granted, test.granted)
		}
	}
}

// An entry for the client's identities is refused if it has none, also beside others.
func TestAuthWithoutIdentities(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	node := create("/a", 0)
	node.ACL = append(slices.Clone(world), wire.ACL{Perms: wire.PermRead, ID: wire.ID{Scheme: "auth"}})
	if got := b.do(b.me, node).Reply.Code; got != wire.InvalidACL {
		t.Errorf("create: %v, want InvalidACL", got)
	}
}
