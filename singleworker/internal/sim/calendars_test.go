package sim

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// leaveOut sets the calendar whose days the job leaves out.
func (s *scene) leaveOut(day string) {
	err := s.Operate(s.t.Context(), func(client *admin.Client) error {
		_, err := client.SetCalendar(s.t.Context(), "break", jobs.Calendar{Dates: []string{day}}, admin.CalendarOptions{})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// staleCalendar keeps the owner from reading a calendar that has come to leave out its ticks: its
// claims must be refused because of the calendar's version.
func staleCalendar(s *scene, b *breach) {
	s.brief = true
	s.leaveOut("1999-12-31")
	if err := s.Submit(s.t.Context(), singleworker.Job{Name: job, Schedule: s.schedule, Calendars: []string{"-break"}}); err != nil {
		s.t.Fatal(err)
	}
	owner := s.start("a", b)
	time.Sleep(2 * time.Minute)
	var held atomic.Bool
	held.Store(true)
	s.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
		if held.Load() && r.Client == owner.Place() && strings.HasSuffix(r.Path, "/_calendars/break") {
			return zkdev.Refuse(zkdev.OperationTimeout)
		}
		return zkdev.Pass()
	})
	s.leaveOut(time.Now().UTC().Format(time.DateOnly))
	time.Sleep(2 * time.Minute)
	held.Store(false)
	time.Sleep(2 * time.Minute)
}
