package sim

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// TestFalseEvidenceOfParents is TestFalseEvidence for property 19.
func TestFalseEvidenceOfParents(t *testing.T) {
	t.Parallel()
	rows := func(change func(row *zkrec.Entry)) func(e *evidence) {
		return func(e *evidence) {
			rewritten(e, "/history", func(data []byte) []byte {
				return replaced(data, func(row *zkrec.Entry) {
					if row.Reason == history.ReasonParent {
						change(row)
					}
				})
			})
		}
	}
	tell(t, twoParents, []lie{
		{"nothing", func(*evidence) {}, 0, ""},
		{"a parent that ends later", func(e *evidence) {
			begun := make(map[time.Time]time.Time)
			for _, run := range e.runs {
				if run.Job == job {
					begun[run.Tick] = run.Started
				}
			}
			for k := range e.runs {
				run := &e.runs[k]
				if at := begun[run.Tick]; run.Job == "good" && !at.IsZero() {
					run.Ended = at.Add(time.Millisecond)
				}
			}
		}, 19, "good has not ended it before"},
		{"because of a stranger", rows(func(row *zkrec.Entry) { row.Error = "nobody: failed" }), 19, "which is no parent"},
		{"because of one that was ok", rows(func(row *zkrec.Entry) { row.Error = "good: failed" }), 19, "nothing but ok"},
		{"before the deadline", rows(func(row *zkrec.Entry) {
			row.Reason, row.Error = history.ReasonParentLate, "bad had not run it by the deadline"
		}), 19, "before its deadline"},
		{"although all had run it", func(e *evidence) {
			for k := range e.log {
				if txn := &e.log[k]; strings.Contains(txn.Path, "/bad/history") && len(txn.Data) > 0 {
					txn.Data = replaced(txn.Data, func(of *zkrec.Entry) {
						if of.State == history.StateFailed {
							of.State = history.StateOK
						}
					})
				}
			}
		}, 19, "long before"},
	})
}

// twoParents has a job run after one that fails each second time, and one that does not. Nobody
// owns it for so long that what these did is long known.
func twoParents(t *testing.T) evidence {
	t.Helper()
	s := &scene{Cluster: swtest.New(t, swtest.Config{SessionTimeout: session}), t: t}
	const times = "*/10 * * * * ?" // of which the history keeps enough
	for _, of := range []jobs.Job{
		{Name: "bad", Schedule: times}, {Name: "good", Schedule: times},
		{Name: job, Schedule: "@after", After: []string{"bad", "good"}},
	} {
		if err := s.Submit(t.Context(), of); err != nil {
			t.Fatal(err)
		}
	}
	well := func(context.Context, *singleworker.Run) error { return nil }
	start := func(sid string, handlers map[string]singleworker.Handler) {
		s.Start(sid, swtest.Setup{Handlers: handlers, Configure: func(cfg *singleworker.Config) { s.listen(sid, &cfg.Hooks) }})
	}
	start("a", map[string]singleworker.Handler{"good": well, "bad": func(_ context.Context, run *singleworker.Run) error {
		if run.Tick.Unix()%20 == 0 {
			return errors.New("each second time")
		}
		return nil
	}})
	time.Sleep(stale + 3*session)
	start("b", map[string]singleworker.Handler{job: well})
	time.Sleep(4 * session)
	return s.end()
}
