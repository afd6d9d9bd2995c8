package ledger_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// publish has an instance publish how far its clock is ahead of ZooKeeper's, in seconds.
func (w *world) publish(second float64, sid string, ahead int) {
	record := zkrec.Instance{
		Incarnation: sid + "!", SessionTimeout: zkrec.Duration(timeout), ClockOffset: zkrec.Duration(time.Duration(ahead) * time.Second),
	}
	w.write(second, w.sessions[sid], set(tree.Instance(sid), record.Encode()))
}

// relieve has b take a slot from a, in the transaction that proves that no run is open.
func (w *world) relieve(second float64, slot string) {
	record := zkrec.Owner{SID: "b", Incarnation: "b!", Relieved: zkrec.Member{SID: "a", Incarnation: "a!"}}
	w.write(second, w.sessions["b"], set(tree.Alive(slot), record.Encode()), remove(tree.Heartbeat(slot, "a")),
		create(tree.Heartbeat(slot, "b"), []byte("1")), remove(tree.Late(slot, "b!")))
}

// TestReliefs: an owner that may be alive is relieved of runs that were due, also by the clocks of
// all instances if they agree that ZooKeeper's is wrong.
func TestReliefs(t *testing.T) {
	t.Parallel()
	// relieved has a, c and d publish how far their clocks are ahead, long after they have joined.
	// Then b relieves a of a job that is due at second 60. before is called shortly before that.
	relieved := func(second float64, a, c, d int, before func(w *world)) func(*world) {
		return func(w *world) {
			w.submit(1, "hourly", job.Job{Schedule: "0 * * * * ?"})
			w.join(1, "c", 3)
			w.join(1, "d", 4)
			for sid, ahead := range map[string]int{"a": a, "c": c, "d": d} {
				w.publish(5, sid, ahead)
			}
			w.own(second-5, "hourly", "a")
			if before != nil {
				before(w)
			}
			w.relieve(second, "hourly")
		}
	}
	right := func(at float64) func(w *world) { return func(w *world) { w.publish(at, "c", 0) } }
	joins := func(at float64) func(w *world) { return func(w *world) { w.join(at, "e", 5) } }
	refused := []ledger.Rule{ledger.Owner}
	tell(t, []story{
		{"of a run that is due", relieved(60, 0, 0, 0, nil), nil},
		{"of one that is not", relieved(59.9, 0, 0, 0, nil), refused},
		{"of one that is due by all clocks but ZooKeeper's", relieved(25, 45, 46, 45, nil), nil},
		{"of one that is not due by these either", relieved(25, 31, 32, 31, nil), refused},
		{"of one that is due by most of them", relieved(25, 45, -45, 45, nil), nil},
		{"of one that is due by one of them", relieved(25, 45, -45, 31, nil), refused},
		{"of one that is due by all but one, which agrees with ZooKeeper's", relieved(25, 45, 45, 1, nil), refused},
		{"of one that is due by clocks that are within the limit", relieved(35, 29, 29, 29, nil), refused},
		{"of one that is due by ZooKeeper's, which is ahead of all", relieved(60, -45, -45, -45, nil), nil},
		{"before one may have heard that another's clock is right", relieved(25, 45, 45, 45, right(24)), nil},
		{"after one must have heard of it", relieved(25, 45, 45, 45, right(14)), refused},
		{"before one may have heard of another one", relieved(25, 45, 45, 45, joins(24)), nil},
		{"after one must have heard of that", relieved(25, 45, 45, 45, joins(14)), refused},
	})
}
