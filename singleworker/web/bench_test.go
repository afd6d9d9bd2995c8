package web

import (
	"fmt"
	"testing"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

// BenchmarkJobList encodes the list of 10,000 jobs, as it is done once for each reading of the
// group.
func BenchmarkJobList(b *testing.B) {
	one := newFake().jobs[1]
	one.Registered = []string{"app-1", "app-2", "app-3"}
	jobs := make([]admin.JobStatus, 10_000)
	for i := range jobs {
		jobs[i] = one
		jobs[i].Name = fmt.Sprintf("job-%05d", i)
		jobs[i].Job.Name = jobs[i].Name
	}
	b.ReportAllocs()
	for b.Loop() {
		text, err := encoded(api.List("JobList", jobs), nil)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(text)))
	}
}
