package notify_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/notify"
	"github.com/swjobs/singleworker/singleworker/swtest"
)

// copyTree copies what outlives sessions from one ensemble to another, as tools do. The other one
// counts its transactions from its own beginning.
func copyTree(ctx context.Context, from, to *zkconn.Conn, path string) error {
	data, stat, err := from.Get(ctx, path)
	if err != nil || stat.EphemeralOwner != 0 {
		return err
	}
	if _, err := to.Multi(ctx, zkconn.CreateOp(path, data)); err != nil {
		return err
	}
	children, _, err := from.Children(ctx, path)
	for _, child := range children {
		if err == nil {
			err = copyTree(ctx, from, to, path+"/"+child)
		}
	}
	return err
}

// A sender in a tree that was copied to another ensemble, where all numbers of transactions are
// lower, or higher, waits for no sender of the former one, repeats nothing that was told there, and
// leaves out nothing that happened since.
func TestCopiedTree(t *testing.T) {
	t.Parallel()
	for _, higher := range []bool{false, true} {
		testCopiedTree(t, higher)
	}
}

func testCopiedTree(t *testing.T, higher bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		told, targets := &place{}, map[string]notify.Sender{}
		targets["ops"] = told
		old := newScene(t)
		old.begin()
		_, stop := old.notifier("n1", targets)
		old.runs(true, 10)
		old.want(told, "n1: report failed")
		if err := stop(); err != nil {
			t.Error(err)
		}
		if err := old.one.Stop(); err != nil {
			t.Error(err)
		}
		s := newScene(t)
		conn := s.connect()
		for higher && s.Server().Zxid() <= old.Server().Zxid() {
			if _, err := conn.Multi(t.Context(), zkconn.CreateOp("/other", nil), zkconn.DeleteOp("/other", zkconn.AnyVersion)); err != nil {
				t.Fatal(err)
			}
		}
		if err := copyTree(t.Context(), old.connect(), conn, zkrec.NewTree(swtest.DefaultServerType).Root()); err != nil {
			t.Fatal(err)
		}
		if was, is := old.Server().Zxid(), s.Server().Zxid(); (is > was) != higher {
			t.Fatalf("%d transactions there, %d here: want more %v", was, is, higher)
		}
		s.begin()
		s.submit(job.Job{Name: "other", Schedule: "0 * * * * ?", Handler: "report"})
		s.runs(true, 2)
		s.notifier("n2", targets)
		s.runs(true, 2)
		s.want(told, "n1: report failed", "n2: other failed 2 times")
		s.runs(false, 2)
		time.Sleep(time.Minute)
		s.want(told, "n1: report failed", "n2: other failed 2 times", "n2: other recovered after 4 failed runs", "n2: report recovered after 14 failed runs")
	})
}
