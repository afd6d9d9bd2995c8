package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// losses are the paths and losses of nodes, in order.
func losses(nodes []UnreadableNode) (lines []string) {
	for _, n := range nodes {
		lines = append(lines, fmt.Sprintf("%s %s", n.Path, n.Loss))
	}
	slices.Sort(lines)
	return lines
}

func (w *world) unreadable(name string) []UnreadableNode {
	w.Helper()
	nodes, err := w.c.Unreadable(w.Context(), name)
	w.must(err)
	return nodes
}

func TestRepair(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		if nodes := w.unreadable("job"); len(nodes) > 0 {
			t.Fatalf("a new job has unreadable nodes: %v", losses(nodes))
		}
		w.put(w.c.tree.Tick("job"), []byte("{garbage"))
		w.put(w.c.tree.History("job"), []byte("garbage"))
		if s := w.get("job"); s.State != StateInvalid || !strings.Contains(s.Reason.String(), w.c.tree.Tick("job")+" cannot be read") {
			t.Errorf("state %s: %s; want invalid, with the path", s.State, s.Reason)
		}
		nodes := w.unreadable("job")
		want := []string{w.c.tree.History("job") + " history", w.c.tree.Tick("job") + " ticks"}
		if got := losses(nodes); !slices.Equal(got, want) {
			t.Fatalf("unreadable: %v, want %v", got, want)
		}
		time.Sleep(time.Hour)
		w.must(w.c.Repair(w.Context(), "job", nodes))
		repaired := time.Now()
		if nodes := w.unreadable("job"); len(nodes) > 0 {
			t.Errorf("unreadable after the repair: %v", losses(nodes))
		}
		s := w.get("job")
		if s.State == StateInvalid || !s.Watermark.Equal(repaired.Truncate(time.Millisecond)) {
			t.Errorf("%s with watermark %v; want ticks up to the repair, %v, accounted for", s.State, s.Watermark, repaired)
		}
		if err := w.c.Repair(w.Context(), "job", nodes); err != nil {
			t.Errorf("repaired twice: %v, want that it is done", err)
		}
	})
}

// A history alone is not read for a list, but for one job.
// A record that can be read, of a job that can never run, is not lost.
func TestInvalidJobIsReadable(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.put(w.c.tree.Job("job"), []byte("99 99 * * *"))
		if nodes := w.unreadable("job"); len(nodes) > 0 {
			t.Errorf("unreadable: %v", losses(nodes))
		}
	})
}

func TestRepairOfAHistory(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.put(w.c.tree.History("job"), []byte("garbage"))
		if s := w.get("job"); s.State != StateInvalid || !strings.Contains(s.Reason.String(), w.c.tree.History("job")) {
			t.Errorf("state %s: %s; want invalid, with the path", s.State, s.Reason)
		}
		w.must(w.c.Repair(w.Context(), "job", w.unreadable("job")))
		if s := w.get("job"); s.State == StateInvalid {
			t.Errorf("still invalid: %s", s.Reason)
		}
	})
}

// A switch that cannot be read makes its job invalid. Nothing can be done with the job until it is
// repaired, but that it be replaced.
func TestRepairOfASwitch(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		register := w.c.tree.Register("job")
		w.put(register, []byte("garbage"))
		list, err := w.c.List(w.Context())
		w.must(err)
		s := w.get("job")
		if s.State != StateInvalid || !strings.Contains(s.Reason.String(), register+" cannot be read") || list[0].Reason.String() != s.Reason.String() {
			t.Errorf("listed as %s; shown as %s: %s; want invalid, with the path", list[0].Reason, s.State, s.Reason)
		}
		if _, err := w.c.Pause(w.Context(), "job", PauseOptions{}); !errors.Is(err, ErrUnreadable) {
			t.Errorf("paused: %v, want ErrUnreadable", err)
		}
		if done, err := w.c.Submit(w.Context(), job.Job{Name: "job", Schedule: "@daily"}, SubmitOptions{Replace: true}); err != nil || done.Outcome != OutcomeReplaced {
			t.Errorf("replaced: %s, %v", done.Outcome, err)
		}
		nodes := w.unreadable("job")
		if got := losses(nodes); !slices.Equal(got, []string{register + " pause"}) || nodes[0].Newer {
			t.Fatalf("unreadable: %+v, want the switch", nodes)
		}
		w.must(w.c.Repair(w.Context(), "job", nodes))
		if s := w.get("job"); s.State == StateInvalid || s.Paused != nil {
			t.Errorf("repaired: %+v", s)
		}
		w.wantSwitch("")
		w.put(register, []byte(`{"schema":99}`))
		if nodes := w.unreadable("job"); len(nodes) != 1 || !nodes[0].Newer {
			t.Errorf("of a newer version: %+v", nodes)
		}
	})
}

func TestRepairRefuses(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.put(w.c.tree.Tick("job"), []byte("garbage"))
		nodes := w.unreadable("job")
		w.put(w.c.tree.Tick("job"), []byte("other garbage"))
		if err := w.c.Repair(w.Context(), "job", nodes); !errors.Is(err, ErrConflict) {
			t.Errorf("a node that has changed: %v, want ErrConflict", err)
		}
		w.put(w.c.tree.Job("job"), []byte("{"))
		nodes = w.unreadable("job")
		if got := losses(nodes); !slices.Equal(got, []string{w.c.tree.Job("job") + " spec"}) {
			t.Errorf("unreadable: %v, want the spec", got)
		}
		if err := w.c.Repair(w.Context(), "job", nodes); !errors.Is(err, ErrUnreadable) {
			t.Errorf("a spec: %v, want ErrUnreadable", err)
		}
		w.put(w.c.tree.Job("job"), []byte(`{"schema":99}`))
		if nodes := w.unreadable("job"); len(nodes) != 1 || !nodes[0].Newer {
			t.Errorf("of a newer version: %+v", nodes)
		}
		if _, err := w.c.Unreadable(w.Context(), "nobody"); !errors.Is(err, ErrNotFound) {
			t.Errorf("no job: %v, want ErrNotFound", err)
		}
	})
}

// The ticks that all shards were done with are not reported again.
func TestRepairOfShards(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly", Shards: 2})
		w.put(w.c.tree.Shards("job"), []byte("garbage"))
		for shard, mark := range []int64{60_000, 120_000} {
			slot := zkrec.ShardSlot("job", shard)
			for _, node := range w.c.tree.NewShard(slot, mark) {
				w.multi(zkcreate(node.Path, node.Data))
			}
		}
		list, err := w.c.List(w.Context())
		w.must(err)
		if s := w.get("job"); s.State != StateInvalid || list[0].State != s.State || list[0].Reason.String() != s.Reason.String() {
			t.Errorf("listed as %s: %s; shown as %s: %s; want that it is invalid", list[0].State, list[0].Reason, s.State, s.Reason)
		}
		w.must(w.c.Repair(w.Context(), "job", w.unreadable("job")))
		data, _, err := w.c.conn.Get(w.Context(), w.c.tree.Shards("job"))
		w.must(err)
		if complete, err := zkrec.ParseComplete(data); err != nil || complete.Tick != 120_000 {
			t.Errorf("repaired as %s, %v; want the latest watermark", data, err)
		}
	})
}
