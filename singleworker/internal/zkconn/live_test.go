package zkconn

import (
	"cmp"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// liveServer is set by package integration, which runs TestReadManyLive on a real ZooKeeper.
var liveServer = flag.String("zk", "", "address of the ZooKeeper for TestReadManyLive; by default, zkdev on a TCP port")

// live is a Conn to a server on a TCP port, in a separate chroot.
type live struct {
	*Conn
	t      *testing.T
	hand   *Conn // another client
	events chan Event
	raw    atomic.Pointer[net.Conn] // the latest connection
	bulks  atomic.Int32             // bulk requests sent
}

// tallied is a connection that counts bulk requests.
type tallied struct {
	net.Conn
	bulks *atomic.Int32
}

func (c tallied) Write(p []byte) (int, error) {
	for rest := p; len(rest) >= lengthBytes+8; {
		if op := binary.BigEndian.Uint32(rest[lengthBytes+4:]); op == opMultiRead || op == opSetWatches {
			c.bulks.Add(1)
		}
		rest = rest[min(len(rest), lengthBytes+int(binary.BigEndian.Uint32(rest))):]
	}
	return c.Conn.Write(p)
}

func openLive(t *testing.T) *live {
	t.Helper()
	addr := *liveServer
	if addr == "" {
		addr = zkdev.Start(t, zkdev.Config{}).Addr()
	}
	l := &live{t: t, events: make(chan Event, 10_000)}
	cfg := Config{Servers: addr + "/" + uuid.NewString(), SessionTimeout: granted, Logger: discard}
	var err error
	if l.hand, err = Open(cfg, func(Event) {}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.hand.Close)
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := new(net.Dialer).DialContext(ctx, network, address)
		l.raw.Store(&raw)
		return tallied{raw, &l.bulks}, err
	}
	if l.Conn, err = Open(cfg, func(ev Event) { l.events <- ev }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	if err := l.EnsureRoot(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	return l
}

// change changes nodes by the other client.
func (l *live) change(ops ...Op) {
	l.t.Helper()
	if _, err := l.hand.Multi(l.t.Context(), ops...); err != nil {
		l.t.Fatal(err)
	}
}

// changed returns the nodes whose changes were reported since the last call.
func (l *live) changed() (paths []string) {
	l.t.Helper()
	const last = "/last"
	if err := l.ReadMany(l.t.Context(), []Read{data(last)})[0].Err; err != nil {
		l.t.Fatal(err)
	}
	l.change(SetOp(last, nil, AnyVersion)) // its event comes after those of what has changed before
	for ev := range l.events {
		switch {
		case ev.Kind != NodeChanged:
		case ev.Path == last:
			slices.Sort(paths)
			return paths
		default:
			paths = append(paths, ev.Path)
		}
	}
	return nil
}

// reconnect breaks the connection and waits for the next.
func (l *live) reconnect() {
	l.t.Helper()
	_ = (*l.raw.Load()).Close()
	for ev := range l.events {
		if ev.Kind == Connected {
			return
		}
	}
}

// Bulk requests work on a live server as on zkdev: there are few, each watch reports one change,
// and watches that ended with the connection are set again.
func TestReadManyLive(t *testing.T) {
	t.Parallel()
	l := openLive(t)
	const n = 1000
	var create, set []Op
	var reads []Read
	var paths []string
	for i := range n {
		path := fmt.Sprintf("/node-%04d", i)
		create, set = append(create, CreateOp(path, []byte(path))), append(set, SetOp(path, []byte("new"), AnyVersion))
		reads, paths = append(reads, data(path)), append(paths, path)
	}
	l.change(create...)
	l.change(CreateOp("/denied", nil), CreateOp("/list", nil), CreateOp("/list/x", nil), CreateOp("/last", nil))
	acl := zk.DigestACL(zk.PermAll, "somebody", "else")
	if _, err := l.hand.session.Load().zk.SetACL(l.hand.chroot+"/denied", acl, AnyVersion); err != nil {
		t.Fatal(err)
	}
	reads = append(reads, data("/none"), data("/denied"), children("/list"), children("/node-0000"), data("/list"))
	read := func(what string, version int32) {
		t.Helper()
		results := l.ReadMany(t.Context(), reads)
		for i, r := range results[:n] {
			if want := cmp.Or(what, paths[i]); string(r.Data) != want || r.Err != nil || r.Stat.Version != version {
				t.Fatalf("%s: %q, version %d, %v; want %q, version %d", paths[i], r.Data, r.Stat.Version, r.Err, want, version)
			}
		}
		wantResults(t, results[n:], "zookeeper get /none: no such node; "+
			"zookeeper get /denied: access denied by the node's ACL; [x]; []; "+fmt.Sprintf(" v%d", version))
	}
	change := func() {
		t.Helper()
		for range 2 {
			l.change(set...)
			l.change(SetOp("/list", nil, AnyVersion), CreateOp("/list/y", nil), DeleteOp("/list/y", AnyVersion), CreateOp("/none", nil))
			l.change(DeleteOp("/none", AnyVersion))
		}
		if got, want := l.changed(), append([]string{"/list", "/list"}, paths...); !slices.Equal(got, want) {
			t.Errorf("%d changes were reported, want %d, each once", len(got), len(want))
		}
	}

	read("", 0)
	if sent := l.bulks.Load(); sent > 10 {
		t.Errorf("%d requests for %d readings, want at most 10", sent, len(reads))
	}
	change()
	read("new", 2)
	l.reconnect()
	l.change(SetOp("/last", nil, AnyVersion))
	read("new", 2)
	change()
}
