package sim

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// TestFalseEvidence gives the checker a true run with one thing changed, for faults that no breach
// on the way to the server can bring about.
func TestFalseEvidence(t *testing.T) {
	t.Parallel()
	tell(t, ordinary, []lie{
		{"nothing", func(*evidence) {}, 0, ""},
		{"a tick is claimed twice", func(e *evidence) { e.log = again(e.log, 0) }, 2, "a second time"},
		{"a claim is missing", func(e *evidence) { e.log = without(e.log, "/tick") }, 3, "no claim"},
		{"an owner is missing", func(e *evidence) { e.log = without(e.log, "/alive") }, 3, "does not give it"},
		{"a token that was never issued", func(e *evidence) { e.hooks[0].token++ }, 4, "OnOwned"},
		{"heartbeats are missing", func(e *evidence) { e.log = without(e.log, "/alive/a") }, 1, "its lease ended"},
		{"a run before its claim", func(e *evidence) { e.runs[0].Started = e.runs[0].Started.Add(-time.Second) }, 3, "claimed at"},
		{"a run that never ends", func(e *evidence) { e.runs[0].Ended, e.runs[0].RightEnded = time.Time{}, time.Time{} }, 7, "never ends"},
	})
}

// ordinary has a job run until the group is closed.
func ordinary(t *testing.T) evidence {
	t.Helper()
	s := &scene{Cluster: swtest.New(t, swtest.Config{SessionTimeout: session}), t: t, schedule: "* * * * * ?"}
	s.begin(&breach{}, &breach{})
	return s.end()
}

// lie changes one true thing, for the checker to find.
type lie struct {
	name  string
	tell  func(e *evidence)
	want  int    // the property; 0: nothing may be found
	about string // is in the text of the violation
}

// tell tells each lie about the evidence that truth returns, calling truth in a new bubble each
// time, and fails unless it is found.
func tell(t *testing.T, truth func(t *testing.T) evidence, lies []lie) {
	t.Helper()
	for _, l := range lies {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := truth(t)
				l.tell(&e)
				found, _ := check(e)
				told := slices.ContainsFunc(found, func(v violation) bool { return v.property == l.want && strings.Contains(v.text, l.about) })
				if (l.want != 0) != told || l.want == 0 && len(found) > 0 {
					t.Errorf("found %v, want (%d) %q", found, l.want, l.about)
				}
			})
		})
	}
}

// without leaves out the changes of one node of the job.
func without(log []zkdev.Txn, node string) []zkdev.Txn {
	return slices.DeleteFunc(slices.Clone(log), func(txn zkdev.Txn) bool {
		return strings.HasSuffix(txn.Path, "/"+job+node) && txn.Op == zkdev.OpSetData
	})
}

// again repeats the first claim.
func again(log []zkdev.Txn, _ int) []zkdev.Txn {
	k := slices.IndexFunc(log, func(txn zkdev.Txn) bool {
		return strings.HasSuffix(txn.Path, "/tick") && txn.Op == zkdev.OpSetData
	})
	return slices.Insert(slices.Clone(log), k+1, log[k])
}

// TestFalseEvidenceOfAccounts is TestFalseEvidence for short runs, scheduled and manual ones, of a
// job that is handed over.
func TestFalseEvidenceOfAccounts(t *testing.T) {
	t.Parallel()
	tell(t, handedOver, []lie{
		{"nothing", func(*evidence) {}, 0, ""},
		{"a lease that lasts too long", func(e *evidence) { e.rights[0].Until = e.rights[0].Until.Add(session) }, 1, "its lease ended"},
		{"a lease beside another", func(e *evidence) { e.rights[0].Until = e.rights[0].Until.Add(session) }, 1, "has one from"},
		{"a lease of another token", func(e *evidence) { e.rights[0].Token++ }, 1, "does not give it"},
		{"a lease before its time", func(e *evidence) { e.rights[0].From = e.rights[0].From.Add(-time.Second) }, 1, "after its lease"},
		{"a run without a right", func(e *evidence) { e.rights = e.rights[1:] }, 3, "has no right"},
		{"a run after the lease, which is renewed later", func(e *evidence) {
			e.log = slices.DeleteFunc(e.log, func(txn zkdev.Txn) bool {
				after := txn.Time.Sub(e.runs[0].Started)
				return strings.HasSuffix(txn.Path, "/alive/a") && txn.Op == zkdev.OpSetData && after > 0 && after < session*9/10
			})
		}, 3, "after its lease"},
		{"a run that starts twice", func(e *evidence) { e.runs = append(e.runs, e.runs[0]) }, 3, "a second time"},
		{"two runs side by side", func(e *evidence) { e.runs[0].Ended = e.runs[1].Started.Add(time.Millisecond) }, 3, "begins beside"},
		{"a run of another attempt", func(e *evidence) { e.runs[0].Attempt++ }, 3, "attempt 2, claimed at"},
		{"a run without a handler call", func(e *evidence) { e.runs = e.runs[1:] }, 8, "no handler was called"},
		{"a run without a claim", func(e *evidence) { entries(e, func(e *zkrec.Entry) { e.RunID += "?" }) }, 8, "was never claimed"},
		{"a run of another instance", func(e *evidence) { entries(e, func(e *zkrec.Entry) { e.SID = "c" }) }, 8, "is in the history as"},
		{"a run that ended otherwise", func(e *evidence) { entries(e, func(e *zkrec.Entry) { e.State = history.StateFailed }) }, 8, "the history says failed"},
		{"a tick in no entry", func(e *evidence) { entries(e, func(e *zkrec.Entry) { e.Manual = "?" }) }, 8, "not accounted for"},
		{"a tick in two entries", func(e *evidence) { entries(e, func(e *zkrec.Entry) { e.Tick += 2000 }) }, 8, "is number 1"},
		{"a run of no tick", func(e *evidence) { entries(e, func(e *zkrec.Entry) { e.Tick++ }) }, 8, "a run of what is no tick"},
		{"a run without an entry", func(e *evidence) {
			entries(e, func(e *zkrec.Entry) { e.RunID, e.State, e.Reason = "", history.StateMissed, history.ReasonStalled })
		}, 8, "has no entry"},
		{"a tick that was missed for no reason", func(e *evidence) {
			entries(e, func(e *zkrec.Entry) { e.RunID, e.State, e.Reason = "", history.StateMissed, history.ReasonStalled })
		}, 8, "nothing was amiss"},
		{"a line taken back", func(e *evidence) {
			ticks(e, func(n int, rec *zkrec.Tick) { rec.Watermark -= int64(n/2) * 4000 })
		}, 8, "takes the line back"},
		{"a result of another run", func(e *evidence) {
			ticks(e, func(n int, rec *zkrec.Tick) { rec.RunID += strings.Repeat("?", n%2) })
		}, 2, "replaces the claim"},
		{"a result of another attempt", func(e *evidence) { ticks(e, func(n int, rec *zkrec.Tick) { rec.Attempt += n % 2 }) }, 2, "claims something else"},
		{"a request claimed twice", func(e *evidence) {
			ticks(e, func(_ int, rec *zkrec.Tick) { rec.Manual = rec.Manual[:min(1, len(rec.Manual))] })
		}, 2, "attempt 1, was claimed"},
		{"a request that is ignored", func(e *evidence) {
			ticks(e, func(_ int, rec *zkrec.Tick) { rec.Manual += strings.Repeat("?", min(1, len(rec.Manual))) })
		}, 2, "never claimed"},
		{"a token that is smaller", func(e *evidence) { ticks(e, func(n int, rec *zkrec.Tick) { rec.Token -= int64(n) }) }, 4, "after a had"},
	})
}

// handedOver runs a job every two seconds, and twice manually, first by a and then by b.
func handedOver(t *testing.T) evidence {
	t.Helper()
	s := &scene{Cluster: swtest.New(t, swtest.Config{SessionTimeout: session}), t: t, schedule: "*/2 * * * * ?", brief: true}
	a, _ := s.begin(&breach{}, &breach{})
	from := time.Now()
	for range 2 {
		err := s.Operate(t.Context(), func(c *admin.Client) error {
			_, err := c.Trigger(t.Context(), job, admin.TriggerOptions{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	time.Sleep(session)
	to := time.Now()
	a.Leave()
	time.Sleep(session)
	e := s.end()
	e.calmFrom, e.calmTo = from, to
	return e
}

// entries changes the history's entry of a tick that was run when nothing happened, wherever it
// stands.
func entries(e *evidence, change func(e *zkrec.Entry)) {
	const later = 3 * time.Second // than the manual runs
	k := slices.IndexFunc(e.runs, func(r swtest.Run) bool { return r.Started.Sub(e.calmFrom) > later })
	of := e.runs[k].Tick.UnixMilli()
	rewritten(e, "/history", func(data []byte) []byte {
		return replaced(data, func(e *zkrec.Entry) {
			if e.Tick == of {
				change(e)
			}
		})
	})
}

// replaced changes the entries of a page of a history.
func replaced(data []byte, change func(e *zkrec.Entry)) []byte {
	l, _ := zkrec.ParseLog([][]byte{data})
	for _, e := range l.History().Entries {
		change(&e)
		l = l.Replace(e)
	}
	return l.Encode(0)
}

// ticks changes the tick record as each transaction writes it, a claim and its result in turn.
func ticks(e *evidence, change func(n int, rec *zkrec.Tick)) {
	n := -1
	rewritten(e, "/tick", func(data []byte) []byte {
		rec, _ := zkrec.ParseTick(data, time.Time{})
		n++
		change(n, &rec)
		return rec.Encode()
	})
}

// rewritten changes the data written to one node of the job.
func rewritten(e *evidence, node string, change func(data []byte) []byte) {
	e.log = slices.Clone(e.log)
	for k := range e.log {
		txn := &e.log[k]
		if at := "/" + job + node; (strings.HasSuffix(txn.Path, at) || strings.Contains(txn.Path, at+"/")) && txn.Op != zkdev.OpDelete && len(txn.Data) > 0 {
			txn.Data = change(txn.Data)
		}
	}
}

// TestFalseEvidenceOfShards is TestFalseEvidence for property 9.
func TestFalseEvidenceOfShards(t *testing.T) {
	t.Parallel()
	tell(t, dividedAnew, []lie{
		{"nothing", func(*evidence) {}, 0, ""},
		{"told twice", func(e *evidence) { e.told = append(e.told, e.told[0]) }, 9, "told again"},
		{"not told", func(e *evidence) { e.told = e.told[1:] }, 9, "no hook was called"},
		{"not told by an instance that ended soon", func(e *evidence) { e.told = e.told[:len(e.told)-1] }, 0, ""},
		{"told too early", func(e *evidence) { e.told[0].at = e.told[0].at.Add(-time.Second) }, 9, "has not recorded"},
		{"told somebody else", func(e *evidence) { e.told[0].sid = "c" }, 9, "has not recorded"},
		{"told of another outcome", func(e *evidence) { e.told[0].Shards[1].State = history.StateFailed }, 9, "is not how it was"},
		{"told of another run", func(e *evidence) { e.told[0].Shards[1].RunID = e.told[0].Shards[0].RunID }, 9, "is not how it was"},
		{"told of too few shards", func(e *evidence) { e.told[0].Shards = e.told[0].Shards[1:] }, 9, "with 1 shards"},
		{"a run of a former layout lasts too long", func(e *evidence) { e.runs[0].Ended = e.runs[0].Ended.Add(3 * session) }, 9, "the right to run until"},
		{"a run of another layout", func(e *evidence) { e.runs[0].Shard.Total++ }, 9, "is told that it is"},
		{"a run with another parameter", func(e *evidence) { e.runs[0].Shard.Parameter = "p" }, 9, "is told that it is"},
		{"a layout too early", func(e *evidence) { e.log = without(e.log, "/shards/0/tick") }, 9, "the next layout begins"},
		{"a layout that was not requested", func(e *evidence) { e.log = without(e.log, "") }, 9, "there are"},
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
