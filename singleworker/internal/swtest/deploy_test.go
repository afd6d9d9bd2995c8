package swtest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
)

// An instance of the old version restarts in the middle of a deploy. The schedule of the new
// version stays, and so does an operator's later change; the same without versions brings the old
// one back.
func TestOldInstanceRestartsInTheMiddleOfADeploy(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		old, current string
		want         string
	}{
		"with versions":    {"1.9.0", "1.10.0", "@weekly"},
		"without versions": {"", "", "@daily"},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				program := func(version, schedule string) swtest.Setup {
					return swtest.Setup{
						Handlers:  map[string]singleworker.Handler{"report": working(0)},
						Jobs:      []singleworker.Job{{Name: "report", Schedule: schedule}},
						Configure: func(cfg *singleworker.Config) { cfg.Version = version },
					}
				}
				wantSchedule := func(want string) {
					t.Helper()
					time.Sleep(settled)
					jobs, err := c.List(t.Context())
					if err != nil || len(jobs) != 1 || jobs[0].Job.Schedule != want {
						t.Errorf("jobs %+v, %v; want schedule %s", jobs, err, want)
					}
				}
				old := program(test.old, "@daily")
				c.Start("i0", old)
				second := c.Start("i1", old)
				wantSchedule("@daily")
				if err := second.Stop(); err != nil {
					t.Error(err)
				}
				c.Start("i1", program(test.current, "@hourly"))
				wantSchedule("@hourly")
				operate(t, c, func(a *admin.Client) error {
					_, err := a.Edit(t.Context(), "report", func(j *singleworker.Job) error {
						j.Schedule = "@weekly"
						return nil
					}, admin.EditOptions{})
					return err
				})
				c.Instances()[0].Kill()
				c.Start("i2", old)
				wantSchedule(test.want)
			})
		})
	}
}

// A program that is rolled back finds the declaration of the newer one in place, also when no
// instance of that lives any more. Its own counts again under a higher version than that, or
// without one.
func TestProgramThatIsRolledBack(t *testing.T) {
	t.Parallel()
	for again, want := range map[string]string{"1.9.1": "@hourly", "1.10.1": "@daily", "": "@daily"} {
		t.Run("as "+again, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				for _, program := range []struct{ version, schedule, want string }{
					{"1.9.0", "@daily", "@daily"}, {"1.10.0", "@hourly", "@hourly"}, {"1.9.0", "@daily", "@hourly"}, {again, "@daily", want},
				} {
					i := c.Start("i0", swtest.Setup{
						Handlers:  map[string]singleworker.Handler{"report": working(0)},
						Jobs:      []singleworker.Job{{Name: "report", Schedule: program.schedule}},
						Configure: func(cfg *singleworker.Config) { cfg.Version = program.version },
					})
					time.Sleep(settled)
					jobs, err := c.List(t.Context())
					if err != nil || len(jobs) != 1 || jobs[0].Job.Schedule != program.want || jobs[0].State != admin.StateOwned {
						t.Errorf("version %q: jobs %+v, %v; want schedule %s", program.version, jobs, err, program.want)
					}
					if err := i.Stop(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// A job that no live instance declares any more stays, and says so; one that a running Manager
// declared never does.
func TestJobThatIsNoLongerDeclared(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		setup := swtest.Setup{
			Handlers: map[string]singleworker.Handler{"report": working(0)},
			Jobs:     []singleworker.Job{{Name: "report", Schedule: "@daily"}},
		}
		wantUndeclared := func(name string, want bool) {
			t.Helper()
			time.Sleep(settled)
			operate(t, c, func(a *admin.Client) error {
				status, err := a.Get(t.Context(), name)
				if status.Undeclared != want {
					t.Errorf("%s by %s: undeclared %v, want %v", name, status.DeclaredBy, status.Undeclared, want)
				}
				return err
			})
		}
		first := c.Start("i0", setup)
		wantUndeclared("report", false)
		setup.Jobs = nil
		second := c.Start("i1", setup)
		wantUndeclared("report", false) // the first one does
		if err := first.Stop(); err != nil {
			t.Error(err)
		}
		wantUndeclared("report", true)
		if err := c.Submit(t.Context(), singleworker.Job{Name: "submitted", Schedule: "@daily"}); err != nil {
			t.Error(err)
		}
		wantUndeclared("submitted", false)
		if err := second.Manager().Schedule(singleworker.Job{Name: "late", Schedule: "@daily"}); err != nil {
			t.Error(err)
		}
		wantUndeclared("late", false)
		if err := second.Stop(); err != nil {
			t.Error(err)
		}
		wantUndeclared("report", false) // nobody lives who could
	})
}

// Two instances that declare a job differently are named, unless their versions say which of them
// holds.
func TestDeclarationsInConflict(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"":      "i0 (1.1.0) and i1 (no version) declare it differently; it is as i1 (devel) did",
		"1.1.0": "i0 (1.1.0) and i1 (1.1.0) declare it differently; it is as i1 (1.1.0) did",
		"1.2.0": "",
	} {
		t.Run("as "+version, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				for k, program := range []struct{ version, schedule string }{{"1.1.0", "@daily"}, {version, "@hourly"}} {
					c.Start(fmt.Sprintf("i%d", k), swtest.Setup{
						Handlers:  map[string]singleworker.Handler{"report": working(0)},
						Jobs:      []singleworker.Job{{Name: "report", Schedule: program.schedule}, {Name: "same", Schedule: "@daily", Handler: "report"}},
						Configure: func(cfg *singleworker.Config) { cfg.Version = program.version },
					})
					time.Sleep(settled)
				}
				operate(t, c, func(a *admin.Client) error {
					one, err := a.Get(t.Context(), "report")
					if err != nil {
						return err
					}
					all, err := a.List(t.Context())
					for _, status := range append(all, one) {
						found, _ := status.Condition(reason.Conflict)
						differs := status.Name == "report"
						if len(status.Declarations) != 2 == differs || differs && found.Detail != want || !differs && found.Detail != "" {
							t.Errorf("%s: %+v, %q; want %q", status.Name, status.Declarations, found.Detail, want)
						}
					}
					return err
				})
			})
		})
	}
}
