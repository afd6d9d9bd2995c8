package swtest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

func setCalendar(t *testing.T, c *swtest.Cluster, name string, is job.Calendar) (done admin.NamedChange) {
	t.Helper()
	operate(t, c, func(client *admin.Client) (err error) {
		done, err = client.SetCalendar(t.Context(), name, is, admin.NamedOptions{})
		return err
	})
	return done
}

// minutes is a calendar of some minutes of a day.
func minutes(from time.Time, n int) job.Calendar {
	from = from.UTC()
	return job.Calendar{Dates: []string{from.Format(time.DateOnly)}, Hours: []string{from.Format("15:04") + ".." + from.Add(time.Duration(n)*time.Minute).Format("15:04")}}
}

// A job runs when its calendar says, also after the calendar has changed, by another owner, and
// when the owner has died in between. Times that are left out have no rows, and the audit agrees.
func TestCalendarChanges(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		three(c, working(time.Second))
		time.Sleep(settled)
		start := time.Now().Truncate(time.Hour).Add(time.Hour)
		if done := setCalendar(t, c, "break", minutes(start.Add(5*time.Minute), 5)); done.Outcome != admin.OutcomeCreated {
			t.Errorf("%+v", done)
		}
		for _, j := range []job.Job{
			{Name: "once", Schedule: "* * * * *", NotBefore: start, NotAfter: start.Add(29 * time.Minute), Calendars: []string{"-break"}},
			{Name: "only", Handler: "busy", Schedule: "* * * * *", NotBefore: start, Calendars: []string{"break"}, Shards: 2},
		} {
			if err := c.Submit(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Until(start.Add(4*time.Minute + 30*time.Second)))
		if s := status(t, c, "once"); !s.NextRun.Equal(start.Add(10 * time.Minute)) {
			t.Errorf("next %v", s.NextRun)
		}
		time.Sleep(time.Until(start.Add(14*time.Minute + 30*time.Second)))
		if done := setCalendar(t, c, "break", minutes(start.Add(15*time.Minute), 7)); done.Outcome != admin.OutcomeReplaced || len(done.Jobs) != 2 {
			t.Errorf("%+v", done)
		}
		time.Sleep(time.Until(start.Add(19*time.Minute + 30*time.Second)))
		for _, i := range c.Instances()[:2] {
			i.Kill() // what it has left out is nothing that the next owner has missed
		}
		time.Sleep(20 * time.Minute)
		ran := make(map[string]map[int]int)
		for _, run := range c.Runs() {
			of := strings.TrimRight(run.Job, "[01]")
			if ran[of] == nil {
				ran[of] = make(map[int]int)
			}
			ran[of][int(run.Tick.Sub(start)/time.Minute)]++
		}
		for minute := range 30 {
			out := minute >= 5 && minute < 10 || minute >= 15 && minute < 22
			for name, want := range map[string]bool{"once": !out, "only": out} {
				if (ran[name][minute] > 0) != want {
					t.Errorf("%s: minute %d has run: %d times, left out: %v", name, minute, ran[name][minute], out)
				}
			}
		}
		operate(t, c, func(client *admin.Client) error {
			past, err := client.History(t.Context(), "once")
			for _, e := range past.Entries {
				if minute := int(e.Tick.Sub(start) / time.Minute); e.RunID == "" || minute >= 5 && minute < 10 || minute >= 15 && minute < 22 {
					t.Errorf("an entry of minute %d: %s", minute, e.State)
				}
			}
			return err
		})
		pass(t, c)
	})
}

// A calendar that is missing makes jobs invalid, and they run once it is there. One that is named
// is not deleted, and none leaves a job nothing.
func TestCalendarMissing(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		three(c, working(time.Second))
		time.Sleep(settled)
		refused := new(invalid.FieldError)
		j := job.Job{Name: "once", Schedule: "* * * * *", Calendars: []string{"-break"}}
		if err := c.Submit(t.Context(), j); !errors.As(err, &refused) || refused.Field != "Calendars" {
			t.Errorf("without its calendar: %v", err)
		}
		setCalendar(t, c, "break", job.Calendar{Weekdays: []string{"sun"}})
		if err := c.Submit(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		if err := c.Operate(t.Context(), func(client *admin.Client) error {
			_, err := client.SetCalendar(t.Context(), "break", job.Calendar{Hours: []string{"00:00..24:00"}}, admin.NamedOptions{})
			return err
		}); !errors.As(err, &refused) || !strings.Contains(err.Error(), "once") {
			t.Errorf("a calendar of everything: %v", err)
		}
		remove := func(client *admin.Client) error {
			_, err := client.DeleteCalendar(t.Context(), "break", admin.NamedOptions{})
			return err
		}
		if err := c.Operate(t.Context(), remove); !errors.Is(err, admin.ErrInUse) || !strings.Contains(err.Error(), "once") {
			t.Errorf("delete: %v", err)
		}
		time.Sleep(time.Minute)
		if err := c.Delete(t.Context(), "/group/_calendars/break"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if s := status(t, c, "once"); s.State != admin.StateInvalid || !strings.Contains(fmt.Sprint(s.Reason), "break") {
			t.Errorf("without its calendar it is %s (%s)", s.State, s.Reason)
		}
		before := len(c.Runs())
		silent := func(when string) {
			t.Helper()
			time.Sleep(10 * time.Minute)
			if n := len(c.Runs()); n != before {
				t.Errorf("%d runs %s", n-before, when)
			}
		}
		again := func(when string) {
			t.Helper()
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(2*time.Minute - 5*time.Second)))
			setCalendar(t, c, "break", job.Calendar{Weekdays: []string{"sun"}})
			time.Sleep(10 * time.Second) // of which a tick is the middle
			if s := status(t, c, "once"); s.State != admin.StateOwned || len(c.Runs()) == before {
				t.Errorf("%s it is %s (%s)", when, s.State, s.Reason)
			}
		}
		silent("without a calendar")
		again("with its calendar")
		conn, err := zkconn.Open(zkconn.Config{Servers: "zkdev1:2181", SessionTimeout: time.Minute, Dial: c.Server.Dial}, func(zkconn.Event) {})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Multi(t.Context(), zkconn.SetOp("/group/_calendars/break", []byte("{"), zkconn.AnyVersion)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if s := status(t, c, "once"); s.State != admin.StateInvalid || !strings.Contains(fmt.Sprint(s.Reason), "cannot be read") {
			t.Errorf("with a calendar that is none it is %s (%s)", s.State, s.Reason)
		}
		before = len(c.Runs())
		silent("with a calendar that is none")
		again("with a calendar again")
		if err := c.Cancel(t.Context(), "once"); err != nil {
			t.Fatal(err)
		}
		operate(t, c, remove)
		if err := c.Operate(t.Context(), remove); !errors.Is(err, admin.ErrNoCalendar) {
			t.Errorf("delete again: %v", err)
		}
		undelete := func(client *admin.Client) error {
			_, err := client.Undelete(t.Context(), "once", admin.UndeleteOptions{})
			return err
		}
		if err := c.Operate(t.Context(), undelete); !errors.As(err, &refused) || refused.Field != "Calendars" {
			t.Errorf("undeleted without its calendar: %v", err)
		}
		setCalendar(t, c, "break", job.Calendar{Weekdays: []string{"sun"}})
		operate(t, c, undelete)
		time.Sleep(2 * time.Minute)
		if s := status(t, c, "once"); s.State != admin.StateOwned {
			t.Errorf("undeleted with its calendar it is %s (%s)", s.State, s.Reason)
		}
	})
}

// A job that comes to name a calendar while that is being deleted keeps it.
func TestCalendarNamedWhileItIsDeleted(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		setCalendar(t, c, "break", job.Calendar{Weekdays: []string{"sun"}})
		deleting := make(chan struct{})
		c.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			for _, op := range r.Ops {
				if op.Op == zkdev.OpSetData && op.Path == "/group/_calendars/break" {
					close(deleting)
					return zkdev.Delay(time.Second)
				}
			}
			return zkdev.Pass()
		})
		ended := make(chan error)
		go func() {
			ended <- c.Operate(t.Context(), func(client *admin.Client) error {
				_, err := client.DeleteCalendar(t.Context(), "break", admin.NamedOptions{})
				return err
			})
		}()
		<-deleting
		if err := c.Submit(t.Context(), job.Job{Name: "once", Schedule: "* * * * *", Calendars: []string{"-break"}}); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, admin.ErrInUse) {
			t.Errorf("delete: %v", err)
		}
	})
}

// A calendar that was deleted when no job named it any more still tells which ticks are owed of the
// time before, to the next owner and to the audit.
func TestCalendarDeletedWithTicksOwed(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		start := time.Now().Truncate(time.Hour).Add(time.Hour)
		setCalendar(t, c, "break", minutes(start.Add(2*time.Minute), 2))
		if err := c.Submit(t.Context(), job.Job{Name: "once", Schedule: "* * * * *", NotBefore: start, Calendars: []string{"-break"}, Misfire: job.MisfireAll}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(start.Add(5*time.Minute + 30*time.Second))) // nobody owns it
		operate(t, c, func(client *admin.Client) error {
			_, err := client.Edit(t.Context(), "once", func(j *job.Job) error {
				j.Calendars = nil
				return nil
			}, admin.EditOptions{})
			if err == nil {
				_, err = client.DeleteCalendar(t.Context(), "break", admin.NamedOptions{})
			}
			return err
		})
		three(c, working(time.Second))
		time.Sleep(3 * time.Minute)
		operate(t, c, func(client *admin.Client) error {
			past, err := client.History(t.Context(), "once")
			owed := 0
			for _, e := range past.Entries {
				if e.RunID == "" {
					owed += e.Count
				}
			}
			if owed != 4 { // minutes 0, 1, 4 and 5
				t.Errorf("%d ticks were missed, want 4: %+v", owed, past.Entries)
			}
			return err
		})
		pass(t, c)
	})
}

// A calendar that is deleted by hand and made again has the version of before, and other times. A
// job that runs after the one that names it has them, too.
func TestCalendarMadeAgain(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		three(c, working(time.Second))
		start := time.Now().Truncate(time.Hour).Add(time.Hour)
		setCalendar(t, c, "break", minutes(start.Add(3*time.Minute), 3))
		for _, j := range []job.Job{
			{Name: "once", Schedule: "* * * * *", NotBefore: start, Calendars: []string{"-break"}},
			{Name: "then", Schedule: "@after", After: []string{"once"}, Handler: "once"},
		} {
			if err := c.Submit(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Until(start.Add(2*time.Minute + 30*time.Second)))
		conn, err := zkconn.Open(zkconn.Config{Servers: "zkdev1:2181", SessionTimeout: time.Minute, Dial: c.Server.Dial}, func(zkconn.Event) {})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		path, is := c.Tree().Calendar("break"), zkrec.Calendar{Contents: []zkrec.Content{{Is: minutes(start.Add(5*time.Minute), 3)}}}
		if _, err := conn.Multi(t.Context(), zkconn.DeleteOp(path, 0), zkconn.CreateOp(path, is.Encode())); err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * time.Minute)
		ran := make(map[string][]int)
		for _, run := range c.Runs() {
			ran[run.Job] = append(ran[run.Job], int(run.Tick.Sub(start)/time.Minute))
		}
		for _, name := range []string{"once", "then"} {
			if want := []int{0, 1, 2, 3, 4, 8, 9}; !slices.Equal(ran[name], want) {
				t.Errorf("minutes %v of %s have run, want %v", ran[name], name, want)
			}
		}
	})
}
