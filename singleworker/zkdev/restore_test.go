package zkdev_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// A restored server has the nodes and sessions of the snapshot. Clients with such a session keep
// it, the others get a new one, and zxids continue.
func TestRestore(t *testing.T) {
	bubble(t, func(t *virtual) {
		keeps, kept := connect(t, t.server)
		create(t, keeps, "/mine", zk.FlagEphemeral)
		create(t, keeps, "/a", 0)
		snapshot := t.server.Snapshot()
		loses, lost := connect(t, t.server)
		create(t, loses, "/late", zk.FlagEphemeral)
		set(t, keeps, "/a")
		last := t.server.Zxid()
		if err := t.server.Restore(snapshot); err != nil {
			t.Fatal(err)
		}
		await(t, kept, zk.StateHasSession)
		await(t, lost, zk.StateExpired)
		await(t, lost, zk.StateHasSession)
		wantVersion(t, keeps, 0)
		if exists(t, keeps, "/late") || !exists(t, keeps, "/mine") {
			t.Error("not as in the snapshot")
		}
		set(t, loses, "/a")
		if _, stat, err := keeps.Get("/a"); err != nil || stat.Mzxid <= last || stat.Version != 1 {
			t.Errorf("%+v, %v", stat, err)
		}
		time.Sleep(2 * session)
		if n := len(t.server.Sessions()); n != 2 {
			t.Errorf("%d sessions", n)
		}
	})
}
