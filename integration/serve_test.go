package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/integration/zkserver"
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/zkdev/durable"
)

// longSession outlives a start of a server.
const longSession = 30 * time.Second

// A znode is a node as a client sees it.
type znode struct {
	data []byte
	stat zk.Stat
	acl  []zk.ACL
}

func join(tb testing.TB, addr string) *zk.Conn {
	tb.Helper()
	return joinUnless(tb, addr, new(atomic.Bool))
}

// joinUnless is join, with a client that does not dial while it is held. A ZooKeeper that starts
// takes connections before it answers them, and never answers those.
func joinUnless(tb testing.TB, addr string, held *atomic.Bool) *zk.Conn {
	tb.Helper()
	dial := zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
		if held.Load() {
			return nil, errors.New("held")
		}
		return (&net.Dialer{Timeout: timeout}).DialContext(tb.Context(), network, address)
	})
	conn, events, err := zk.Connect(strings.Split(addr, ","), longSession, zk.WithLogInfo(false), dial)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conn.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	if err := conn.AddAuth("digest", []byte("u:p")); err != nil {
		tb.Fatal(err)
	}
	return conn
}

// walk reads all nodes below a path.
func walk(t *testing.T, conn *zk.Conn, path string, into map[string]znode) {
	t.Helper()
	data, stat, err := conn.Get(path)
	for err != nil && conn.State() != zk.StateHasSession { // it is about to connect again
		data, stat, err = conn.Get(path)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	acl, _, err := conn.GetACL(path)
	if err != nil {
		t.Fatalf("the ACL of %s: %v", path, err)
	}
	into[path] = znode{data, *stat, acl}
	children, _, err := conn.Children(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range children {
		walk(t, conn, strings.TrimSuffix(path, "/")+"/"+child, into)
	}
}

func tree(t *testing.T, conn *zk.Conn) map[string]znode {
	t.Helper()
	nodes := map[string]znode{}
	walk(t, conn, "/", nodes)
	return nodes
}

// fill writes nodes of all kinds.
func fill(t *testing.T, conn *zk.Conn, under string) {
	t.Helper()
	must := func(_ any, err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	open := zk.WorldACL(zk.PermAll)
	must(conn.Create(under, []byte("root"), 0, open))
	must(conn.Create(under+"/null", nil, 0, open))
	must(conn.Create(under+"/empty", []byte{}, 0, zk.DigestACL(zk.PermAll, "u", "p")))
	must(conn.Create(under+"/ephemeral", []byte("e"), zk.FlagEphemeral, open))
	must(conn.Create(under+"/gone", nil, 0, open))
	for range 3 {
		must(conn.Create(under+"/seq-", nil, zk.FlagSequence, zk.AuthACL(zk.PermAll)))
		must(conn.Set(under, []byte("again"), -1))
	}
	must(nil, conn.Delete(under+"/gone", -1))
	must(conn.SetACL(under+"/null", slices.Concat(zk.WorldACL(zk.PermRead), zk.DigestACL(zk.PermAll, "u", "p")), -1))
	must(conn.Multi(
		&zk.CheckVersionRequest{Path: under, Version: 3},
		&zk.SetDataRequest{Path: under + "/null", Data: []byte("multi"), Version: -1},
		&zk.CreateRequest{Path: under + "/multi", Acl: open, Flags: zk.FlagEphemeral},
		&zk.DeleteRequest{Path: under + "/empty", Version: 0},
	))
	if _, err := conn.Create(under, nil, 0, open); err == nil {
		t.Fatal("a node was created twice")
	}
}

// agree compares two trees, node by node.
func agree(t *testing.T, what string, got, want map[string]znode) {
	t.Helper()
	for path, w := range want {
		if g, ok := got[path]; !ok || !reflect.DeepEqual(g, w) {
			t.Errorf("%s: %s is %+v, want %+v", what, path, g, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d nodes, want %d", what, len(got), len(want))
	}
}

// TestServeAndZooKeeper takes one directory from the server of swctl serve to a ZooKeeper and back,
// and once more. Each finds the nodes of the other with their stats, access control lists and
// owners, the session goes on with its ephemeral nodes, and zxids are never used again. ZooKeeper
// warns of no digest.
func TestServeAndZooKeeper(t *testing.T) {
	t.Parallel()
	apache := zkserver.Start(t)
	addr, dir := apache.Addr(), filepath.Dir(apache.LogDir())
	var held atomic.Bool
	owner := joinUnless(t, addr, &held)
	session := owner.SessionID()
	fill(t, owner, "/by-zookeeper-0")
	nodes := tree(t, owner)
	for round := range 2 {
		if apache.Stop(); round == 1 {
			apache.Kill()
		}
		ours, err := durable.Open(durable.Config{Dir: dir, Listen: addr})
		if err != nil {
			t.Fatal(err)
		}
		agree(t, "ZooKeeper's nodes", tree(t, owner), nodes)
		fill(t, owner, fmt.Sprintf("/by-serve-%d", round))
		leaver := join(t, addr)
		if _, err := leaver.Create(fmt.Sprintf("/left-%d", round), nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		leaver.Close()
		nodes = tree(t, owner)
		held.Store(true)
		if err := ours.Close(); err != nil {
			t.Fatal(err)
		}

		apache.Restart()
		held.Store(false)
		agree(t, "the nodes of serve", tree(t, owner), nodes)
		fill(t, owner, fmt.Sprintf("/by-zookeeper-%d", round+1))
		nodes = tree(t, owner)
	}
	if owner.SessionID() != session {
		t.Errorf("session %#x, want %#x", owner.SessionID(), session)
	}
	if zxids := zxidsOf(nodes); len(slices.Compact(zxids)) != len(zxids) || len(zxids) < 20 {
		t.Errorf("zxids of creations: %x", zxids)
	}
	apache.Stop()
	log, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte("igest")) && (bytes.Contains(line, []byte("mismatch")) || bytes.Contains(line, []byte("not matching"))) {
			t.Errorf("ZooKeeper says: %s", line)
		}
	}
}

// zxidsOf lists the zxids of creations, of a multi once.
func zxidsOf(nodes map[string]znode) (zxids []int64) {
	for path, n := range nodes {
		if n.stat.Czxid != 0 && !strings.HasSuffix(path, "/multi") {
			zxids = append(zxids, n.stat.Czxid)
		}
	}
	slices.Sort(zxids)
	return zxids
}

// startServe starts swctl serve, and returns where it serves and how to end it.
func startServe(tb testing.TB, program, dir, listen string) (addr string, end func(os.Signal) error) {
	tb.Helper()
	cmd := exec.CommandContext(context.Background(), program, "serve", "--data", dir, "--listen", listen, "-o", "json")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	var served struct{ ZK string }
	if err := json.NewDecoder(out).Decode(&served); err != nil {
		_ = cmd.Wait()
		tb.Fatalf("swctl serve: %v: %s", err, errs.String())
	}
	return served.ZK, func(sig os.Signal) error {
		if err := cmd.Process.Signal(sig); err != nil {
			return err
		}
		return cmd.Wait()
	}
}

// TestServeKilled kills swctl serve while an instance runs a job each second, and starts it again.
// The instance keeps its session, and the job its ticks. swctl audit proves by the server's files
// that each was claimed once, while it runs and afterwards.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	dir, program := t.TempDir(), buildSwctl(t)
	addr, end := startServe(t, program, dir, "127.0.0.1:0")
	m, err := singleworker.New(singleworker.Config{Servers: addr, ServerType: "billing", SessionTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan time.Time, 1000)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(m.Handle("report", func(context.Context, *singleworker.Run) error { ran <- time.Now(); return nil }))
	must(m.Schedule(singleworker.Job{Name: "report", Schedule: "* * * * * ?"}))
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- m.Run(ctx) }()

	audit := func() string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, "audit", "--txnlog", dir, "--server-type", "billing")
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("PASS")) {
			t.Errorf("swctl audit: %v: %s", err, out)
		}
		return string(out)
	}
	for range 3 {
		<-ran
		<-ran
		if err := end(syscall.SIGKILL); err == nil {
			t.Error("a killed process has ended well")
		}
		killed := time.Now()
		addr, end = startServe(t, program, dir, addr)
		for at := range ran {
			if at.After(killed) {
				t.Logf("from the kill to the next run: %v", at.Sub(killed))
				break
			}
		}
		audit()
	}
	stop()
	must(<-stopped)
	if err := end(syscall.SIGTERM); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	t.Log(audit())
}

// TestServeAndEnsemble exports the directory of swctl serve to the servers of an ensemble, and
// takes the directory of its leader back. No node is lost, and both ways transactions belong to a
// new epoch. So it is with a directory that was restored from a backup.
func TestServeAndEnsemble(t *testing.T) {
	t.Parallel()
	for name, restored := range map[string]bool{"as it is": false, "restored": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testServeAndEnsemble(t, restored)
		})
	}
}

func testServeAndEnsemble(t *testing.T, restored bool) {
	t.Helper()
	dir := t.TempDir()
	ours, err := durable.Open(durable.Config{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	conn := join(t, ours.Addr())
	fill(t, conn, "/by-serve")
	nodes := ofClients(t, conn)
	if err := ours.Close(); err != nil {
		t.Fatal(err)
	}
	above := int64(0)
	if restored {
		conn.Close()
		dir, above, nodes = renew(t, dir, nodes)
	}

	e := zkserver.StartEnsemble(t, 3)
	to, hosts := filepath.Join(t.TempDir(), "members"), []string{"zk1", "zk2", "zk3"}
	if err := durable.Export(dir, to, hosts); err != nil {
		t.Fatal(err)
	}
	for i, s := range e.Servers() {
		s.Replace(filepath.Join(to, hosts[i]))
	}
	for _, s := range e.Servers() {
		s.Begin()
	}
	e.Await()
	there := join(t, e.Addr())
	agree(t, "the nodes in the ensemble", ofClients(t, there), nodes)
	fill(t, there, "/by-ensemble")
	nodes = ofClients(t, there)
	last := e.Leader(t.Context())
	if last < 0 {
		t.Fatal("no leader")
	}
	for _, s := range e.Servers() {
		s.Kill()
	}

	back, err := durable.Open(durable.Config{Dir: filepath.Dir(e.Servers()[last].LogDir()), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	again := join(t, back.Addr())
	agree(t, "the nodes of the ensemble", ofClients(t, again), nodes)
	if _, err := again.Create("/last", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	epoch := func(path string) int64 { return tree(t, again)[path].stat.Czxid >> 32 }
	if a, b, c := epoch("/by-serve"), epoch("/by-ensemble"), epoch("/last"); a != 0 || b <= max(a, above>>32) || c <= b {
		t.Errorf("epochs %d, %d, %d, want each to be later than the one before, from the second on above %#x", a, b, c, above)
	}
	if _, higher, _ := renew(t, filepath.Dir(e.Servers()[last].LogDir()), nodes); higher <= above || higher>>32 <= epoch("/last") {
		t.Errorf("a member's directory is restored above %#x", higher)
	}
}

// renew restores a directory of which nothing else is left, and returns the nodes that are there
// then, which must be those that there were, but for the nodes of sessions.
func renew(t *testing.T, dir string, were map[string]znode) (to string, above int64, nodes map[string]znode) {
	t.Helper()
	to = filepath.Join(t.TempDir(), "restored")
	done, err := durable.Restore(dir, to, []string{dir}, 0)
	if err != nil {
		t.Fatal(err)
	}
	server, err := durable.Open(durable.Config{Dir: to, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	conn := join(t, server.Addr())
	nodes = ofClients(t, conn)
	conn.Close()
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	for path, n := range were {
		if now, there := nodes[path]; there != (n.stat.EphemeralOwner == 0) || there && (string(now.data) != string(n.data) || now.stat.Czxid != n.stat.Czxid || now.stat.Version != n.stat.Version) {
			t.Errorf("restored: %s is %+v, was %+v", path, now, n)
		}
	}
	return to, done.Above, nodes
}

// ofClients reads all nodes but the one in which an ensemble has the addresses of its members.
func ofClients(t *testing.T, conn *zk.Conn) map[string]znode {
	t.Helper()
	nodes := tree(t, conn)
	delete(nodes, "/zookeeper/config")
	return nodes
}
