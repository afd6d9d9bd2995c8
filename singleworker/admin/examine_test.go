package admin

import (
	"errors"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

func TestExamine(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		if e, err := w.c.Examine(w.Context(), Group{}); err != nil || len(e.Servers) != 1 || e.Servers[0].Mode != "standalone" || e.NamesBytes != 0 {
			t.Errorf("before there is a group: %+v, %v", e, err)
		}
		w.submit(job.Job{Name: "nightly", Schedule: "@daily", Args: map[string]string{"to": "ops"}})
		record := zkrec.Instance{Incarnation: "i1", State: zkrec.InstanceActive, SessionTimeout: zkrec.Duration(4 * time.Second), SessionLongest: zkrec.Duration(time.Minute)}
		if err := w.hand.conn.EnsureRoot(w.Context(), w.c.tree.Instances()); err != nil {
			t.Fatal(err)
		}
		w.multi(zkconn.CreateEphemeralOp(w.c.tree.Instance("app-1"), record.Encode()))
		g, err := w.c.Group(w.Context())
		w.must(err)
		var e Examination
		if n := w.requestsOf(func() { e, err = w.c.Examine(w.Context(), g) }); n > 3 {
			t.Errorf("%d requests beside those for the group", n)
		}
		if err != nil || len(e.Jobs) != 1 || len(e.Instances) != 1 || e.Open != nil || e.NamesBytes < len("nightly") {
			t.Fatalf("%+v, %v", e, err)
		}
		if i := e.Instances[0]; i.SessionTimeout != 4*time.Second || i.SessionAsked != time.Minute || e.Jobs[0].SpecBytes < len(`{"to":"ops"}`) {
			t.Errorf("%+v, a spec of %d bytes", i, e.Jobs[0].SpecBytes)
		}
	})
}

// Credentials do not help if the group is open.
func TestExamineOpenGroup(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "nightly", Schedule: "@daily"})
		c, err := Dial(w.Context(), Config{Servers: "zkdev:1", ServerType: "billing", Auth: "ops:secret", Dial: w.server.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if e, err := c.Examine(w.Context(), Group{}); err != nil || !errors.Is(e.Open, ErrOpenACL) {
			t.Errorf("%v, %v; want an ErrOpenACL", e.Open, err)
		}
	})
}
