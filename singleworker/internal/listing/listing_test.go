package listing_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/listing"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// The list is read only when it could be too long, and jobs are refused before it is.
func TestRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := zkdev.Start(t, zkdev.Config{NoListen: true})
		conn, err := zkconn.Open(zkconn.Config{
			Servers: "zk1", SessionTimeout: time.Minute, Dial: server.Client("a").Dial, Logger: slog.New(slog.DiscardHandler),
		}, func(zkconn.Event) {})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		var asked []zkdev.Op
		for _, op := range []zkdev.Op{zkdev.OpExists, zkdev.OpGetChildren2} {
			server.ControlKeep(op, func(*zkdev.Request) zkdev.Action {
				asked = append(asked, op)
				return zkdev.Pass()
			})
		}
		var room listing.Room
		check := func(want error, ops string, names ...string) {
			t.Helper()
			asked = nil
			if err := room.Check(t.Context(), conn, "/group", names...); !errors.Is(err, want) {
				t.Errorf("Check = %v, want %v", err, want)
			}
			if got := fmt.Sprint(asked); got != ops {
				t.Errorf("asked for %s, want %s", got, ops)
			}
		}
		long := func(k int) string { return fmt.Sprintf("%s%06d", strings.Repeat("n", job.MaxNameBytes-6), k) }
		fill := func(from, to int) {
			var ops []zkconn.Op
			for k := from; k < to; k++ {
				ops = append(ops, zkconn.CreateOp("/group/"+long(k), nil))
			}
			for part := range slices.Chunk(ops, 500) {
				if _, err := conn.Multi(t.Context(), part...); err != nil {
					t.Fatal(err)
				}
			}
		}
		const exists, both = "[exists]", "[exists getChildren2]"
		check(nil, exists, "first") // the group does not exist
		if err := conn.EnsureRoot(t.Context(), "/group"); err != nil {
			t.Fatal(err)
		}
		fits := listing.Max / (job.MaxNameBytes + 4)
		check(nil, exists, "first")
		fill(0, fits-10)
		check(nil, exists, long(fits))
		fill(fits-10, fits)
		check(listing.ErrFull, both, long(fits))
		check(nil, exists, "short") // now it is known how long the list is
		fill(fits, fits+1)
		check(listing.ErrFull, both, "short")
	})
}

func TestLength(t *testing.T) {
	t.Parallel()
	if got := listing.Length([]string{"ab", "ü"}); got != 12 {
		t.Errorf("Length = %d, want 12: four bytes and two of each name", got)
	}
}
