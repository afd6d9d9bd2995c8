package durable_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/zkdev/durable"
)

// silent is a logger for clients whose server ends.
type silent struct{}

func (silent) Printf(string, ...any) {}

const session = 20 * time.Second // longer than a restart on a busy machine

func serve(t *testing.T, dir, listen string) *durable.Server {
	t.Helper()
	s, err := durable.Open(durable.Config{Dir: dir, Listen: listen})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func connect(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{addr}, session, zk.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			return conn
		}
	}
	t.Fatal("no session")
	return nil
}

// TestRestart: after a restart there are all nodes, with their stats and access control lists, and
// the sessions with their ephemeral nodes. Transaction numbers go on.
func TestRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := serve(t, dir, "127.0.0.1:0")
	conn := connect(t, first.Addr())
	if err := conn.AddAuth("digest", []byte("u:p")); err != nil {
		t.Fatal(err)
	}
	for _, n := range []struct {
		path  string
		flags int32
		acl   []zk.ACL
	}{{"/a", 0, zk.WorldACL(zk.PermAll)}, {"/a/e", zk.FlagEphemeral, zk.WorldACL(zk.PermAll)}, {"/a/s", 0, zk.DigestACL(zk.PermAll, "u", "p")}} {
		if _, err := conn.Create(n.path, []byte(n.path), n.flags, n.acl); err != nil {
			t.Fatal(err)
		}
	}
	written, err := conn.Set("/a", []byte("new"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "version-2", "tmp-snapshot.9"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	second := serve(t, dir, first.Addr())
	defer second.Close()
	if _, err := durable.Open(durable.Config{Dir: dir, Listen: "127.0.0.1:0"}); !errors.Is(err, durable.ErrInUse) {
		t.Errorf("a second server on the directory: %v, want ErrInUse", err)
	}
	before := conn.SessionID()
	data, stat, err := conn.Get("/a") // by the same session, as soon as it is connected
	for errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer) {
		data, stat, err = conn.Get("/a")
	}
	if err != nil || string(data) != "new" || *stat != *written || conn.SessionID() != before {
		t.Fatalf("%q %+v, %v, session %#x, want %+v and %#x", data, stat, err, conn.SessionID(), written, before)
	}
	_, ephemeral, err := conn.Get("/a/e")
	if err != nil || ephemeral.EphemeralOwner != before {
		t.Errorf("the ephemeral node: %+v, %v", ephemeral, err)
	}
	other := connect(t, second.Addr())
	if _, _, err := other.Get("/a/s"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("another client reads: %v, want ErrNoAuth", err)
	}
	later, err := other.Set("/a", nil, -1)
	if err != nil || later.Mzxid <= written.Mzxid {
		t.Errorf("%+v, %v, want a later transaction than %d", later, err, written.Mzxid)
	}
	conn.Close()
	if there, _, err := other.Exists("/a/e"); there || err != nil {
		t.Errorf("the ephemeral node outlives its session: %v", err)
	}
}

// TestOpenRefuses: a directory that it cannot serve, or not alone, is left as it is.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, c := range map[string]struct {
		files  map[string]string
		listen string
		want   error
	}{
		"logs without a snapshot": {map[string]string{"log.1": "ZKLG"}, "127.0.0.1:0", durable.ErrDamaged},
		"a compressed snapshot":   {map[string]string{"snapshot.0.gz": ""}, "127.0.0.1:0", durable.ErrCompressed},
		"a port that is taken":    {nil, taken.Addr().String(), errAny},
		"no epoch":                {map[string]string{"currentEpoch": "one"}, "127.0.0.1:0", errAny},
	} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "version-2"), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, content := range c.files {
			if err := os.WriteFile(filepath.Join(dir, "version-2", name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // the first one has left no lock
			_, err := durable.Open(durable.Config{Dir: dir, Listen: c.listen})
			if err == nil || c.want != errAny && !errors.Is(err, c.want) { //nolint:errorlint // a mark
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		for name, content := range c.files {
			if data, err := os.ReadFile(filepath.Join(dir, "version-2", name)); err != nil || string(data) != content {
				t.Errorf("%s: the file is %q, %v", name, data, err)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := durable.Open(durable.Config{Dir: file}); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file in the place of the directory: %v", err)
	}
}

var errAny = errors.New("any error")

// TestEpochs: in the directory of a member of an ensemble, transactions belong to a new epoch.
func TestEpochs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := serve(t, dir, "127.0.0.1:0").Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"acceptedEpoch", "currentEpoch"} {
		if err := os.WriteFile(filepath.Join(dir, "version-2", name), []byte("4\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, epoch := range []int64{5, 6} {
		s := serve(t, dir, "127.0.0.1:0")
		conn := connect(t, s.Addr())
		_, err := conn.Create("/a", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		_, stat, getErr := conn.Get("/a")
		if err := errors.Join(err, getErr); err != nil || stat.Czxid != epoch<<32+2 {
			t.Fatalf("%+v, %v, want epoch %d", stat, err, epoch)
		}
		conn.Close()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"acceptedEpoch", "currentEpoch"} {
			if text, err := os.ReadFile(filepath.Join(dir, "version-2", name)); err != nil || strings.TrimSpace(string(text)) != string(rune('0'+epoch)) {
				t.Errorf("%s is %q, %v", name, text, err)
			}
		}
	}
}
