package admin

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A job that is deleted gives back the places of its runs, and those alone, in the same
// transaction.
func TestDeletionGivesPlacesBack(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.setLimit("api", 9)
		held := func() (slots []string) {
			for _, place := range w.limit("api").Held {
				slots = append(slots, place.Slot)
			}
			return slots
		}
		w.submit(job.Job{Name: "stays", Schedule: "@hourly", Limits: map[string]int{"api": 1}})
		w.submit(job.Job{Name: "plain", Schedule: "@hourly", Limits: map[string]int{"api": 2}})
		w.submit(job.Job{Name: "parts", Schedule: "@hourly", Shards: 2, Limits: map[string]int{"api": 1}})
		for k := range 2 {
			slot := zkrec.ShardSlot("parts", k)
			for _, node := range w.c.tree.NewShard(slot, 0) {
				w.multi(zkcreate(node.Path, node.Data))
			}
			w.hold(slot, 5+k)
		}
		w.hold("stays", 0)
		w.hold("plain", 1, 2)
		_, err := w.edit("plain", func(j *job.Job) { j.Limits = nil }) // its run keeps the places
		w.must(err)
		for _, name := range []string{"plain", "parts"} {
			if _, err := w.c.Cancel(w.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		if got := held(); !slices.Equal(got, []string{"stays"}) {
			t.Errorf("held by %v", got)
		}
		w.submit(job.Job{Name: "again", Schedule: "@hourly", Limits: map[string]int{"api": 1}})
		w.hold("again", 3)
		w.multi(zkdelete(w.c.tree.HeldPlace(zkrec.Place{Limit: "api", Number: 3})), zkcreate(w.c.tree.HeldPlace(zkrec.Place{Limit: "api", Number: 3}), []byte("stays")))
		if _, err := w.c.Cancel(w.Context(), "again"); err != nil { // somebody has given its place to another run
			t.Fatal(err)
		}
		if _, err := w.c.Undelete(w.Context(), "plain", UndeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := held(); !slices.Equal(got, []string{"stays", "stays"}) {
			t.Errorf("held by %v", got)
		}
		done, err := w.c.Clear(w.Context(), ClearOptions{Jobs: 2})
		if _, found, missing := w.hand.conn.Exists(w.Context(), w.c.tree.Root()); err != nil || missing != nil || found || len(done.Left) > 0 {
			t.Errorf("clear: %+v, %v; the root is there: %v, %v", done, err, found, missing)
		}
	})
}

// A job comes to name a limit while that is being deleted: one of both is refused.
func TestLimitThatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.setLimit("api", 1)
		w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return zkdev.Delay(time.Second) })
		done := make(chan error)
		go func() {
			_, err := w.c.DeleteLimit(w.Context(), "api", NamedOptions{})
			done <- err
		}()
		time.Sleep(500 * time.Millisecond)
		if _, err := w.hand.Submit(w.Context(), job.Job{Name: "job", Schedule: "@hourly", Limits: map[string]int{"api": 1}}, SubmitOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, ErrInUse) {
			t.Errorf("deleted although a job has come to name it: %v", err)
		}
	})
}
