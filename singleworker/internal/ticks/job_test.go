package ticks_test

import (
	"errors"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

func TestJobOfRefusesWhatCanNeverRun(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		spec  zkrec.Spec
		field string // that is refused; empty: none
	}{
		{zkrec.Spec{Schedule: "@daily"}, ""},
		{zkrec.Spec{Schedule: "@daily", TimeZone: "Europe/Berlin"}, ""},
		{zkrec.Spec{Schedule: "nonsense"}, "Schedule"},
		{zkrec.Spec{Schedule: "@daily", TimeZone: "Mars"}, "TimeZone"},
		{zkrec.Spec{Schedule: "@daily", Policy: zkrec.Policy{Misfire: "twice"}}, "Misfire"},
		{zkrec.Spec{Schedule: "@daily", Former: &zkrec.Former{Schedule: "nonsense"}}, ""},
	} {
		job, err := ticks.JobOf(row.spec, 7)
		var field *zkrec.FieldError
		errors.As(err, &field)
		if row.field == "" && (err != nil || job.SpecVersion != 7 || job.Former != nil) {
			t.Errorf("JobOf(%+v) = %+v, %v; want it accepted at version 7", row.spec, job, err)
		}
		if row.field != "" && (field == nil || field.Field != row.field) {
			t.Errorf("JobOf(%+v) = %v, want %s refused", row.spec, err, row.field)
		}
	}
}
