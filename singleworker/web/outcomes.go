package web

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
)

// snapshot is the group as it was read at once, for all viewers.
type snapshot struct {
	at        time.Time
	clock     string            // the fault of the clock of this machine, or ""
	jobs      []admin.JobStatus // sorted by name
	instances []admin.Instance  // sorted by ID
	orders    []admin.Order     // for instances and hosts that do not run

	jobList func() ([]byte, error) // the JSON document, encoded once
}

// maxAge is how old the snapshot of a large group becomes while nobody tells that it has changed:
// as old as a page that is open lets it become, so who asks more often has it read no more often.
const maxAge = 15 * time.Second

// rest is for how long the snapshot is shown while nothing changes: servers send two thousand jobs
// in three seconds at most.
func (s *snapshot) rest() time.Duration {
	const perJob = 1500 * time.Microsecond
	return min(maxAge, time.Duration(len(s.jobs))*perJob)
}

// jobSize is the size of a job beside its texts, in bytes, about.
const jobSize = 4 << 10

// placeSize is the size of a place of a limit, or of a name beside it, in bytes, about.
const placeSize = 1 << 9

// sizeOf is about how many bytes of memory the outcome of a reading takes.
func sizeOf(value any) (n int) {
	switch v := value.(type) {
	case admin.JobDetails:
		n = jobSize * (1 + len(v.Job.Slots) + len(v.Requests))
		for _, e := range v.Entries {
			n += 2 * sizeOfEntry(e.Run) // as an entry, and as the record that explains it
		}
	case [][]history.Entry:
		for _, entries := range v {
			for _, e := range entries {
				n += sizeOfEntry(e.Run)
			}
		}
	case reading:
		for _, e := range v.entries {
			n += sizeOfEntry(e.Run)
		}
	case spanLog:
		for _, entries := range v.of {
			n += sizeOf(reading{entries: entries})
		}
	case []admin.Calendar:
		n = jobSize * (1 + len(v)) // of each, some have 8 KiB
	case []admin.Limit:
		for _, of := range v {
			n += jobSize + placeSize*(len(of.Held)+len(of.Waiting)+len(of.Jobs))
		}
	case admin.InstanceDetails:
		n = jobSize * (1 + len(v.Slots))
	default:
		n = jobSize
	}
	return n
}
