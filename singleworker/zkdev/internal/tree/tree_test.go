package tree_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

var (
	epoch = time.UnixMilli(1_700_000_000_000)
	world = []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "world", ID: "anyone"}}}
)

// A bench is a state with one session.
type bench struct {
	*testing.T
	*tree.State
	me  tree.Client
	now time.Time
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, State: tree.New(epoch, 500*time.Millisecond), now: epoch}
	b.me = b.open(1)
	return b
}

func (b *bench) open(conn tree.Conn) tree.Client {
	b.Helper()
	id, _ := b.OpenSession(b.now, 4*time.Second)
	return tree.Client{Session: id, Conn: conn, IDs: []wire.ID{{Scheme: "ip", ID: "127.0.0.1"}}}
}

func (b *bench) do(client tree.Client, r wire.Request) tree.Output {
	b.Helper()
	return b.Apply(b.now, client, &r)
}

// must applies a request that must succeed.
func (b *bench) must(r wire.Request) wire.Body {
	b.Helper()
	out := b.do(b.me, r)
	if out.Reply == nil || out.Reply.Code != wire.OK {
		b.Fatalf("%v %s: %+v", r.Op, r.Path, out.Reply)
	}
	return out.Reply.Body
}

// bodyOf applies a request that must succeed and returns the body of its reply.
func bodyOf[B wire.Body](b *bench, r wire.Request) B {
	b.Helper()
	body, ok := b.must(r).(B)
	if !ok {
		b.Fatalf("%v answers a %T", r.Op, body)
	}
	return body
}

func (b *bench) stat(path string) wire.Stat {
	b.Helper()
	return wire.Stat(bodyOf[wire.StatBody](b, req(wire.OpExists, path)))
}

func req(op wire.Op, path string) wire.Request {
	return wire.Request{Header: wire.Header{Op: op}, Path: path, Version: -1, ACL: world}
}

func create(path string, flags int32) wire.Request {
	r := req(wire.OpCreate, path)
	r.Flags = flags
	return r
}

func versioned(op wire.Op, path string, version int32) wire.Request {
	r := req(op, path)
	r.Version = version
	return r
}

func watch(op wire.Op, path string) wire.Request {
	r := req(op, path)
	r.Watch = true
	return r
}

func multi(ops ...wire.Request) wire.Request {
	r := req(wire.OpMulti, "")
	r.Ops = ops
	return r
}

// TestResults is a table of requests, applied in order to one tree, with their results.
func TestResults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	badACL, noACL, owned := create("/x", 0), create("/x", 0), create("/x", 0)
	badACL.ACL = []wire.ACL{{Perms: 31, ID: wire.ID{Scheme: "world", ID: "somebody"}}}
	noACL.ACL = nil
	owned.ACL = []wire.ACL{{Perms: 31, ID: wire.ID{Scheme: "auth"}}}
	malformed, null := create("/x", 0), req(wire.OpDelete, "")
	malformed.Malformed, null.Null = true, true
	for i, row := range []struct {
		request wire.Request
		code    wire.Code
		zxids   int64 // how many it consumes
	}{
		{create("/a", wire.FlagPersistent), wire.OK, 1},
		{create("/a", wire.FlagPersistent), wire.NodeExists, 1},
		{create("/a/b", wire.FlagEphemeral), wire.OK, 1},
		{create("/a/b/c", wire.FlagPersistent), wire.NoChildrenForEphemerals, 1},
		{create("/no/such", wire.FlagPersistent), wire.NoNode, 1},
		{create("/a/", wire.FlagPersistent), wire.BadArguments, 1},
		{create("/a/", wire.FlagSequential), wire.OK, 1},
		{create("a", wire.FlagPersistent), wire.BadArguments, 1},
		{create("/", wire.FlagPersistent), wire.NodeExists, 1},
		{create("/x", wire.FlagContainer), wire.Unimplemented, 1},
		{create("/x", wire.FlagTTL), wire.Unimplemented, 1},
		{create("/x", 9), wire.BadArguments, 1},
		{req(wire.OpCreateContainer, "/x"), wire.Unimplemented, 1},
		{req(wire.OpCreateTTL, "/x"), wire.Unimplemented, 1},
		{req(wire.OpReconfig, ""), wire.ReconfigDisabled, 1},
		{badACL, wire.InvalidACL, 1},
		{noACL, wire.InvalidACL, 1},
		{owned, wire.InvalidACL, 1},
		{malformed, wire.MarshallingError, 1},
		{null, wire.MarshallingError, 1},
		{req(wire.OpDelete, "/a"), wire.NotEmpty, 1},
		{req(wire.OpDelete, "/zookeeper"), wire.BadArguments, 1},
		{req(wire.OpDelete, "/nope"), wire.NoNode, 1},
		{versioned(wire.OpDelete, "/a/b", 7), wire.BadVersion, 1},
		{versioned(wire.OpDelete, "/a/b", 0), wire.OK, 1},
		{versioned(wire.OpSetData, "/a", 0), wire.OK, 1},
		{versioned(wire.OpSetData, "/a", 0), wire.BadVersion, 1},
		{versioned(wire.OpCheck, "/a", 0), wire.BadVersion, 1},
		{req(wire.OpSetData, ""), wire.BadArguments, 1},
		{versioned(wire.OpSetACL, "/a", 1), wire.BadVersion, 1},
		{versioned(wire.OpSetACL, "/a", 0), wire.OK, 1},
		{req(wire.OpSetData, "/zookeeper/config"), wire.NoAuth, 1},
		{req(wire.OpExists, "/nope"), wire.NoNode, 0},
		{req(wire.OpExists, "/a\x00"), wire.BadArguments, 0},
		{req(wire.OpGetData, ""), wire.OK, 0},
		{req(wire.OpGetData, "/a/"), wire.NoNode, 0},
		{req(wire.OpAddWatch, "/a"), wire.Unimplemented, 0},
		{req(wire.OpPing, ""), wire.OK, 0},
		{multi(), wire.OK, 1},
	} {
		before := b.Zxid()
		out := b.do(b.me, row.request)
		if out.Reply.Code != row.code || b.Zxid()-before != row.zxids || out.Reply.Zxid != b.Zxid() {
			t.Errorf("row %d, %v %q: %+v with %d zxids, want %v with %d", i, row.request.Op, row.request.Path,
				out.Reply, b.Zxid()-before, row.code, row.zxids)
		}
	}
}

func TestNewTree(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for path, want := range map[string]wire.Stat{
		"/":                 {Cversion: -1, NumChildren: 1},
		"/zookeeper":        {Cversion: -2, NumChildren: 2},
		"/zookeeper/config": {Aversion: -1},
		"/zookeeper/quota":  {},
	} {
		if got := b.stat(path); got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
}

// TestStat follows one node and its parent through every change of their stats.
func TestStat(t *testing.T) {
	t.Parallel()
	b := newBench(t) // the session is transaction 1
	at := func(ms int64) { b.now = epoch.Add(time.Duration(ms) * time.Millisecond) }
	t0 := epoch.UnixMilli()
	at(10)
	b.must(create("/p", 0)) // 2
	at(20)
	b.must(create("/p/c", wire.FlagEphemeral)) // 3
	at(30)
	set := req(wire.OpSetData, "/p/c")
	set.Data = []byte("12345")
	b.must(set) // 4
	at(40)
	b.must(req(wire.OpSetACL, "/p/c")) // 5
	b.must(create("/p/d", 0))          // 6
	b.do(b.me, create("/p/d", 0))      // 7, refused
	b.must(req(wire.OpDelete, "/p/d")) // 8
	want := wire.Stat{Czxid: 3, Mzxid: 4, Pzxid: 3, Ctime: t0 + 20, Mtime: t0 + 30, Version: 1, Aversion: 1, EphemeralOwner: b.me.Session, DataLength: 5}
	if got := b.stat("/p/c"); got != want {
		t.Errorf("node:   %+v\nwant    %+v", got, want)
	}
	want = wire.Stat{Czxid: 2, Mzxid: 2, Pzxid: 8, Ctime: t0 + 10, Mtime: t0 + 10, Cversion: 3, NumChildren: 1}
	if got := b.stat("/p"); got != want {
		t.Errorf("parent: %+v\nwant    %+v", got, want)
	}
}

func TestSequence(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(create("/q", 0))
	b.must(create("/q/plain", 0))
	b.must(req(wire.OpDelete, "/q/plain")) // creates are counted, deletes are not
	for i := 1; i <= 3; i++ {
		if got, want := b.must(create("/q/n-", wire.FlagSequential)), fmt.Sprintf("/q/n-%010d", i); got != wire.PathBody(want) {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}

func TestMulti(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	done := bodyOf[wire.MultiBody](b, multi(
		create("/m", 0), create("/m/n-", wire.FlagSequential), create("/m/n-", wire.FlagSequential),
		versioned(wire.OpSetData, "/m", 0), versioned(wire.OpCheck, "/m", 1), versioned(wire.OpDelete, "/m/n-0000000000", 0),
	))
	if done[2].Body != wire.PathBody("/m/n-0000000001") || len(done) != 6 {
		t.Errorf("multi: %+v", done)
	}
	before := b.Dump()
	out := b.do(b.me, multi(
		create("/m/x", 0), versioned(wire.OpSetData, "/m", 1), req(wire.OpDelete, "/nope"), create("/y", 0),
	))
	var codes []wire.Code
	results, _ := out.Reply.Body.(wire.MultiBody)
	for _, result := range results {
		codes = append(codes, result.Code)
		if result.Op != wire.OpError || result.Body != wire.IntBody(result.Code) {
			t.Errorf("result %+v of a refused multi is not an error", result)
		}
	}
	want := []wire.Code{wire.OK, wire.OK, wire.NoNode, wire.RuntimeInconsistency}
	if out.Reply.Code != wire.OK || !slices.Equal(codes, want) {
		t.Errorf("refused multi: %v %v, want results %v", out.Reply.Code, codes, want)
	}
	if len(out.Events) > 0 || !reflect.DeepEqual(b.Dump(), before) {
		t.Error("a refused multi has changed something")
	}
	if len(out.Txns) != 4 || out.Txns[0].Code == wire.OK {
		t.Errorf("the log of a refused multi says %+v", out.Txns)
	}
}

func TestRefusedMultiKeepsSequences(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(create("/s", 0))
	b.do(b.me, multi(create("/s/n-", wire.FlagSequential), req(wire.OpDelete, "/nope")))
	if got := b.must(create("/s/n-", wire.FlagSequential)); got != wire.PathBody("/s/n-0000000000") {
		t.Errorf("got %v, want the first number", got)
	}
}

// TestWatches checks which events a change causes, for which connections, in order.
func TestWatches(t *testing.T) {
	t.Parallel()
	type reqs = []wire.Request
	for _, test := range []struct {
		name    string
		watches reqs
		change  wire.Request
		want    string
	}{
		{"create", reqs{watch(wire.OpExists, "/a/new"), watch(wire.OpGetChildren, "/a")}, create("/a/new", 0), "1 /a/new, 4 /a"},
		{"create at the top", reqs{watch(wire.OpGetChildren2, "/")}, create("/new", 0), "4 /"},
		{"set", reqs{watch(wire.OpGetData, "/a"), watch(wire.OpExists, "/a")}, req(wire.OpSetData, "/a"), "3 /a"},
		{"delete", reqs{watch(wire.OpGetData, "/a/b"), watch(wire.OpGetChildren, "/a/b"), watch(wire.OpGetChildren, "/a")}, req(wire.OpDelete, "/a/b"), "2 /a/b, 4 /a"},
		{"delete, child watch only", reqs{watch(wire.OpGetChildren, "/a/b")}, req(wire.OpDelete, "/a/b"), "2 /a/b"},
		{"setACL", reqs{watch(wire.OpGetData, "/a")}, req(wire.OpSetACL, "/a"), ""},
		{"a node that is not there", reqs{watch(wire.OpGetData, "/a/new")}, create("/a/new", 0), ""},
		{
			"multi", reqs{watch(wire.OpGetData, "/a"), watch(wire.OpExists, "/c")},
			multi(create("/c", 0), req(wire.OpSetData, "/a"), req(wire.OpSetData, "/a")), "1 /c, 3 /a",
		},
		{"refused", reqs{watch(wire.OpGetData, "/a")}, versioned(wire.OpSetData, "/a", 7), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.must(create("/a", 0))
			b.must(create("/a/b", 0))
			watcher, other := b.open(2), b.open(3)
			for _, w := range test.watches {
				b.do(watcher, w)
			}
			if got := told(b.do(other, test.change), watcher); got != test.want {
				t.Errorf("events %q, want %q", got, test.want)
			}
			if out := b.do(other, test.change); strings.Contains(test.want, "3") && len(out.Events) > 0 {
				t.Errorf("a watch fires twice: %v", out.Events)
			}
			b.DropConn(watcher.Conn)
			if n := b.Watches(); n != 0 {
				t.Errorf("%d watches of a connection that is gone", n)
			}
		})
	}
}

// told lists the events that one client receives.
func told(out tree.Output, client tree.Client) string {
	var list []string
	for _, event := range out.Events {
		if event.Conn == client.Conn && event.VisibleTo(client.IDs) {
			list = append(list, fmt.Sprintf("%d %s", event.Type, event.Path))
		}
	}
	return strings.Join(list, ", ")
}
