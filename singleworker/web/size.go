package web

import (
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
)

// Sizes of a job, and of an entry of a history, beside their texts, in bytes, about.
const (
	jobSize   = 4 << 10
	entrySize = 512
)

// sizeOf is about how many bytes of memory the outcome of a reading takes.
func sizeOf(value any) (n int) {
	switch v := value.(type) {
	case jobDetail:
		return jobSize * (1 + len(v.status.Slots) + len(v.requests))
	case admin.Past:
		n = jobSize * (1 + len(v.Job.Slots))
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
			for _, e := range entries {
				n += sizeOfEntry(e.Run)
			}
		}
	case admin.InstanceDetails:
		n = jobSize * (1 + len(v.Slots))
	default:
		n = jobSize
	}
	return n
}

func sizeOfEntry(r history.Run) int { return entrySize + len(r.Error) }
