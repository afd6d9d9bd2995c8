package job_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// A job is checked before it is sent anywhere, and the error names the field.
func ExampleJob_Validate() {
	report := job.Job{Name: "report", Schedule: "0 0 25 * * ?"}
	err := report.Validate()
	fmt.Println(err)
	field := new(invalid.FieldError)
	fmt.Println(errors.As(err, &field) && field.Field == "Schedule")
	// Output:
	// job.Schedule "0 0 25 * * ?": schedule "0 0 25 * * ?": hour at column 5: 25 is out of range, want 0-23
	// true
}

// When a job is due is computed as instances compute it: here over the night in which the clocks go
// back.
func ExampleJob_ParseSchedule() {
	report := job.Job{Name: "report", Schedule: "0 30 1,2 * * ?", TimeZone: "Europe/Berlin"}
	schedule, err := report.ParseSchedule()
	if err != nil {
		panic(err)
	}
	next := time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC)
	for range 3 {
		next = schedule.Next(next)
		fmt.Println(next)
	}
	// Output:
	// 2026-10-25 01:30:00 +0200 CEST
	// 2026-10-25 02:30:00 +0200 CEST
	// 2026-10-26 01:30:00 +0100 CET
}
