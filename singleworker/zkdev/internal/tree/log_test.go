package tree_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// A picture is all that a snapshot has of a state.
type picture struct {
	zxid  int64
	image *txnlog.Snapshot
	nodes []txnlog.Node
}

func pictureOf(s *tree.State) picture {
	image, nodes := s.Clone().Image()
	return picture{s.Zxid(), image, slices.Collect(nodes)}
}

// TestReplay: a state is the same after its snapshot and its log went through files. A log that
// begins before the snapshot does no harm, as with the snapshots that a ZooKeeper writes while it
// works.
func TestReplay(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 1))
		b := newBench(t)
		r := &recorder{bench: b, Rand: random}
		pictures := []picture{pictureOf(tree.New(epoch, time.Second))}
		r.log = append(r.log, txnlog.Txn{Zxid: 1, Session: b.me.Session, Time: epoch, Kind: txnlog.Connect, Timeout: 4 * time.Second})
		for range 150 {
			r.step()
			pictures = append(pictures, pictureOf(b.State))
		}
		want := pictures[len(pictures)-1]
		for _, from := range pictures {
			first := max(0, random.Int64N(from.zxid+1)-1)
			if random.IntN(2) == 0 {
				first = from.zxid
			}
			got := replayed(t, from, r.log[first:])
			if got.zxid != want.zxid || !reflect.DeepEqual(got.image.Sessions, want.image.Sessions) {
				t.Fatalf("seed %d from %d: %#x %v, want %#x %v", seed, from.zxid, got.zxid, got.image.Sessions, want.zxid, want.image.Sessions)
			}
			if len(got.nodes) != len(want.nodes) {
				t.Fatalf("seed %d from %d: %d nodes, want %d", seed, from.zxid, len(got.nodes), len(want.nodes))
			}
			for i := range want.nodes {
				g, w := got.nodes[i], want.nodes[i]
				gl, wl := got.image.ACLs[g.ACL], want.image.ACLs[w.ACL]
				g.ACL, w.ACL = 0, 0
				if !reflect.DeepEqual(g, w) || !slices.Equal(gl, wl) {
					t.Fatalf("seed %d from %d, log from %d: %+v %v, want %+v %v", seed, from.zxid, first+1, g, gl, w, wl)
				}
			}
		}
	}
}

// replayed is the state of a server that starts with a snapshot and a log.
func replayed(t *testing.T, from picture, log []txnlog.Txn) picture {
	t.Helper()
	var file bytes.Buffer
	if err := txnlog.WriteSnapshot(&file, from.image, slices.Values(from.nodes)); err != nil {
		t.Fatal(err)
	}
	var nodes []txnlog.Node
	image, err := txnlog.ReadSnapshot(&file, func(n txnlog.Node) { nodes = append(nodes, n) })
	if err != nil {
		t.Fatal(err)
	}
	s, err := tree.Load(epoch, time.Second, from.zxid, image, nodes)
	if err != nil {
		t.Fatal(err)
	}
	written := txnlog.AppendHead(nil)
	for i := range log {
		written = txnlog.AppendTxn(written, &log[i])
	}
	in, err := txnlog.NewReader(bytes.NewReader(written))
	if err != nil {
		t.Fatal(err)
	}
	for range log {
		txn, err := in.Next()
		if err == nil {
			err = s.Replay(&txn)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Settle()
	return pictureOf(s)
}

// A recorder makes random requests, and logs their effects.
type recorder struct {
	*bench
	*rand.Rand

	clients []tree.Client
	log     []txnlog.Txn
}

func (r *recorder) took(out tree.Output) {
	if len(out.Txns) > 0 {
		r.log = append(r.log, tree.Logged(out.Txns))
	}
}

func (r *recorder) step() {
	r.now = r.now.Add(time.Duration(r.IntN(3)) * time.Millisecond)
	switch k := r.IntN(20); {
	case k == 0 || len(r.clients) == 0:
		id, out := r.OpenSession(r.now, time.Duration(1+r.IntN(9))*time.Second)
		r.took(out)
		r.clients = append(r.clients, tree.Client{Session: id, IDs: []wire.ID{{Scheme: "digest", ID: "u:p"}}})
	case k == 1:
		i := r.IntN(len(r.clients))
		r.took(r.CloseSession(r.now, r.clients[i].Session, r.IntN(2) == 0))
		r.clients = slices.Delete(r.clients, i, i+1)
	case k < 6:
		multi := wire.Request{Header: wire.Header{Op: wire.OpMulti}}
		for range 1 + r.IntN(3) {
			multi.Ops = append(multi.Ops, r.request(false))
		}
		r.took(r.do(r.clients[r.IntN(len(r.clients))], multi))
	default:
		r.took(r.do(r.clients[r.IntN(len(r.clients))], r.request(true)))
	}
}

func (r *recorder) request(alone bool) wire.Request {
	path := "/" + string(rune('a'+r.IntN(4)))
	if r.IntN(3) > 0 {
		path += "/" + string(rune('a'+r.IntN(3)))
	}
	of := func(op wire.Op) wire.Request {
		return wire.Request{Header: wire.Header{Op: op}, Path: path, Version: -1, ACL: world}
	}
	switch k := r.IntN(10); {
	case k < 4:
		create := of(wire.OpCreate)
		create.Flags = int32(r.IntN(4))
		if r.IntN(4) > 0 {
			create.Data = make([]byte, r.IntN(3))
		}
		if r.IntN(4) == 0 {
			create.ACL = []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "auth"}}}
		}
		return create
	case k < 6:
		return of(wire.OpDelete)
	case k < 8 || !alone:
		set := of(wire.OpSetData)
		set.Data = fmt.Appendf(nil, "%d", r.IntN(100))
		return set
	case k == 8:
		acl := of(wire.OpSetACL)
		acl.ACL = []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "auth"}}, {Perms: wire.PermRead, ID: wire.ID{Scheme: "world", ID: "anyone"}}}
		return acl
	}
	return of(wire.OpCheck)
}

// TestLoadRefuses: nodes that a ZooKeeper deletes by itself would stay here for ever.
func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	from := pictureOf(tree.New(epoch, time.Second))
	for _, owner := range []int64{-1 << 63, -1<<56 | 5} {
		nodes := append(slices.Clone(from.nodes), txnlog.Node{Path: "/a", Owner: owner})
		if _, err := tree.Load(epoch, time.Second, 0, from.image, nodes); err == nil {
			t.Errorf("owner %#x is loaded", owner)
		}
	}
	s := tree.New(epoch, time.Second)
	if err := s.Replay(&txnlog.Txn{Zxid: 1, Kind: txnlog.Write, Ops: []txnlog.Op{{Type: txnlog.Create, Path: "/a", Vanishes: true}}}); err == nil {
		t.Error("a container is replayed")
	}
}
