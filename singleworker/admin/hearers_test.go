package admin

import (
	"fmt"
	"slices"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/preference"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// A request, and its withdrawal, is told to the owner and to the instance that comes next, in the
// same transaction, and to nobody else. Those that do not listen are left out.
func TestWhoIsToldOfARequest(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@daily"})
		order := []string{"i0", "i1", "i2", "i3"}
		slices.SortFunc(order, func(a, b string) int {
			if preference.Of(preference.Hash(a), preference.Hash("job")) > preference.Of(preference.Hash(b), preference.Hash("job")) {
				return -1
			}
			return 1
		})
		w.must(w.hand.conn.EnsureRoot(w.Context(), w.c.tree.Asked()))
		for _, sid := range order {
			w.instance(sid, "job")
			w.multi(zkcreate(w.c.tree.AskedOf(sid+"-1"), nil))
		}
		w.adopt(order[1], "job")
		versions := func() (told []string) {
			for _, sid := range order {
				data, stat, err := w.hand.conn.Get(w.Context(), w.c.tree.AskedOf(sid+"-1"))
				if w.must(err); stat.Version > 0 {
					told = append(told, fmt.Sprintf("%s %d %s", sid, stat.Version, data))
				}
			}
			return told
		}
		want := func(what string, want ...string) {
			if got := versions(); !slices.Equal(got, want) {
				t.Errorf("%s: told %q, want %q", what, got, want)
			}
		}
		w.trigger("job", "")
		want("asked", order[0]+" 1 job", order[1]+" 1 job")
		if _, err := w.c.CancelRequests(w.Context(), "job", ""); err != nil {
			t.Error(err)
		}
		want("withdrawn", order[0]+" 2 job", order[1]+" 2 job")
		w.put(w.c.tree.Instance(order[0]), zkrec.Instance{Incarnation: order[0] + "-1", State: zkrec.InstanceDraining}.Encode())
		w.trigger("job", "")
		want("the next is closed", order[0]+" 2 job", order[1]+" 3 job", order[2]+" 1 job")
		w.multi(zkdelete(w.c.tree.AskedOf(order[2] + "-1")))
		w.multi(zkcreate(w.c.tree.AskedOf(order[2]+"-1"), nil), zkdelete(w.c.tree.AskedOf(order[1]+"-1")))
		w.trigger("job", "")
		if _, _, err := w.hand.conn.Get(w.Context(), w.c.tree.AskedOf(order[1]+"-1")); err == nil {
			t.Error("made a node for one that does not listen")
		}
		if n := len(w.requests()); n != 2 {
			t.Errorf("%d requests wait, want 2", n)
		}
	})
}
