package jobs

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/swjobs/singleworker/singleworker"
)

// PrintNumber returns a handler that writes one line per run to w: the job's name
// and the number of its runs in this process, from 1. When the number restarts,
// another instance has taken over the job.
//
// It has no arguments. Writes are serialized, so jobs can share w. An error of w
// fails the run.
func PrintNumber(w io.Writer) singleworker.Handler {
	var mu sync.Mutex
	numbers := make(map[string]int) // by job
	return func(_ context.Context, run *singleworker.Run) error {
		mu.Lock()
		defer mu.Unlock()
		numbers[run.Job]++
		_, err := fmt.Fprintf(w, "%s %d\n", run.Job, numbers[run.Job])
		return err
	}
}
