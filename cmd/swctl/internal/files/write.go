package files

import (
	"bytes"
	"fmt"

	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/job"
)

// YAML writes jobs as Read reads them: a document for each. Fields that have their default are left
// out.
func YAML(jobs ...job.Job) ([]byte, error) {
	var out bytes.Buffer
	for i, j := range jobs {
		if i > 0 {
			out.WriteString("---\n")
		}
		text, err := plain.Encode(j.Normal())
		if err == nil {
			err = output.YAML(&out, text)
		}
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", j.Name, err)
		}
	}
	return out.Bytes(), nil
}
