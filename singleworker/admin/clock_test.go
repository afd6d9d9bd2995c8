package admin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// beating is a job that runs on the hour, and whose owner gives signs of life until the result is
// called.
func (w *world) beating() (cease func()) {
	w.Helper()
	w.owned(job.Job{Name: "job", Schedule: "@hourly"})
	path := w.c.tree.Life("app-1-1")
	w.multi(zkconn.CreateOp(path, zkrec.EncodeBeat(time.Now())))
	ctx, cancel := context.WithCancel(w.Context())
	w.every(2500*time.Millisecond, func() bool {
		if ctx.Err() == nil {
			w.put(path, zkrec.EncodeBeat(time.Now()))
		}
		return ctx.Err() != nil
	})
	return cancel
}

// off is an operator on a machine whose clock is that far off.
func (w *world) off(clock wall.Clock) *Client {
	w.Helper()
	return w.dial(wall.Off(w.Context(), clock))
}

// The heartbeats of a group that hangs do not make the time stand still: a late tick is late, and
// who asks has to wait at most once for each client.
func TestHeartbeatsThatCease(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		cease := w.beating()
		old := w.operator()
		_, err := old.List(w.Context())
		w.must(err)
		time.Sleep(time.Minute)
		cease()
		time.Sleep(89 * time.Minute) // it is half past one
		for name, c := range map[string]*Client{"a new client": w.operator(), "one that has seen heartbeats": old} {
			for round, most := range []time.Duration{6 * time.Second, 0, 0} {
				begun := time.Now()
				jobs, err := c.List(w.Context())
				w.must(err)
				if !jobs[0].Overdue.Equal(noon.Add(time.Hour)) {
					w.Errorf("%s, reading %d: overdue is %v, want the tick at one", name, round, jobs[0].Overdue)
				}
				if _, ahead, _ := c.Clock(); ahead != 0 {
					w.Errorf("%s, reading %d: the clock is right, and seems to be %v ahead", name, round, ahead)
				}
				if took := time.Since(begun); took > most {
					w.Errorf("%s, reading %d took %v, want %v at most", name, round, took, most)
				}
				time.Sleep(time.Duration(round) * 2 * time.Minute)
			}
		}
		short, cancel := context.WithTimeout(w.Context(), 2*time.Second)
		defer cancel()
		if _, err := w.operator().List(short); err != nil {
			w.Errorf("there was no time to wait for heartbeats: %v", err)
		}
	})
}

// A clock that is set while a client lives is noticed by its next reading, either way.
func TestClockIsSetWhileAClientLives(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.beating()
		var off time.Duration
		c := w.off(func() time.Duration { return off })
		time.Sleep(time.Hour - 5*time.Minute)
		for _, off = range []time.Duration{0, 10 * time.Minute, -10 * time.Minute, 20 * time.Minute, 0, 5 * time.Second, 0} {
			_, before, _ := c.Clock()
			if off == 0 && before != 0 {
				w.Errorf("the clock was set right, and seems to be %v ahead", before)
			}
			begun := time.Now()
			jobs, err := c.List(w.Context())
			w.must(err)
			now, ahead, _ := c.Clock()
			if late := time.Since(now); late < 0 || late > 3*time.Second || (ahead-off).Abs() > 3*time.Second || !jobs[0].Overdue.IsZero() {
				w.Errorf("off by %v: the group's time is wrong by %v, and the clock seems to be %v ahead; overdue: %v", off, late, ahead, jobs[0].Overdue)
			}
			if took := time.Since(begun); took > 4*time.Second {
				w.Errorf("off by %v: the reading took %v", off, took)
			}
			time.Sleep(20 * time.Second)
		}
	})
}

// What is late is late by the clock of each instance that takes jobs.
func TestLateByTheClockOfAnInstanceThatIsBehind(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.beating()
		w.put(w.c.tree.Instance("app-1"), zkrec.Instance{
			Incarnation: "app-1-1", State: zkrec.InstanceActive, ClockOffset: zkrec.Duration(-20 * time.Second), ClockBound: zkrec.Duration(time.Millisecond),
		}.Encode())
		c := w.off(func() time.Duration { return 10 * time.Minute })
		for k, want := range []history.State{FateDue, FateLate} {
			at := time.Duration(70+15*k) * time.Second
			time.Sleep(time.Until(noon.Add(time.Hour + at)))
			x, err := c.Why(w.Context(), "job", time.Time{})
			w.must(err)
			if late := !x.Job.Overdue.IsZero(); x.Fate != want || late != (want == FateLate) {
				w.Errorf("%v after the tick it is %s, and overdue: %v; want %s", at, x.Fate, late, want)
			}
		}
	})
}

// A group in which nobody gives a sign of life is searched for one once a minute.
func TestNoSignsOfLifeCostLittle(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.instance("app-1", "job")
		c := w.operator()
		var took []int
		for range 3 {
			before := w.sentTo()
			_, err := c.Get(w.Context(), "job")
			w.must(err)
			took = append(took, w.sentTo()-before)
		}
		if took[1] != took[2] || took[0] <= took[1] {
			w.Errorf("requests of three readings: %v", took)
		}
	})
}

// sentTo counts what the server was asked.
func (w *world) sentTo() (n int) {
	for _, of := range w.server.Traffic().Requests {
		n += of
	}
	return n
}

// To compare clocks costs a client one request in a minute, however many jobs there are.
func TestComparingClocksCostsLittle(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		defer w.beating()()
		for n := range 1000 {
			name := fmt.Sprintf("other%d", n)
			w.submit(job.Job{Name: name, Schedule: "@hourly"})
			w.adopt("app-1", name)
		}
		c := w.operator()
		var took []int
		for range 3 { // in which no time passes
			before := w.sentTo()
			_, err := c.List(w.Context())
			w.must(err)
			took = append(took, w.sentTo()-before)
		}
		if took[1] != took[2] || took[0] != took[1]+1 {
			w.Errorf("requests of three readings: %v", took)
		}
	})
}

// What may be written is judged by the group's time, and so is what is said of it.
func TestChangesFromAMachineWhoseClockIsWrong(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.beating()
		w.submit(job.Job{Name: "paused", Schedule: "0 0/5 * * * ?"})
		_, err := w.c.Pause(w.Context(), "paused", PauseOptions{})
		w.must(err)
		time.Sleep(time.Hour + time.Minute)
		for k, off := range []time.Duration{-20 * time.Minute, 0, 20 * time.Minute} { // of the group's time from this machine's
			w.server.SetClock(off)
			time.Sleep(5 * time.Second) // until a heartbeat has such a time
			at := func(in time.Duration) time.Time { return time.Now().Add(off + in) }
			once := func(in time.Duration) string { return "@at " + at(in).UTC().Format(time.RFC3339) }
			do := func(what string, want bool, f func(c *Client) error) {
				if err := f(w.operator()); (err == nil) != want {
					w.Errorf("off by %v: %s: %v", off, what, err)
				}
			}
			for in, want := range map[time.Duration]bool{-10 * time.Minute: false, 10 * time.Minute: true} {
				do("submit", want, func(c *Client) error {
					done, err := c.Submit(w.Context(), job.Job{Name: fmt.Sprint("once", k), Schedule: once(in)}, SubmitOptions{})
					if want && done.NextRun.IsZero() {
						w.Errorf("off by %v: a job that was submitted never runs", off)
					}
					return err
				})
				do("edit", want, func(c *Client) error {
					_, err := c.Edit(w.Context(), "job", changing(func(j *job.Job) { j.Schedule = once(in) }), EditOptions{DryRun: true})
					return err
				})
				do("submit paused", want, func(c *Client) error {
					opts := SubmitOptions{DryRun: true, Pause: &PauseOptions{Until: at(in)}}
					_, err := c.Submit(w.Context(), job.Job{Name: "other", Schedule: "@hourly"}, opts)
					return err
				})
				do("pause", want, func(c *Client) error {
					_, err := c.Pause(w.Context(), "job", PauseOptions{Until: at(in)})
					return err
				})
			}
			do("pause again", true, func(c *Client) error {
				result, err := c.Pause(w.Context(), "paused", PauseOptions{Reason: strconv.Itoa(k)})
				if want := 13 + int(off/(5*time.Minute)); result.Missed != want { // since noon
					w.Errorf("off by %v: %d ticks were missed, want %d", off, result.Missed, want)
				}
				return err
			})
		}
	})
}

// A client knows that its own clock is all there is, until an instance owns something, and again
// when heartbeats have ceased.
func TestClockThatIsAllThereIs(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		own := func(c *Client) bool {
			_, err := c.List(w.Context())
			w.must(err)
			_, _, own := c.Clock()
			return own
		}
		if own(w.operator()) {
			w.Error("there is no job to judge, and the clock is said to judge it")
		}
		w.submit(job.Job{Name: "other", Schedule: "@hourly"})
		before := w.operator()
		if !own(before) {
			w.Error("nobody lives, and the clock is not said to be all there is")
		}
		cease := w.beating()
		for range 2 {
			time.Sleep(2 * compareEvery)
			if own(before) || own(w.operator()) {
				w.Error("heartbeats come, and the clock is said to be all there is")
			}
		}
		cease()
		time.Sleep(2 * compareEvery)
		if own(before) || !own(w.operator()) {
			w.Error("one who has heard heartbeats knows how far its clock is off, and one who has not does not")
		}
	})
}

// A job may be written without the right to read who lives: then it is judged by the own clock.
func TestChangeWithoutTheRightToReadTheGroup(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		defer w.beating()()
		w.server.ControlKeep(zkdev.OpGetChildren2, func(r *zkdev.Request) zkdev.Action {
			if r.Path == w.c.tree.Instances() {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		})
		_, err := w.c.Submit(w.Context(), job.Job{Name: "other", Schedule: "@daily"}, SubmitOptions{})
		if _, _, own := w.c.Clock(); err != nil || !own {
			w.Errorf("Submit: %v; by the own clock: %v", err, own)
		}
		if _, err := w.c.List(w.Context()); !errors.Is(err, ErrDenied) {
			w.Errorf("List: %v", err)
		}
	})
}

// Heartbeats come as often as a client expects them.
func TestHeartbeatsPerSession(t *testing.T) {
	t.Parallel()
	m := lease.New(lease.Config{Self: lease.Member{SID: "app-1"}, SyncPeriod: time.Second})
	m.Step(lease.Instant{}, lease.Opened{Session: time.Minute})
	if every := m.NextBeat(); every != time.Minute/beatsPerSession {
		t.Errorf("instances send one every %v of a session of a minute, and clients expect %d in it", every, beatsPerSession)
	}
}
