package txns

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

var tree = zkrec.NewTree("g")

// A writer makes the transactions of one group.
type writer struct {
	*scribe

	zxid int64
	all  []*txnlog.Txn
}

// take takes in a transaction.
func (w *writer) take(txn txnlog.Txn) {
	w.all = append(w.all, &txn)
	w.apply(&txn)
}

func at(second int64) time.Time { return time.Unix(1_800_000_000+second, 0) }

func (w *writer) write(second, session int64, ops ...txnlog.Op) int64 {
	w.zxid++
	w.take(txnlog.Txn{Zxid: w.zxid, Session: session, Time: at(second), Kind: txnlog.Write, Ops: ops})
	return w.zxid
}

func create(path string, data []byte) txnlog.Op {
	return txnlog.Op{Type: txnlog.Create, Path: path, Data: data}
}

func set(path string, data []byte, version int32) txnlog.Op {
	return txnlog.Op{Type: txnlog.SetData, Path: path, Data: data, Version: version}
}

// join connects an instance and returns an owner record that names it.
func (w *writer) join(session int64, sid string) []byte {
	w.zxid++
	w.take(txnlog.Txn{Zxid: w.zxid, Session: session, Time: at(0), Kind: txnlog.Connect, Timeout: 4 * time.Second})
	op := create(tree.Instance(sid), zkrec.Instance{Incarnation: sid + "!"}.Encode())
	op.Owner = session
	w.write(0, session, op)
	return zkrec.Owner{SID: sid, Incarnation: sid + "!"}.Encode()
}

// A job is claimed by its owner, and by the next one when that session has ended; then it is
// canceled.
func TestScribe(t *testing.T) {
	t.Parallel()
	w := &writer{scribe: newScribe("g")}
	a, b := w.join(1, "a"), w.join(2, "b")
	const operator = 3
	w.zxid++
	w.take(txnlog.Txn{Zxid: w.zxid, Session: operator, Time: at(0), Kind: txnlog.Connect, Timeout: time.Second})
	var nodes []txnlog.Op
	for _, n := range tree.NewJob("j", zkrec.Spec{Job: job.Job{Schedule: "* * * * * ?"}}) {
		nodes = append(nodes, create(n.Path, n.Data))
	}
	born := w.write(0, operator, nodes...)

	token := w.write(0, 1, set(tree.Alive("j"), a, 1), create(tree.Heartbeat("j", "a"), nil))
	claim := zkrec.Tick{Watermark: at(1).UnixMilli(), Run: zkrec.Run{
		Tick: at(1).UnixMilli(), RunID: "r1", SID: "a", Token: token, Attempt: 1, Started: at(1).UnixMilli(), State: history.StateRunning,
	}}
	claimed := w.write(1, 1, set(tree.Tick("j"), claim.Encode(), 1))
	ended := claim
	ended.State, ended.Ended = history.StateOK, at(2).UnixMilli()
	skipped := zkrec.Entry{Run: zkrec.Run{Tick: at(2).UnixMilli(), SID: "a", Token: token, State: history.StateSkipped, Ended: at(2).UnixMilli()}, Reason: history.ReasonOverlap}
	ended.Watermark = at(2).UnixMilli()
	log := zkrec.Log{}.Add(zkrec.MinHistory, claim.Watermark, zkrec.Entry{Run: ended.Run}, skipped)
	ended.History = log.Mark()
	w.write(2, 1, set(tree.Tick("j"), ended.Encode(), 2), set(tree.History("j"), log.Encode(0), 1))

	w.zxid++
	w.take(txnlog.Txn{
		Zxid: w.zxid, Session: 1, Time: at(7), Kind: txnlog.Close, Ops: []txnlog.Op{{Type: txnlog.Delete, Path: tree.Instance("a")}},
	})
	w.write(8, 2, set(tree.Alive("j"), b, 2), txnlog.Op{Type: txnlog.Delete, Path: tree.Heartbeat("j", "a")}, create(tree.Heartbeat("j", "b"), nil))

	life := Life{"j", born}
	want := Claim{Life: life, Zxid: claimed, At: at(1), Tick: at(1).UnixMilli(), Attempt: 1, Token: token, Run: "r1", SID: "a", State: "ok", Ended: at(2), result: claimed + 1}
	if len(w.Claims) != 1 || *w.Claims[0] != want {
		t.Errorf("claims %+v, want %+v", w.Claims, want)
	}
	if got := w.Skipped[life]; len(got) != 1 || got[at(2).UnixMilli()] != history.ReasonOverlap {
		t.Errorf("skipped %v, want the tick of %v", w.Skipped, at(2))
	}
	if len(w.Violations) != 0 {
		t.Errorf("violations %v, want none", w.Violations)
	}
	w.finish()
	if !w.Last[life] || len(w.Last) != 1 {
		t.Errorf("what is left: %v, want %v", w.Last, life)
	}

	w.write(9, operator, txnlog.Op{Type: txnlog.Delete, Path: tree.Job("j")})
	var owners []string
	for _, o := range w.Owners["j"] {
		owners = append(owners, o.At.UTC().Format("05")+o.SID)
		if o.Gone {
			owners = append(owners, "gone")
		}
	}
	if got, want := strings.Join(owners, " "), "00 00a 07 08b 09 gone"; got != want {
		t.Errorf("owners %q, want %q", got, want)
	}
	w.finish()
	if len(w.Last) != 0 {
		t.Errorf("what is left of a canceled job: %v", w.Last)
	}
}

// A claim by an instance that is not the owner is a violation.
func TestScribeReportsViolations(t *testing.T) {
	t.Parallel()
	w := &writer{scribe: newScribe("g")}
	w.join(1, "a")
	var nodes []txnlog.Op
	for _, n := range tree.NewJob("j", zkrec.Spec{Job: job.Job{Schedule: "* * * * * ?"}}) {
		nodes = append(nodes, create(n.Path, n.Data))
	}
	w.write(0, 1, nodes...)
	claim := zkrec.Tick{Watermark: at(1).UnixMilli(), Run: zkrec.Run{Tick: at(1).UnixMilli(), RunID: "r", SID: "a", Token: 1, Attempt: 1, State: history.StateRunning}}
	w.write(1, 1, set(tree.Tick("j"), claim.Encode(), 1))
	if len(w.Violations) != 1 || w.Violations[0].Rule != "claimant" || w.Violations[0].Slot != "j" {
		t.Errorf("violations %v, want one of the rule claimant", w.Violations)
	}
}

// lostClaim is a job that a owns and has claimed the first two ticks of, the second one in a
// transaction that the next leader does not have: it returns the record of the first claim.
func lostClaim() (w *writer, first zkrec.Tick) {
	w = &writer{scribe: newScribe("g")}
	a := w.join(1, "a")
	var nodes []txnlog.Op
	for _, n := range tree.NewJob("j", zkrec.Spec{Job: job.Job{Schedule: "* * * * * ?"}}) {
		nodes = append(nodes, create(n.Path, n.Data))
	}
	w.write(0, 2, nodes...)
	token := w.write(0, 1, set(tree.Alive("j"), a, 1), create(tree.Heartbeat("j", "a"), nil))
	first = zkrec.Tick{Watermark: at(1).UnixMilli(), Run: zkrec.Run{
		Tick: at(1).UnixMilli(), RunID: "r1", SID: "a", Token: token, Attempt: 1, Started: at(1).UnixMilli(), State: history.StateRunning,
	}}
	w.write(1, 1, set(tree.Tick("j"), first.Encode(), 1))
	second := first
	second.Ended, second.State, second.Watermark = at(2).UnixMilli(), history.StateOK, at(1).UnixMilli()
	log := zkrec.Log{}.Add(zkrec.MinHistory, first.Watermark, zkrec.Entry{Run: second.Run})
	second.History = log.Mark()
	w.write(2, 1, set(tree.Tick("j"), second.Encode(), 2), set(tree.History("j"), log.Encode(0), 1))
	second.Run = zkrec.Run{Tick: at(2).UnixMilli(), RunID: "r2", SID: "a", Token: token, Attempt: 1, State: history.StateRunning}
	second.Watermark = at(2).UnixMilli()
	w.write(2, 1, set(tree.Tick("j"), second.Encode(), 3))
	w.zxid = 1 << 32 // the next leader
	first.History = log.Mark()
	return w, first
}

// third claims a third run, at a version of the tick record, and ends the log.
func (w *writer) third(first zkrec.Tick, version int32) {
	claim := first
	claim.Watermark, claim.RunID = at(2).UnixMilli(), "r3"
	claim.Tick = claim.Watermark
	w.write(3, 1, set(tree.Tick("j"), claim.Encode(), version))
	w.finish()
}

// Transactions that ZooKeeper has lost are forgotten, and later ones are judged by the records that
// it had left.
func TestScribeAfterALoss(t *testing.T) {
	t.Parallel()
	w, first := lostClaim()
	w.third(first, 3) // the version that r2 had written
	if len(w.Violations) != 0 || len(w.Losses) != 1 || w.Losses[0].Txns != 1 {
		t.Errorf("violations %v, losses %+v, want none and one", w.Violations, w.Losses)
	}
	if r1, r2, r3 := w.Claims[0], w.Claims[1], w.Claims[2]; r1.GoneAt != 0 || r1.State != "ok" || !r2.Lost || r2.GoneAt != r3.Zxid || r3.Lost {
		t.Errorf("claims %+v, %+v, %+v, want the second to be lost", r1, r2, r3)
	}

	w, first = lostClaim()
	w.third(first, 4) // after r2
	if len(w.Violations) == 0 || w.Violations[0].Rule != "claim" || len(w.Losses) != 0 || w.Claims[1].Lost {
		t.Errorf("the same without a loss: violations %v, losses %v", w.Violations, w.Losses)
	}

	w, first = lostClaim()
	w.third(first, 2) // the result of r1 is gone as well
	if len(w.Losses) != 1 || w.Claims[0].GoneAt == 0 || w.Claims[0].Lost || !w.Claims[1].Lost {
		t.Errorf("losses %v, claims %+v, %+v", w.Losses, w.Claims[0], w.Claims[1])
	}
	if len(w.Violations) == 0 || w.Violations[0].Rule != "account" {
		t.Errorf("violations %v: the first run has no result, and the next one was claimed", w.Violations)
	}
}

// A transaction that one leader did without and a later one had again is judged at its first place
// in the log.
func TestCameBack(t *testing.T) {
	t.Parallel()
	const next = 1 << 32
	w, first := lostClaim()
	ended := first
	ended.RunID, ended.State, ended.Tick, ended.Watermark = "r2", history.StateOK, at(2).UnixMilli(), at(2).UnixMilli()
	before := first.Run
	before.State, before.Ended = history.StateOK, at(2).UnixMilli()
	past := zkrec.Log{}.Add(zkrec.MinHistory, 0, zkrec.Entry{Run: before}).Add(zkrec.MinHistory, 0, zkrec.Entry{Run: ended.Run})
	ended.History = past.Mark()
	w.write(0, 1) // of a leader that did without r2
	w.zxid = 2 * next
	w.write(3, 1, set(tree.Tick("j"), ended.Encode(), 4), set(tree.History("j"), past.Encode(0), 2))
	r2 := w.Claims[1].Zxid
	committed := make(map[int64]bool)
	for _, txn := range w.all {
		committed[txn.Zxid] = txn.Zxid != r2
	}
	log, err := judge("g", committed, func(visit func(*txnlog.Txn)) error {
		for _, txn := range w.all {
			visit(txn)
		}
		return nil
	})
	if err != nil || len(log.Losses) != 1 || log.Losses[0] != (Loss{First: r2, Last: r2, Txns: 1, Shown: 2*next + 1, Time: at(3), Back: true}) {
		t.Fatalf("%v, losses %+v", err, log.Losses)
	}
	if len(log.Violations) != 0 || len(log.Claims) != 2 || log.Claims[1].State != history.StateOK || log.Claims[1].Lost || log.Dropped != 0 {
		t.Errorf("violations %v, claims %v, dropped %d", log.Violations, log.Claims, log.Dropped)
	}
}

// A transaction that servers have lost with their data is lost, and one that they had before and
// still have is not: of two claims, the second one's result and then the second one.
func TestRestored(t *testing.T) {
	t.Parallel()
	w, first := lostClaim()
	again := func(kept int) (before, after *writer) {
		before, after = &writer{scribe: newScribe("g")}, &writer{scribe: newScribe("g")}
		for k, txn := range w.all {
			before.take(*txn)
			if k < kept {
				after.take(*txn)
				after.zxid = txn.Zxid
			}
		}
		before.finish()
		return before, after
	}
	before, after := again(len(w.all) - 1) // without the claim r2
	after.third(first, 3)
	after.follow(before.Log)
	r1, r2, r3 := after.Claims[0], after.Claims[1], after.Claims[2]
	if r1.GoneAt != 0 || r1.Lost || !r2.Lost || r2.GoneAt == 0 || r3.Lost || r3.Zxid < r2.GoneAt || r2.Zxid >= r2.GoneAt || r3.Run != "r3" {
		t.Errorf("claims %+v, %+v, %+v, want the second to be lost", r1, r2, r3)
	}
	want := Restore{At: at(2), Through: w.all[len(w.all)-2].Zxid, Lost: 1}
	if len(after.Restores) != 1 || after.Restores[0] != want || len(after.Violations) != 0 {
		t.Errorf("restores %+v, violations %v, want %+v", after.Restores, after.Violations, want)
	}
	owners := after.Owners["j"]
	if n := len(owners); n != len(before.Owners["j"])+1 || owners[n-1].SID != "" || owners[n-1].At != at(2) {
		t.Errorf("owners %+v: nobody owns what is lost", owners)
	}

	_, more := again(len(w.all) - 2) // without the result of r1, too: that is another violation
	more.third(first, 2)
	more.follow(before.Log)
	if r1 := more.Claims[0]; r1.GoneAt == 0 || r1.Lost || more.Restores[0].Lost != 2 || len(more.Violations) == 0 {
		t.Errorf("%+v, restores %+v, want the result to be gone; violations %v", r1, more.Restores, more.Violations)
	}

	_, empty := again(0)
	empty.finish()
	empty.follow(before.Log)
	_, other := again(0)
	other.write(9, 1)
	other.finish()
	other.follow(empty.Log)
	for _, c := range other.Claims {
		if !c.Lost || c.GoneAt != 1<<restoreShift {
			t.Errorf("%+v was not lost when all was", c)
		}
	}
	if c := other.Claims[0]; c.Restore() != 1 {
		t.Errorf("lost with restore %d, want the first", c.Restore())
	}
	for k, want := range []int{2, 0, 0} {
		if claims := other.Times[k].Claims; len(claims) != want || slices.ContainsFunc(claims, func(c *Claim) bool { return c.Lost }) {
			t.Errorf("time %d by itself has claims %v", k, claims)
		}
	}
	if n := len(other.Restores); n != 2 || other.Restores[0].Through != 0 || other.Restores[0].Lost != len(w.all) || other.Restores[1].Lost != 0 {
		t.Errorf("restores %+v", other.Restores)
	}
}

// A claim that the servers lose by themselves is not lost with the data that was replaced before.
func TestLostAfterARestore(t *testing.T) {
	t.Parallel()
	before := &writer{scribe: newScribe("g")}
	before.finish()
	w, first := lostClaim()
	w.third(first, 3) // the version that r2 had written
	w.follow(before.Log)
	if r2 := w.Claims[1]; !r2.Lost || r2.GoneAt <= r2.Zxid || r2.Restore() != 0 {
		t.Errorf("%+v was lost with restore %d, want none", r2, r2.Restore())
	}
}

// Committed transactions are found in logs of which none is complete, and which have others that
// were never committed.
func TestChain(t *testing.T) {
	t.Parallel()
	const next = 1 << 32 // the first zxid of the next leader is one more
	from := func(snapshots []int64, zxids ...int64) digest {
		d := newDigest("d", snapshots...)
		for _, zxid := range zxids {
			d.add(&txnlog.Txn{Zxid: zxid})
		}
		return d
	}
	log := func(zxids ...int64) digest { return from(nil, zxids...) }
	other := log(1, 2, 3)
	other.sums[2]++
	for name, test := range map[string]struct {
		logs []digest
		want string // what was committed, or the error
	}{
		"the same":                    {[]digest{log(1, 2, 3), log(1, 2, 3), log(1, 2, 3)}, "1 2 3"},
		"one is behind":               {[]digest{log(1, 2, 3), log(1), log(1, 2, 3)}, "1 2 3"},
		"the last one is not known":   {[]digest{log(1, 2, 3), log(1, 2), log(1, 2)}, "1 2"},
		"gaps in all":                 {[]digest{log(1, 2, 5, 6), log(1, 4, 5, 6), log(1, 2, 3, 4, 6)}, "1 2 3 4 5 6"},
		"a gap":                       {[]digest{log(1, 2, 5, 6), log(1, 2, 5, 6), log(1, 2, 6)}, "no log has what comes before transaction 0x5"},
		"a new leader":                {[]digest{log(1, 2, next+1), log(1, 2, next+1), log(1, 2, next+1)}, "1 2 n1"},
		"what was never committed":    {[]digest{log(1, 2, 3, next+1), log(1, 2, next+1), log(1, 2, next+1)}, "1 2 n1"},
		"and one was sent a snapshot": {[]digest{log(1, 2, 3, next+1), log(1, 2, next+1), from([]int64{2}, 1, next+1)}, "1 2 n1"},
		"committed, and a snapshot":   {[]digest{log(1, 2, 3, next+1), log(1, 2, 3, next+1), from([]int64{1, 3}, 1, 2, next+1)}, "1 2 3 n1"},
		"a first leader did nothing": {
			[]digest{from([]int64{0, next}, 2*next+1, 2*next+2), from([]int64{0, next}, 2*next+1), from([]int64{next}, 2*next+1, 2*next+2)}, "n1 n2",
		},
		"a second one sent more":      {[]digest{from([]int64{next + 1}, 2*next+1), from([]int64{next + 1}, 2*next+1)}, "no log has what comes before transaction 0x200000001"},
		"lost":                        {[]digest{log(1, 2, 3, next+1), log(1, 2, 3, next+2), log(1, 2, next+1, next+2)}, "1 2 3 n1 n2"},
		"one began later":             {[]digest{log(1, 2, next+1), log(1, 2, next+1), log(next + 1)}, "1 2 n1"},
		"two transactions in a place": {[]digest{log(1, 2, 3), log(1, 2, 3), other}, "transaction 0x2 in d is another one elsewhere"},
	} {
		committed, err := chain(test.logs)
		var got []string
		for _, zxid := range slices.Sorted(maps.Keys(committed)) {
			got = append(got, strings.TrimPrefix(fmt.Sprint(map[bool]string{true: "n"}[zxid > next], zxid%next), " "))
		}
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if text != test.want {
			t.Errorf("%s: %q, want %q", name, text, test.want)
		}
	}
}
