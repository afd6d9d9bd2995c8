package jobs

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker"
)

// PrintTime returns a handler that writes one line a run to w: the job's name
// and the time that the run was scheduled for, in the job's time zone. It is
// the same on whichever instance it runs.
//
// It takes no arguments. Lines are written one at a time, so jobs may share w;
// an error of w fails the run.
func PrintTime(w io.Writer) singleworker.Handler {
	var mu sync.Mutex
	return func(_ context.Context, run *singleworker.Run) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := fmt.Fprintf(w, "%s %s\n", run.Job, run.Tick.Format(time.RFC3339))
		return err
	}
}
