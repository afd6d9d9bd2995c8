package catalog

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// An instance that has not heard that a job was deleted and submitted again creates no nodes of the
// former one: the same version of the spec does not make it the same job.
func TestNoRepairOfAJobSubmittedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := zkdev.Start(t, zkdev.Config{NoListen: true})
		conn, err := zkconn.Open(zkconn.Config{
			Servers: "zk1", SessionTimeout: 4 * time.Second, Dial: server.Dial, Logger: slog.New(slog.DiscardHandler),
		}, func(zkconn.Event) {})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		tree := zkrec.NewTree("group")
		if err := conn.EnsureRoot(t.Context(), tree.Root()); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Multi(t.Context(), zkconn.CreateOp(tree.Job("job"), []byte("@daily"))); err != nil {
			t.Fatal(err)
		}
		job, _, err := conn.Exists(t.Context(), tree.Job("job"))
		if err != nil {
			t.Fatal(err)
		}
		loop := &session.Loop{Tree: tree, Conn: conn}
		stray := []zkrec.Node{{Path: tree.Slot("job") + "/stray"}}
		repair := func(version int32, czxid int64, want bool) {
			t.Helper()
			err := createMissing(t.Context(), loop, "job", version, czxid, stray)
			if _, found, _ := conn.Exists(t.Context(), stray[0].Path); found != want {
				t.Errorf("version %d, czxid %d: created %v (%v), want %v", version, czxid, found, err, want)
			}
		}
		repair(job.Version, job.Czxid-1, false)
		repair(job.Version+1, job.Czxid, false)
		repair(job.Version, job.Czxid, true)
	})
}
