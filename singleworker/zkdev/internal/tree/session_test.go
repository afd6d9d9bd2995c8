package tree_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// TestExpiry checks when a session expires: after its timeout, rounded up to the next tick, one
// tick later if it ends exactly on a tick. Times are in ms.
func TestExpiry(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		opened, touched, timeout, ends int
	}{
		{0, 0, 1000, 1500},
		{1, 1, 1000, 1500},
		{499, 499, 1000, 1500},
		{500, 500, 1000, 2000},
		{0, 700, 1000, 2000},
		{0, 100, 999, 1500},
		{0, 0, 999, 1000},
	} {
		state := tree.New(epoch, 500*time.Millisecond)
		at := func(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }
		timeout := time.Duration(row.timeout) * time.Millisecond
		id, _ := state.OpenSession(at(row.opened), timeout)
		state.Touch(at(row.touched), id, timeout)
		if next, ok := state.NextExpiry(); !ok || !next.Equal(at(row.ends)) {
			t.Errorf("%+v: ends %v after the start", row, next.Sub(epoch))
		}
		if early := state.Expired(at(row.ends - 1)); len(early) > 0 {
			t.Errorf("%+v: expired a ms early", row)
		}
		if late := state.Expired(at(row.ends)); !slices.Equal(late, []int64{id}) {
			t.Errorf("%+v: not expired", row)
		}
	}
}

func TestCloseSession(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := b.open(2)
	b.must(create("/kept", 0))
	b.must(create("/gone", wire.FlagEphemeral))
	b.do(other, create("/other", wire.FlagEphemeral))
	b.do(other, watch(wire.OpExists, "/gone"))
	out := b.CloseSession(b.now, b.me.Session, true)
	if got := told(out, other); got != "2 /gone" {
		t.Errorf("events %q", got)
	}
	if len(out.Txns) != 2 || !out.Txns[1].Expired || out.Txns[1].Path != "/gone" {
		t.Errorf("log %+v", out.Txns)
	}
	if b.HasSession(b.me.Session) || b.Touch(b.now, b.me.Session, time.Second) {
		t.Error("the session lives on")
	}
	var paths []string
	for _, node := range b.Dump() {
		paths = append(paths, node.Path)
	}
	if want := []string{"/", "/kept", "/other", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"}; !slices.Equal(paths, want) {
		t.Errorf("left: %v, want %v", paths, want)
	}
}

func TestSetWatches(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(create("/old", 0))
	seen := b.Zxid()
	b.must(create("/new", 0))
	b.must(req(wire.OpSetData, "/old"))
	r := req(wire.OpSetWatches, "")
	r.Watches = wire.SetWatches{
		Zxid: seen,
		Data: []string{"/old", "/gone", "/zookeeper"}, Exist: []string{"/new", "/none"}, Child: []string{"/", "/gone", "/zookeeper"},
	}
	want := "3 /old, 2 /gone, 1 /new, 4 /, 2 /gone"
	if got := told(b.do(b.me, r), b.me); got != want {
		t.Errorf("events %q, want %q", got, want)
	}
	if n := b.Watches(); n != 3 {
		t.Errorf("%d watches are set, want 3: what has not changed", n)
	}
	r.Op, r.Watches.Persistent = wire.OpSetWatches2, []string{"/"}
	if out := b.do(b.me, r); out.Reply.Code != wire.Unimplemented {
		t.Errorf("persistent watches: %+v", out.Reply)
	}
}

func TestACL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	alice := b.open(2)
	alice.IDs = append(alice.IDs, wire.ID{Scheme: "digest", ID: "alice:secret"})
	mine := create("/mine", 0)
	mine.ACL = []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "auth"}}, {Perms: wire.PermRead, ID: wire.ID{Scheme: "ip", ID: "127.0.0.0/8"}}}
	if out := b.do(alice, mine); out.Reply.Code != wire.OK {
		t.Fatalf("create: %+v", out.Reply)
	}
	for op, want := range map[wire.Op]wire.Code{
		wire.OpGetData: wire.OK, wire.OpGetACL: wire.OK, wire.OpSetData: wire.NoAuth, wire.OpSetACL: wire.NoAuth,
	} {
		if out := b.do(b.me, req(op, "/mine")); out.Reply.Code != want {
			t.Errorf("%v by another: %v, want %v", op, out.Reply.Code, want)
		}
	}
	if out := b.do(b.me, create("/mine/child", 0)); out.Reply.Code != wire.NoAuth {
		t.Errorf("create below by another: %v", out.Reply.Code)
	}
	for _, test := range []struct {
		client tree.Client
		want   string
	}{{alice, "alice:secret"}, {b.me, "alice:x"}} {
		body, ok := b.do(test.client, req(wire.OpGetACL, "/mine")).Reply.Body.(wire.ACLBody)
		if !ok || body.ACL[0].Scheme != "digest" || body.ACL[0].ID.ID != test.want {
			t.Errorf("ACL %+v, want %s", body.ACL, test.want)
		}
	}
}

// TestLongACL: an ACL of thousands of entries would be compared with each client's identities.
func TestLongACL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	entries := func(n int) (acl []wire.ACL) {
		for k := range n {
			acl = append(acl, wire.ACL{Perms: wire.PermAll, ID: wire.ID{Scheme: "digest", ID: fmt.Sprintf("u:%d", k)}})
		}
		return append(acl, acl...) // each of them twice, which counts once
	}
	long, tooLong := create("/long", 0), create("/too-long", 0)
	long.ACL, tooLong.ACL = entries(10_000), entries(10_001)
	if out := b.do(b.me, long); out.Reply.Code != wire.OK {
		t.Errorf("create: %v", out.Reply.Code)
	}
	if out := b.do(b.me, tooLong); out.Reply.Code != wire.InvalidACL {
		t.Errorf("create with more entries: %v, want InvalidACL", out.Reply.Code)
	}
}

// TestNoEventWithoutReadPermission: the watch is lost nevertheless.
func TestNoEventWithoutReadPermission(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	owner := b.open(2)
	owner.IDs = []wire.ID{{Scheme: "digest", ID: "o:x"}}
	b.do(b.me, watch(wire.OpExists, "/hidden"))
	b.do(owner, watch(wire.OpExists, "/hidden"))
	hidden := create("/hidden", 0)
	hidden.ACL = []wire.ACL{{Perms: wire.PermAll, ID: owner.IDs[0]}}
	out := b.do(owner, hidden)
	if got := told(out, b.me); got != "" {
		t.Errorf("told %q", got)
	}
	if got := told(out, owner); got != "1 /hidden" {
		t.Errorf("the owner is told %q", got)
	}
	if b.Watches() != 0 {
		t.Error("a watch is left")
	}
}

// TestJavaOrder compares the order of children with ZooKeeper's.
func TestJavaOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(create("/a", 0))
	b.must(create("/b", 0))
	b.must(create("/cc", 0))
	names := b.must(req(wire.OpGetChildren, "/"))
	if want := (wire.NamesBody{"cc", "a", "b", "zookeeper"}); !reflect.DeepEqual(names, want) {
		t.Errorf("children %v, want %v", names, want)
	}
}

// TestPassword compares a password with one that ZooKeeper issued.
func TestPassword(t *testing.T) {
	t.Parallel()
	password := tree.Password(0x1000034242b0000)
	if got := hex.EncodeToString(password[:]); got != "57bc0a9f988c913b8d386a35a10aa72a" {
		t.Errorf("got %s", got)
	}
}

// FuzzApply applies requests made of arbitrary bytes to a state. Nothing may panic, zxids must only
// increase, and every node's child counts must be correct.
func FuzzApply(f *testing.F) {
	f.Add(uint64(1), []byte("\x00\x00\x00\x02/a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, seed uint64, record []byte) {
		random := rand.New(rand.NewPCG(seed, 0))
		state := tree.New(epoch, time.Second)
		id, _ := state.OpenSession(epoch, time.Second)
		client := tree.Client{Session: id, Conn: 1}
		for i := range 20 {
			op := wire.Op(random.IntN(30) - 1)
			from := random.IntN(len(record) + 1)
			r := wire.DecodeRequest(wire.Header{Op: op}, record[from:])
			if i%2 == 0 {
				r = wire.Request{Header: wire.Header{Op: wire.OpCreate}, Path: string(record[from:]), ACL: world, Flags: int32(random.IntN(4))}
			}
			before := state.Zxid()
			state.Apply(epoch, client, &r)
			if after := state.Zxid(); after < before || after > before+2 {
				t.Fatalf("zxid %d after %d", after, before)
			}
		}
		state.CloseSession(epoch, id, false)
		count := map[string]int32{}
		for _, node := range state.Dump() {
			if node.Stat.EphemeralOwner != 0 {
				t.Errorf("%q is left of a closed session", node.Path)
			}
			if node.Path != "/" {
				count[node.Path[:strings.LastIndexByte(node.Path, '/')]]++
			}
		}
		count["/"] = count[""]
		for _, node := range state.Dump() {
			if node.Stat.NumChildren != count[node.Path] {
				t.Error(fmt.Sprintf("%q has %d children", node.Path, count[node.Path]), node.Stat)
			}
		}
	})
}
