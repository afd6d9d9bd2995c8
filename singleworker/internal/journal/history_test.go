package journal_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// The history of a slot that has not run for long is not kept: it is read again with the next
// result, and the claim does not wait for that.
func TestHistoryOfAnIdleSlotIsReadAgain(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		requests := reads(g)
		a := start(g, "a")
		o := a.Ownership()
		record := *o.Record
		run := func(id string, tick int64, forClaim, forResult int64) {
			requests.Store(0)
			record = a.MustCommit(roomtest.Claim(o, record, id, tick))
			if n := requests.Swap(0); n != forClaim {
				g.T.Errorf("%s: %d requests before the claim, want %d", id, n, forClaim)
			}
			record = a.MustCommit(roomtest.Outcome(record, history.StateOK))
			if n := requests.Load(); n != forResult {
				g.T.Errorf("%s: %d requests before the result, want %d", id, n, forResult)
			}
		}
		run("r1", 60, 0, 0)
		roomtest.Pass(4 * time.Minute)
		run("r2", 120, 0, 0)
		roomtest.Pass(6 * time.Minute)
		run("r3", 180, 0, 1)
		run("r4", 240, 0, 0)
		g.WantRecords(record, "r1 ok", "r2 ok", "r3 ok", "r4 ok")
	})
}

// The history is read only if it is not known.
func TestHistoryIsAskedFor(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		requests := reads(g)
		a := start(g, "a")
		o := a.Ownership()
		record := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
		record = a.MustCommit(roomtest.Outcome(record, history.StateOK))
		record = a.MustCommit(roomtest.Claim(o, record, "r2", 120))
		wants := func(what string, asked int64) {
			g.T.Helper()
			requests.Store(0)
			var entries []zkrec.Entry
			answered := make(chan error, 1)
			a.Journal.History("job", func(read []zkrec.Entry, err error) {
				entries = read
				answered <- err
			})
			if err := <-answered; err != nil || len(entries) != 1 || entries[0].RunID != "r1" || requests.Load() != asked {
				g.T.Errorf("%s: %+v, %v with %d requests; want r1, and %d", what, entries, err, requests.Load(), asked)
			}
		}
		wants("just written", 0)
		roomtest.Pass(6 * time.Minute)
		wants("not written for long", 1)
		wants("just read", 0)
		record = a.MustCommit(roomtest.Outcome(record, history.StateOK))
		g.WantRecords(record, "r1 ok", "r2 ok")
	})
}
