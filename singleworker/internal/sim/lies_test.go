package sim

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
)

// TestFalseEvidenceOfShards is TestFalseEvidence for property 9.
func TestFalseEvidenceOfShards(t *testing.T) {
	t.Parallel()
	tell(t, dividedAnew, []lie{
		{"nothing", func(*evidence) {}, 0, ""},
		{"told twice", func(e *evidence) { e.told = append(e.told, e.told[0]) }, 9, "told again"},
		{"not told", func(e *evidence) { e.told = e.told[1:] }, 9, "nobody is told"},
		{"not told by one who ended soon", func(e *evidence) { e.told = e.told[:len(e.told)-1] }, 0, ""},
		{"told too early", func(e *evidence) { e.told[0].at = e.told[0].at.Add(-time.Second) }, 9, "has not recorded"},
		{"told somebody else", func(e *evidence) { e.told[0].sid = "c" }, 9, "has not recorded"},
		{"told of another outcome", func(e *evidence) { e.told[0].Shards[1].State = singleworker.StateFailed }, 9, "is not how it was"},
		{"told of another run", func(e *evidence) { e.told[0].Shards[1].RunID = e.told[0].Shards[0].RunID }, 9, "is not how it was"},
		{"told of too few shards", func(e *evidence) { e.told[0].Shards = e.told[0].Shards[1:] }, 9, "with 1 shards"},
		{"a run of a former layout goes on", func(e *evidence) { e.runs[0].Ended = e.runs[0].Ended.Add(3 * session) }, 9, "the right to go on"},
		{"a run of another layout", func(e *evidence) { e.runs[0].Shard.Total++ }, 9, "is told that it is"},
		{"a run with another parameter", func(e *evidence) { e.runs[0].Shard.Parameter = "p" }, 9, "is told that it is"},
		{"a layout too early", func(e *evidence) { e.log = without(e.log, "/shards/0/tick") }, 9, "the next layout begins"},
		{"a layout that nobody asked for", func(e *evidence) { e.log = without(e.log, "") }, 9, "there are"},
		{"a shard that ends too early", func(e *evidence) {
			e.log = without(without(e.log, "/shards/2/tick"), "/shards/2/history")
		}, 8, "not accounted for"},
	})
}

// dividedAnew has a job with two shards, then three, then two.
func dividedAnew(t *testing.T) evidence {
	t.Helper()
	s := &scene{Cluster: swtest.New(t, swtest.Config{SessionTimeout: session}), t: t, schedule: "*/5 * * * * ?", brief: true}
	s.beginDivided(&breach{})
	for _, shards := range []int{3, 2} {
		s.divide(shards)
		time.Sleep(session + time.Second)
	}
	return s.end()
}
