package web

import (
	"github.com/swjobs/singleworker/singleworker/admin"
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
			n += 2 * sizeOfEntry(e) // as an entry, and as the record that explains it
		}
	case [][]admin.Entry:
		for _, entries := range v {
			for _, e := range entries {
				n += sizeOfEntry(e)
			}
		}
	case reading:
		for _, e := range v.entries {
			n += sizeOfEntry(e.Entry)
		}
	case spanLog:
		for _, entries := range v.of {
			for _, e := range entries {
				n += sizeOfEntry(e.Entry)
			}
		}
	case admin.InstanceDetails:
		n = jobSize * (1 + len(v.Slots))
	default:
		n = jobSize
	}
	return n
}

func sizeOfEntry(e admin.Entry) int { return entrySize + len(e.Error) }
