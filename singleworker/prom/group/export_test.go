package group

import (
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// LastSuccess returns the metrics of a job after readings that found it like that, one after the
// other.
func LastSuccess(readings ...admin.JobStatus) time.Time {
	c := Collector{}
	for _, j := range readings {
		c.latest.jobs = []admin.JobStatus{j}
		c.remember()
	}
	return c.succeeded["job"]
}

// Page lists the metrics as Markdown: METRICS.md.
func Page() string {
	var b strings.Builder
	b.WriteString("# Metrics of a group\n\nThe metrics that swexporter exports, made of the tables in the code. The [guide](../../GUIDE.md#metrics) has how to use them.\n\n")
	b.WriteString("Of the group:\n\n" + groupTable.Page() + "\n")
	b.WriteString("Of each instance:\n\n" + instanceTable.Page() + "\n")
	b.WriteString("Of each limit, if jobs name limits:\n\n" + limitTable.Page() + "\n")
	b.WriteString("Of each job:\n\n" + jobTable.Page())
	return b.String()
}

// Of returns a collector that has just read these jobs and instances.
func Of(jobs []admin.JobStatus, instances []admin.Instance) *Collector {
	c := &Collector{cfg: admin.Config{ServerType: "billing"}, opts: Options{Interval: time.Hour}, tried: time.Now()}
	c.latest = reading{up: true, jobs: jobs, instances: instances}
	return c
}
