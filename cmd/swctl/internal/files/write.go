package files

import (
	"bytes"
	"fmt"

	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Documents are jobs, with the calendars and the limits that they name.
type Documents struct {
	Calendars []Calendar
	Limits    []Limit
	Jobs      []job.Job
}

// All are the documents in the order in which they are written.
func (d Documents) All() []any {
	all := []any{}
	for _, of := range d.Calendars {
		all = append(all, of)
	}
	for _, of := range d.Limits {
		all = append(all, of)
	}
	for _, j := range d.Jobs {
		all = append(all, j)
	}
	return all
}

// YAML writes documents as Read reads them. Fields of jobs that have their default are left out.
func YAML(documents ...any) ([]byte, error) {
	var out bytes.Buffer
	for i, document := range documents {
		if i > 0 {
			out.WriteString("---\n")
		}
		if j, is := document.(job.Job); is {
			document = j.Normal()
		}
		text, err := plain.Encode(document)
		if err == nil {
			err = output.YAML(&out, text)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
	}
	return out.Bytes(), nil
}
