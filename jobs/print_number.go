package jobs

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/swjobs/singleworker/singleworker"
)

// PrintNumber returns a handler that writes one line a run to w: the job's
// name and a number that counts the job's runs in this process, from 1. Where
// the number starts again, another instance has taken the job over.
//
// It takes no arguments. Lines are written one at a time, so jobs may share w;
// an error of w fails the run.
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
