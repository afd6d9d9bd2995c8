package zkdev_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

const session = 4 * time.Second

func TestMain(m *testing.M) {
	code := m.Run()
	if leaked := leakedGoroutines(); code == 0 && leaked != "" {
		fmt.Fprintln(os.Stderr, "goroutines of this package still run:", leaked)
		code = 1
	}
	os.Exit(code)
}

// leakedGoroutines describes the goroutines that still run code of this package after its tests, or
// "".
func leakedGoroutines() string {
	var all strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&all, 2)
	var leaked []string
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, "singleworker/zkdev.") {
			leaked = append(leaked, stack)
		}
	}
	return strings.Join(leaked, "\n\n")
}

// bubble runs a test in virtual time, with a server that has no socket.
func bubble(t *testing.T, test func(t *virtual)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		test(&virtual{T: t, server: zkdev.Start(t, zkdev.Config{NoListen: true})})
	})
}

// A virtual is a test in a bubble.
type virtual struct {
	*testing.T

	server *zkdev.Server
}

// silent is a logger for clients whose server fails on purpose.
type silent struct{}

func (silent) Printf(string, ...any) {}

// A dialer is a Server or a Client.
type dialer interface {
	DialTimeout(network, addr string, timeout time.Duration) (net.Conn, error)
}

// connect opens an in-process session and waits for it. Its events arrive on the channel.
func connect(tb testing.TB, d dialer) (*zk.Conn, <-chan zk.Event) {
	tb.Helper()
	events := make(chan zk.Event, 1000) // more than a test can cause, so that no event is dropped
	conn, _, err := zk.Connect([]string{"127.0.0.1:1"}, session, zk.WithLogger(silent{}), zk.WithDialer(d.DialTimeout),
		zk.WithEventCallback(func(event zk.Event) { events <- event }))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conn.Close)
	await(tb, events, zk.StateHasSession)
	return conn, events
}

// await reads session events up to a state.
func await(tb testing.TB, events <-chan zk.Event, want zk.State) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	for {
		select {
		case event := <-events:
			if event.Type == zk.EventSession && event.State == want {
				return
			}
		case <-ctx.Done():
			tb.Fatalf("waited in vain for %v", want)
		}
	}
}

func create(tb testing.TB, conn *zk.Conn, path string, flags int32) string {
	tb.Helper()
	created, err := conn.Create(path, []byte("x"), flags, zk.WorldACL(zk.PermAll))
	if err != nil {
		tb.Fatalf("create %s: %v", path, err)
	}
	return created
}

func exists(tb testing.TB, conn *zk.Conn, path string) bool {
	tb.Helper()
	found, _, err := conn.Exists(path)
	if err != nil {
		tb.Fatalf("exists %s: %v", path, err)
	}
	return found
}

// TestVirtualHour is an hour of pings in virtual time, none of them late.
func TestVirtualHour(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		conn, _ := connect(t, server)
		create(t, conn, "/here", zk.FlagEphemeral)
		pings := 0
		server.ControlKeep(zkdev.OpPing, func(*zkdev.Request) zkdev.Action {
			pings++
			return zkdev.Pass()
		})
		time.Sleep(time.Hour)
		if !exists(t, conn, "/here") {
			t.Error("the session has ended")
		}
		if pings < 2000 {
			t.Errorf("%d pings in an hour", pings)
		}
	})
}

func TestClientOverTCP(t *testing.T) {
	t.Parallel()
	server := zkdev.Start(t, zkdev.Config{})
	events := make(chan zk.Event, 100)
	conn, _, err := zk.Connect([]string{server.Addr()}, session, zk.WithLogger(silent{}),
		zk.WithEventCallback(func(event zk.Event) { events <- event }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	await(t, events, zk.StateHasSession)
	useEverything(t, conn, "/tcp")

	lock := zk.NewLock(conn, "/locks", zk.WorldACL(zk.PermAll))
	if err := errors.Join(lock.Lock(), lock.Unlock()); err != nil {
		t.Error(err)
	}
	if stats, ok := zk.FLWSrvr([]string{server.Addr()}, time.Second); !ok || stats[0].Mode != zk.ModeStandalone {
		t.Errorf("srvr: %v %+v", ok, stats[0])
	}
	if oks := zk.FLWRuok([]string{server.Addr()}, time.Second); !oks[0] {
		t.Error("ruok: no")
	}
}

// useEverything calls each operation of the client once, below a path that does not exist yet.
func useEverything(tb testing.TB, conn *zk.Conn, root string) {
	tb.Helper()
	create(tb, conn, root, 0)
	if err := conn.AddAuth("digest", []byte("me:secret")); err != nil {
		tb.Errorf("auth: %v", err)
	}
	_, _, children, err := conn.ChildrenW(root)
	if err != nil {
		tb.Fatal(err)
	}
	first := create(tb, conn, root+"/n-", zk.FlagSequence|zk.FlagEphemeral)
	if event := <-children; event.Type != zk.EventNodeChildrenChanged || event.Path != root {
		tb.Errorf("event %+v", event)
	}
	if names, stat, err := conn.Children(root); err != nil || !slices.Equal(names, []string{"n-0000000000"}) || stat.NumChildren != 1 {
		tb.Errorf("children: %v %+v %v", names, stat, err)
	}
	_, _, changed, err := conn.GetW(first)
	if err != nil {
		tb.Fatal(err)
	}
	if stat, err := conn.Set(first, []byte("longer"), 0); err != nil || stat.Version != 1 || stat.DataLength != 6 {
		tb.Errorf("set: %+v %v", stat, err)
	}
	if event := <-changed; event.Type != zk.EventNodeDataChanged {
		tb.Errorf("event %+v", event)
	}
	_, err = conn.Multi(
		&zk.CheckVersionRequest{Path: first, Version: 1},
		&zk.CreateRequest{Path: root + "/m", Acl: zk.AuthACL(zk.PermAll)},
		&zk.SetDataRequest{Path: root, Data: nil, Version: -1},
		&zk.DeleteRequest{Path: first, Version: 1},
	)
	if err != nil {
		tb.Errorf("multi: %v", err)
	}
	if acl, _, err := conn.GetACL(root + "/m"); err != nil || acl[0].Scheme != "digest" {
		tb.Errorf("ACL: %v %v", acl, err)
	}
	if _, err := conn.SetACL(root+"/m", zk.WorldACL(zk.PermAll), 0); err != nil {
		tb.Errorf("set ACL: %v", err)
	}
	if path, err := conn.Sync(root); err != nil || path != root {
		tb.Errorf("sync: %q %v", path, err)
	}
	if _, err := conn.CreateContainer(root+"/c", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll)); err == nil {
		tb.Error("a container is created")
	}
	if err := errors.Join(conn.Delete(root+"/m", 0), conn.Delete(root, -1)); err != nil {
		tb.Errorf("delete: %v", err)
	}
}

func TestSessionExpires(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		dying := server.Client("dying")
		conn, events := connect(t, dying)
		create(t, conn, "/mine", zk.FlagEphemeral)
		observer, _ := connect(t, server)
		_, _, gone, err := observer.ExistsW("/mine")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		begin := time.Now()
		dying.Partition()
		if event := <-gone; event.Type != zk.EventNodeDeleted {
			t.Errorf("event %+v", event)
		}
		// At the first tick after the timeout, counted from the last ping.
		if after := time.Since(begin); after < session/2 || after > session+time.Second {
			t.Errorf("expired after %v", after)
		}
		time.Sleep(time.Minute)
		dying.Heal()
		await(t, events, zk.StateExpired)
		await(t, events, zk.StateHasSession)
		create(t, conn, "/mine", zk.FlagEphemeral)
	})
}

func TestExpireSession(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		conn, events := connect(t, server)
		create(t, conn, "/mine", zk.FlagEphemeral)
		if err := server.ExpireSession(conn.SessionID()); err != nil {
			t.Error(err)
		}
		await(t, events, zk.StateExpired)
		await(t, events, zk.StateHasSession)
		if exists(t, conn, "/mine") {
			t.Error("the ephemeral node is left")
		}
		if err := server.ExpireSession(4711); !errors.Is(err, zkdev.ErrNoSession) {
			t.Errorf("expire no session: %v", err)
		}
	})
}

func TestDisconnectKeepsSessionAndWatches(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		conn, events := connect(t, server)
		id := conn.SessionID()
		create(t, conn, "/a", zk.FlagEphemeral)
		_, _, changed, err := conn.GetW("/a")
		if err != nil {
			t.Fatal(err)
		}
		other, _ := connect(t, server)
		server.Disconnect(id)
		if _, err := other.Set("/a", nil, -1); err != nil { // while the client is away
			t.Fatal(err)
		}
		await(t, events, zk.StateDisconnected)
		await(t, events, zk.StateHasSession)
		if conn.SessionID() != id {
			t.Error("another session")
		}
		if event := <-changed; event.Type != zk.EventNodeDataChanged {
			t.Errorf("event %+v", event)
		}
	})
}

// TestEventBeforeReply: a client receives the event of a change before a reply that shows it.
func TestEventBeforeReply(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		conn, _ := connect(t, server)
		create(t, conn, "/a", 0)
		for range 200 {
			_, _, changed, err := conn.GetW("/a")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Set("/a", nil, -1); err != nil {
				t.Fatal(err)
			}
			select {
			case <-changed:
			default:
				t.Fatal("the reply is there before the event")
			}
		}
	})
}

func TestLog(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		conn, _ := connect(t, server)
		create(t, conn, "/a", zk.FlagEphemeral)
		_, _ = conn.Multi(&zk.SetDataRequest{Path: "/a", Data: []byte("y"), Version: 0}, &zk.CreateRequest{Path: "/b", Acl: zk.WorldACL(zk.PermAll)})
		_, _ = conn.Set("/a", nil, 0)
		_ = server.ExpireSession(conn.SessionID())
		var lines []string
		for _, txn := range server.Log() {
			lines = append(lines, fmt.Sprintf("%d %v %s %q v%d %v expired=%v", txn.Zxid, txn.Op, txn.Path, txn.Data, txn.Version, txn.Code, txn.Expired))
		}
		want := []string{
			`1 connect  "" v0 ok expired=false`,
			`2 create /a "x" v0 ok expired=false`,
			`3 setData /a "y" v1 ok expired=false`,
			`3 create /b "" v0 ok expired=false`,
			`4 setData /a "" v0 bad version expired=false`,
			`5 closeSession  "" v0 ok expired=true`,
			`5 delete /a "" v0 ok expired=true`,
		}
		if !slices.Equal(lines, want) {
			t.Errorf("log:\n%s", strings.Join(lines, "\n"))
		}
	})
}

// TestKeepLog: the log has as many transactions as configured.
func TestKeepLog(t *testing.T) {
	t.Parallel()
	for keep, want := range map[int]int{-1: 0, 1: 1, 3: 3, math.MaxInt: 10} {
		synctest.Test(t, func(t *testing.T) {
			server := zkdev.Start(t, zkdev.Config{NoListen: true, KeepLog: keep})
			for range 10 {
				if _, err := io.ReadFull(dial(t, server, hello(0, 4000, 0)), make([]byte, 40)); err != nil {
					t.Fatal(err)
				}
			}
			if log := server.Log(); len(log) != want || want > 0 && log[want-1].Zxid != 10 {
				t.Errorf("of 10 transactions, KeepLog %d keeps %v", keep, log)
			}
		})
	}
}

func TestDumpAndSessions(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		conn, _ := connect(t, server.Client("one"))
		create(t, conn, "/a", zk.FlagEphemeral)
		var dump strings.Builder
		if err := server.Dump(&dump); err != nil || !strings.Contains(dump.String(), `/a v0 c0 mzxid=0x2 owner=`) {
			t.Errorf("dump: %v\n%s", err, &dump)
		}
		list := server.Sessions()
		if len(list) != 1 || list[0].ID != conn.SessionID() || list[0].Client != "one" || !list[0].Connected ||
			list[0].Timeout != session || !slices.Equal(list[0].Ephemerals, []string{"/a"}) {
			t.Errorf("sessions: %+v", list)
		}
		server.Stop()
		if list := server.Sessions(); len(list) != 1 || list[0].Connected {
			t.Errorf("sessions of a stopped server: %+v", list)
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for field, config := range map[string]zkdev.Config{
		"Listen":     {Listen: "0.0.0.0:2181"},
		"Tick":       {Tick: time.Microsecond},
		"MinSession": {MinSession: -1},
		"MaxSession": {MinSession: time.Minute, MaxSession: time.Second},
		"KeepLog":    {KeepLog: -2},
	} {
		_, err := zkdev.New(config)
		if bad := (*invalid.FieldError)(nil); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%+v: %v, want an error about %s", config, err, field)
		}
	}
	for _, listen := range []string{"", "[::1]:0", "localhost:2181"} {
		if _, err := zkdev.New(zkdev.Config{Listen: listen}); err != nil {
			t.Errorf("listen on %q: %v", listen, err)
		}
	}
}

// TestWordsWarnAboutProduction: every four-letter word that describes the server carries the
// notice.
func TestWordsWarnAboutProduction(t *testing.T) {
	t.Parallel()
	server := zkdev.Start(t, zkdev.Config{})
	for _, word := range []string{"srvr", "mntr", "stat", "conf", "envi"} {
		conn, err := server.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, word)
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(answer), "never for production") {
			t.Errorf("%s: %q, %v", word, answer, err)
		}
		_ = conn.Close()
	}
}

// A transaction is one request, whatever is in it; a request that is refused counts, too.
func TestTraffic(t *testing.T) {
	bubble(t, func(t *virtual) {
		conn, _ := connect(t, t.server)
		if _, err := conn.Multi(
			&zk.CreateRequest{Path: "/a", Acl: zk.WorldACL(zk.PermAll)},
			&zk.CreateRequest{Path: "/b", Acl: zk.WorldACL(zk.PermAll)},
			&zk.SetDataRequest{Path: "/a", Version: -1},
		); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/a", "/missing"} {
			_, _, _ = conn.Get(path)
		}
		got := t.server.Traffic()
		delete(got.Requests, zkdev.OpPing)
		want := zkdev.Traffic{
			Requests: map[zkdev.Op]int{zkdev.OpConnect: 1, zkdev.OpMulti: 1, zkdev.OpGetData: 2},
			Parts:    map[zkdev.Op]int{zkdev.OpCreate: 2, zkdev.OpSetData: 1},
		}
		if !maps.Equal(got.Requests, want.Requests) || !maps.Equal(got.Parts, want.Parts) {
			t.Errorf("traffic %v, want %v", got, want)
		}
	})
}
