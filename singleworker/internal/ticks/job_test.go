package ticks_test

import (
	"errors"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

func TestJobOfRefusesSpecsThatCannotRun(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		spec  zkrec.Spec
		field string // that is refused; empty: none
	}{
		{zkrec.Spec{Job: job.Job{Name: "j", Schedule: "@daily"}}, ""},
		{zkrec.Spec{Job: job.Job{Name: "j", Schedule: "@daily", TimeZone: "Europe/Berlin"}}, ""},
		{zkrec.Spec{Job: job.Job{Name: "j", Schedule: "nonsense"}}, "Schedule"},
		{zkrec.Spec{Job: job.Job{Name: "j", Schedule: "@daily", TimeZone: "Mars"}}, "TimeZone"},
		{zkrec.Spec{Job: job.Job{Name: "j", Schedule: "@daily", Misfire: "twice"}}, "Misfire"},
		{zkrec.Spec{Job: job.Job{Name: "j", Schedule: "@daily"}, Former: &zkrec.Former{Schedule: "nonsense"}}, ""},
	} {
		parsed, err := ticks.JobOf("group", &row.spec, ticks.Version{Spec: 7})
		var field *invalid.FieldError
		errors.As(err, &field)
		if row.field == "" && (err != nil || parsed.Version.Spec != 7 || len(parsed.Former) > 0 && parsed.Former[0].Schedule != nil) {
			t.Errorf("JobOf(%+v) = %+v, %v; want it accepted at version 7", row.spec, parsed, err)
		}
		if row.field != "" && (field == nil || field.Field != row.field) {
			t.Errorf("JobOf(%+v) = %v, want %s refused", row.spec, err, row.field)
		}
	}
}
