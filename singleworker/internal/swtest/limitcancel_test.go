package swtest_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
)

// A job that is canceled during its run gives its place back at once, to the one that waits for it,
// and operators see both. A higher number lets the others run.
func TestCanceledJobGivesItsPlaceBack(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		three(c, working(50*time.Second))
		time.Sleep(settled)
		set := func(places int) {
			t.Helper()
			operate(t, c, func(client *admin.Client) error {
				_, err := client.SetLimit(t.Context(), "api", places, admin.NamedOptions{})
				return err
			})
		}
		held := func() (held []admin.HeldPlace) {
			t.Helper()
			operate(t, c, func(client *admin.Client) error {
				list, err := client.Limits(t.Context())
				held = list[0].Held
				return err
			})
			return held
		}
		set(1)
		tick := time.Now().Truncate(time.Hour).Add(time.Hour)
		submit := func(name string) {
			t.Helper()
			j := job.Job{Name: name, Handler: "once", Schedule: "0 * * * *", Limits: map[string]int{"api": 1}}
			if err := c.Submit(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
		submit("first")
		time.Sleep(time.Until(tick.Add(10 * time.Second)))
		submit("second")
		submit("third")
		tick = tick.Add(time.Hour)
		time.Sleep(time.Until(tick.Add(20 * time.Second)))
		running, waiting := "", []string(nil)
		for _, name := range []string{"first", "second", "third"} {
			s := status(t, c, name)
			if _, limited := s.Condition(reason.Limited); limited {
				waiting = append(waiting, name)
			} else {
				running = name
			}
		}
		if of := held(); len(waiting) != 2 || len(of) != 1 || of[0].Slot != running || of[0].Leaked {
			t.Fatalf("%s runs, %v wait, held: %+v", running, waiting, of)
		}
		operate(t, c, func(client *admin.Client) error {
			_, err := client.Cancel(t.Context(), running)
			return err
		})
		time.Sleep(10 * time.Second)
		if of := held(); len(of) != 1 || of[0].Slot == running || of[0].Leaked {
			t.Errorf("after %s was canceled, held: %+v", running, of)
		}
		set(2)
		time.Sleep(10 * time.Second)
		if of := held(); len(of) != 2 || of[0].Leaked || of[1].Leaked {
			t.Errorf("with two places, held: %+v", of)
		}
		time.Sleep(2 * time.Minute)
		if of := held(); len(of) != 0 {
			t.Errorf("in the end, held: %+v", of)
		}
		pass(t, c)
	})
}
