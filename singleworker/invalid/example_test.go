package invalid_test

import (
	"errors"
	"fmt"

	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

func ExampleFieldError() {
	err := fmt.Errorf("import: %w", job.Job{Name: "report", Schedule: "0 0 25 * * ?"}.Validate())
	var field *invalid.FieldError
	if errors.As(err, &field) {
		fmt.Printf("correct the %s of the %s\n%v\n", field.Field, field.Of, field)
	}
	// Output:
	// correct the Schedule of the job
	// job.Schedule "0 0 25 * * ?": schedule "0 0 25 * * ?": hour at column 5: 25 is out of range, want 0-23
}
