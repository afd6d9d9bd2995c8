package browser

import (
	"context"
	"fmt"
	"io"
	"iter"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/runlog"
	"github.com/swjobs/singleworker/singleworker/swtest"
	"github.com/swjobs/singleworker/singleworker/web"
)

// past is a run log of four weeks, in which each job has run so many times.
type past struct {
	jobs []string
	runs int
}

func pastOf(n int) past {
	p := past{runs: 450}
	for _, job := range jobs(n) {
		p.jobs = append(p.jobs, job.Name)
	}
	return p
}

// Entries implements web.History.
func (p past) Entries(_ context.Context, q runlog.Query) iter.Seq2[runlog.Entry, error] {
	return func(yield func(runlog.Entry, error) bool) {
		const length = 28 * 24 * time.Hour
		now, n := time.Now(), 0
		seq := int64(p.runs * len(p.jobs))
		for i := range p.runs {
			for k, name := range p.jobs {
				at := now.Add(-length / time.Duration(p.runs*len(p.jobs)) * time.Duration(i*len(p.jobs)+k+1))
				state := history.StateOK
				if (i+k)%7 == 0 {
					state = history.StateFailed
				}
				seq--
				e := runlog.Entry{Seq: seq + 1, Slot: name, Job: name, Kind: runlog.Ran, At: at.Add(time.Minute), Entry: history.Entry{To: at, Count: 1, Run: history.Run{
					Tick: at, State: state, InstanceID: fmt.Sprintf("app-%d", (i/20+k)%3+1), RunID: fmt.Sprint(name, i), Attempt: 1, Started: at, Ended: at.Add(time.Minute),
				}}}
				if !q.Matches(e) {
					continue
				}
				if n++; !yield(e, nil) || n == q.Limit {
					return
				}
			}
		}
	}
}

// The timeline of 200 jobs, each with 450 runs in four weeks: how long it takes until it is
// painted, at each zoom. The figures are printed; nothing is said of how fast the machine is.
func TestTimelineOfManyJobs(t *testing.T) {
	modules := installed(t)
	const n = 200
	s := newScene(t, n, web.Options{Title: "billing", History: pastOf(n), Group: swtest.DefaultServerType})
	zooms := 0
	s.run("timeline.mjs", modules, n, func(said saying, _ io.Writer) {
		switch {
		case said.Failed != "":
			t.Error(said.Failed)
		case said.Rows == 0:
			t.Logf("%-16s long tasks %v ms", said.Zoom, said.Long)
		default:
			zooms++
			t.Logf("%-16s first paint %4d ms, of which the server %4d ms; %3d rows, %6d bytes, of which paths %6d, %6d compressed; long tasks %v ms",
				said.Zoom, said.PaintMS, said.ServerMS, said.Rows, said.Bytes, said.Drawn, said.Sent, said.Long)
		}
	})
	if zooms == 0 {
		t.Error("no figures")
	}
}
