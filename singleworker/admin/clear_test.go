package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/deletion"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// leftovers makes what a group that is gone has left behind.
func (w *world) leftovers() {
	w.Helper()
	tree := w.c.tree
	for _, path := range []string{tree.Instances(), tree.Orders(), tree.Exclusions(), tree.Handlers(), tree.Leader()} {
		w.must(w.hand.conn.EnsureRoot(w.Context(), path))
	}
	w.multi(zkcreate(tree.Order("app-1"), nil), zkcreate(tree.Exclusion("job"), nil), zkcreate(tree.HandlerList("0123"), nil), zkcreate(tree.Instance("written manually"), nil))
}

// exists reports whether the root of the group does.
func (w *world) exists() bool {
	w.Helper()
	_, found, err := w.hand.conn.Exists(w.Context(), w.c.tree.Root())
	w.must(err)
	return found
}

// Everything of the server type goes, down to its root, and nothing of another.
func TestClear(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.leftovers()
		for k := range 40 {
			w.submit(job.Job{Name: fmt.Sprintf("job%d", k), Schedule: "@hourly"})
		}
		w.must(w.hand.conn.EnsureRoot(w.Context(), "/billing2/job/alive"))
		dry, err := w.c.Clear(w.Context(), ClearOptions{DryRun: true})
		if err != nil || dry.Jobs != 40 || len(dry.Instances)+len(dry.Left) != 0 || !w.exists() {
			t.Errorf("dry run: %+v, %v", dry, err)
		}
		if done, err := w.c.Clear(w.Context(), ClearOptions{Jobs: 39}); !errors.Is(err, ErrConflict) || done.Jobs != 0 {
			t.Errorf("with another number of jobs: %+v, %v", done, err)
		}
		var told []int
		done, err := w.c.Clear(w.Context(), ClearOptions{Jobs: 40, OnJob: func(deleted, of int) { told = append(told, deleted*100+of) }})
		if err != nil || done.Jobs != 40 || len(done.Left) != 0 || w.exists() {
			t.Errorf("Clear = %+v, %v", done, err)
		}
		if len(told) != 40 || !slices.IsSorted(told) || told[39] != 4040 {
			t.Errorf("progress: %v", told)
		}
		if _, found, err := w.hand.conn.Exists(w.Context(), "/billing2/job/alive"); err != nil || !found {
			t.Errorf("the other server type: %v, %v", found, err)
		}
		if done, err := w.c.Clear(w.Context(), ClearOptions{}); err != nil || done.Jobs != 0 {
			t.Errorf("again: %+v, %v", done, err)
		}
	})
}

// With live instances it is refused, or leaves what is theirs.
func TestClearWhileInstancesLive(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.leftovers()
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.multi(zkconn.CreateEphemeralOp(w.c.tree.Instance("app-1"), zkrec.Instance{Incarnation: "i"}.Encode()))
		done, err := w.c.Clear(w.Context(), ClearOptions{Jobs: 1})
		if !errors.Is(err, ErrInstancesLive) || done.Jobs != 0 || !slices.Equal(done.Instances, []string{"app-1"}) {
			t.Errorf("refused: %+v, %v", done, err)
		}
		done, err = w.c.Clear(w.Context(), ClearOptions{Jobs: 1, DespiteInstances: true})
		if err != nil || done.Jobs != 1 || len(done.Left) != 0 {
			t.Errorf("despite them: %+v, %v", done, err)
		}
		for _, path := range []string{w.c.tree.Instance("app-1"), w.c.tree.Order("app-1"), w.c.tree.HandlerList("0123")} {
			if _, found, err := w.hand.conn.Exists(w.Context(), path); err != nil || !found {
				t.Errorf("%s is there: %v, %v", path, found, err)
			}
		}
	})
}

// An instance that joins while the group is cleared keeps its node.
func TestClearWhileAnInstanceJoins(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.leftovers()
		tree := w.c.tree
		lists := 0 // of the instances: to see whether any live, twice, and then to delete what is there
		w.Cleanup(w.server.ControlKeep(zkdev.OpGetChildren2, func(r *zkdev.Request) zkdev.Action {
			if r.Path != tree.Instances() {
				return zkdev.Pass()
			}
			if lists++; lists != 3 {
				return zkdev.Pass()
			}
			go func() {
				_, _ = w.hand.conn.Multi(context.Background(), zkconn.SetOp(tree.Instances(), nil, zkconn.AnyVersion),
					zkconn.CreateEphemeralOp(tree.Instance("app-1"), zkrec.Instance{Incarnation: "i"}.Encode()))
			}()
			return zkdev.Delay(time.Second)
		}))
		if _, err := w.c.Clear(w.Context(), ClearOptions{}); !errors.Is(err, ErrInstancesLive) {
			t.Errorf("Clear: %v, want ErrInstancesLive", err)
		}
		if _, found, err := w.hand.conn.Exists(w.Context(), tree.Instance("app-1")); err != nil || !found {
			t.Errorf("the node of the instance: %v, %v", found, err)
		}
	})
}

// Nodes that are not known stay, and are named.
func TestClearLeavesUnknownNodes(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.leftovers()
		w.multi(zkcreate(w.c.tree.Root()+"/_of-a-newer-version", nil))
		done, err := w.c.Clear(w.Context(), ClearOptions{})
		if err != nil || !slices.Equal(done.Left, []string{"_of-a-newer-version"}) || !w.exists() {
			t.Errorf("Clear = %+v, %v", done, err)
		}
	})
}

// A job with 10,000 shards takes many transactions, each of which the server takes.
func TestClearJobOfTenThousandShards(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		const shards = 10_000
		many := strings.Repeat("m", 100)
		w.submit(job.Job{Name: many, Schedule: "@hourly", Shards: 1})
		w.must(w.hand.conn.EnsureRoot(w.Context(), w.c.tree.Shards(many)))
		var ops []zkconn.Op
		for k := 1; k < shards; k++ {
			ops = append(ops, zkcreate(w.c.tree.Slot(zkrec.ShardSlot(many, k)), nil))
			if len(ops) >= 5000 || k == shards-1 {
				w.multi(ops...)
				ops = nil
			}
		}
		most, nodes := 0, 0
		w.Cleanup(w.server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			bytes := 0
			for _, op := range r.Ops {
				bytes += len(op.Path) + 21
				nodes++
			}
			most = max(most, bytes)
			return zkdev.Pass()
		}))
		done, err := w.c.Clear(w.Context(), ClearOptions{Jobs: 1})
		if err != nil || done.Jobs != 1 || w.exists() || most > deletion.MaxTransaction || nodes < shards {
			t.Errorf("Clear = %+v, %v; %d nodes, at most %d bytes in a transaction", done, err, nodes, most)
		}
	})
}

// An interrupted Clear says how far it was, and another one completes it.
func TestClearInterrupted(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		for k := range 40 {
			w.submit(job.Job{Name: fmt.Sprintf("job%d", k), Schedule: "@hourly"})
		}
		ctx, cancel := context.WithCancelCause(w.Context())
		done, err := w.c.Clear(ctx, ClearOptions{Jobs: 40, OnJob: func(deleted, _ int) {
			if deleted == 7 {
				cancel(errors.New("enough"))
			}
		}})
		time.Sleep(time.Second) // what was under way arrives
		names, listErr := w.hand.Names(w.Context())
		if err == nil || listErr != nil || done.Jobs < 7 || done.Jobs+len(names) > 40 || len(names) == 0 {
			t.Errorf("Clear = %+v, %v; %d jobs are left, %v", done, err, len(names), listErr)
		}
		if done, err := w.c.Clear(w.Context(), ClearOptions{Jobs: len(names)}); err != nil || done.Jobs != len(names) || w.exists() {
			t.Errorf("again: %+v, %v", done, err)
		}
	})
}
