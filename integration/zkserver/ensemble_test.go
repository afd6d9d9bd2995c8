package zkserver_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/integration/zkserver"
)

// An ensemble of three survives the death of its leader, serves nobody while two are gone, and has
// all data when they are back.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := zkserver.StartEnsemble(t, 3)
	conn, _ := connect(t, e.Addr(), longSession)
	mustCreate(t, conn, "/first", 0)

	leader := e.Leader(t.Context())
	if leader < 0 {
		t.Fatal("no leader")
	}
	e.Servers()[leader].Kill()
	if e.Whole(t.Context()) {
		t.Error("all servers serve although one was killed")
	}
	eventually(t, "another leader", func() bool { next := e.Leader(t.Context()); return next >= 0 && next != leader })
	eventually(t, "a write", func() bool { return create(conn, "/second") })

	e.Servers()[(leader+1)%3].Kill()
	eventually(t, "no quorum", func() bool { return !e.Serving(t.Context()) })
	for _, k := range []int{leader, (leader + 1) % 3} {
		e.Servers()[k].Begin()
	}
	e.Await()
	if !e.Whole(t.Context()) {
		t.Error("not all servers serve after Await")
	}
	for _, s := range e.Servers() {
		one, _ := connect(t, s.Addr(), longSession)
		for _, path := range []string{"/first", "/second"} {
			if _, err := one.Sync(path); err != nil {
				t.Error(err)
			}
			if found, _, err := one.Exists(path); err != nil || !found {
				t.Errorf("%s on %s: %v, %v; want it to exist", path, s.Addr(), found, err)
			}
		}
	}
}

// Missing packages are named for an ensemble as for one server.
func TestEnsembleWithoutZooKeeper(t *testing.T) {
	t.Setenv("ZOOKEEPER_HOME", t.TempDir())
	tb := &recordingTB{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		zkserver.StartEnsemble(tb, 3)
	}()
	<-done
	if !strings.Contains(tb.fatal, "make setup") {
		t.Errorf("StartEnsemble without ZooKeeper failed with %q, want that it names make setup", tb.fatal)
	}
}

// create creates a node, of which an earlier attempt may have succeeded.
func create(conn *zk.Conn, path string) bool {
	_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
	return err == nil || errors.Is(err, zk.ErrNodeExists)
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
