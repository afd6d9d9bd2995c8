package swtest_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
)

// same compares counts.
func same[K comparable](t *testing.T, what string, got, want map[K]uint64) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Two instances count the events of a job that moves: it is adopted, runs, fails, skips, is handed
// over, taken from an owner that is gone, and handed over again.
func TestStats(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		start := c.Begun().Truncate(time.Minute)
		until := func(d time.Duration) { time.Sleep(time.Until(start.Add(d))) }
		setup := sharing(t, c, 1, "0 * * * * ?", func(ctx context.Context, run *singleworker.Run) error {
			switch run.Tick.Minute() {
			case 2:
				return errors.New("glass")
			case 3:
				return working(90*time.Second)(ctx, run)
			}
			return working(time.Second)(ctx, run)
		})
		if before := (&singleworker.Manager{}).Stats(); before.Jobs != nil || before.Owned != 0 {
			t.Errorf("before Run: %+v", before)
		}
		a := c.Start("a", setup)
		until(3*time.Minute + 30*time.Second)
		s := a.Manager().Stats()
		j := s.Jobs["job0"]
		if s.Owned != 1 || j.Owned != 1 || s.Running != 1 || j.Running != 1 || s.Waiting != 0 || j.Failing != 1 {
			t.Errorf("in the third run: %+v", s)
		}
		if !j.LastSuccess.Equal(start.Add(61*time.Second)) || j.LastDuration != 0 || j.LastLateness != 0 {
			t.Errorf("last: %+v", j)
		}
		until(5*time.Minute + 30*time.Second) // the tick at 4 was skipped
		if j = a.Manager().Stats().Jobs["job0"]; j.Failing != 0 {
			t.Errorf("after a success: %+v", j)
		}
		b := c.Start("b", setup)
		time.Sleep(settled)
		if err := a.Stop(); err != nil {
			t.Error(err)
		}
		until(6*time.Minute + 30*time.Second)
		b.Kill()
		until(6*time.Minute + 35*time.Second)
		d := c.Start("d", setup)
		until(8*time.Minute + 30*time.Second)

		s = a.Manager().Stats()
		j = s.Jobs["job0"]
		same(t, "a acquired", j.Acquired, map[string]uint64{"free": 1})
		same(t, "a released", j.Released, map[string]uint64{"handed_over": 1})
		same(t, "a runs", j.Runs, map[history.State]uint64{history.StateOK: 3, history.StateFailed: 1})
		same(t, "a skipped", j.Skipped, map[history.Reason]uint64{"overlap": 1})
		same(t, "a sessions", s.Sessions, map[singleworker.SessionState]uint64{singleworker.SessionConnected: 1})
		if j.Claims != 4 || j.Repeats != 0 || j.Duration.Count() != 4 || j.Duration.Sum != 92*time.Second || j.Lateness.Count() != 4 || j.Owned != 0 {
			t.Errorf("a: %+v", j)
		}
		if !reflect.DeepEqual(s.Total, j.Counts) {
			t.Errorf("of all jobs: %+v\nof the only one: %+v", s.Total, j.Counts)
		}
		if times := s.RequestTime["multi"]; times.Count() < 8 || times.Count() > s.Requests["multi"] {
			t.Errorf("a: %d transactions, %d of them timed", s.Requests["multi"], times.Count())
		}
		if s.Requests["multi"] < 8 || s.BytesSent < 1000 || s.BytesReceived < 1000 {
			t.Errorf("a: %v, %d bytes sent, %d received", s.Requests, s.BytesSent, s.BytesReceived)
		}
		j = b.Manager().Stats().Jobs["job0"]
		same(t, "b acquired", j.Acquired, map[string]uint64{"offered": 1})
		if j.Claims != 1 || j.LastSuccess.Before(start.Add(6*time.Minute)) {
			t.Errorf("b: %+v", j)
		}
		j = d.Manager().Stats().Jobs["job0"]
		same(t, "d acquired", j.Acquired, map[string]uint64{"died": 1})
		// The last heartbeat came at most a quarter of a session before the kill at 6:30, and the run
		// after the takeover began at its tick, at 7:00.
		took, none := d.Manager().Stats().Takeovers, a.Manager().Stats().Takeovers
		if took.Count() != 1 || took.Sum < 5*time.Second || took.Sum > 33*time.Second || none.Count() != 0 {
			t.Errorf("takeovers of d: %+v, want one; of a: %+v, want none", took, none)
		}
		same(t, "d runs", j.Runs, map[history.State]uint64{history.StateOK: 2})
	})
}

// A takeover of an idle job from an owner that lives, or may, is counted as such, and its new owner
// knows the last success.
func TestStatsOfARelievedOwner(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		instances := group(t, c, 2, 1, "0 * * * * ?", working(time.Second))
		time.Sleep(time.Until(c.Begun().Truncate(time.Minute).Add(90 * time.Second)))
		gone, other := instances[0], instances[1]
		if gone.Manager().Stats().Owned == 0 {
			gone, other = other, gone
		}
		last := gone.Manager().Stats().Jobs["job0"].LastSuccess
		time.Sleep(29 * time.Second)
		gone.Partition()
		time.Sleep(1500 * time.Millisecond)
		j := other.Manager().Stats().Jobs["job0"]
		same(t, "acquired", j.Acquired, map[string]uint64{"overdue": 1})
		if took := other.Manager().Stats().Takeovers; took.Count() != 1 || took.Sum < time.Second || took.Sum > 4*time.Second {
			t.Errorf("takeovers: %+v, want one, of an owner that was cut off 1.25 s before", took)
		}
		if last.IsZero() || !j.LastSuccess.Equal(last) || j.Running != 1 || j.LastLateness < 250*time.Millisecond {
			t.Errorf("%+v, want the success of the former owner, %v, and a run that began late", j, last)
		}
		gone.Heal()
		time.Sleep(time.Minute)
	})
}
