package jobs

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker"
)

// PrintTime returns a handler that writes one line per run to w: the job's name
// and the scheduled time of the run, in the job's time zone. The line is the same
// on every instance.
//
// It has no arguments. Writes are serialized, so jobs can share w. An error of w
// fails the run.
func PrintTime(w io.Writer) singleworker.Handler {
	var mu sync.Mutex
	return func(_ context.Context, run *singleworker.Run) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := fmt.Fprintf(w, "%s %s\n", run.Job, run.Tick.Format(time.RFC3339))
		return err
	}
}
