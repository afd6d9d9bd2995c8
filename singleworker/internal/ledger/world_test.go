package ledger_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

var tree = zkrec.NewTree("apps/g")

const (
	timeout  = 10 * time.Second
	operator = 99 // a session
)

// at is a second after the beginning, which is a whole minute.
func at(second float64) time.Time {
	return time.UnixMilli(1_800_000_000_000 + int64(second*1000))
}

func ms(second float64) int64 { return at(second).UnixMilli() }

// A world writes a group's transactions, one with each step.
type world struct {
	ledger   *ledger.Ledger
	zxid     int64
	sessions map[string]int64 // by instance
	owner    map[string]string
	token    map[string]int64
	tick     map[string]zkrec.Tick
	history  map[string]zkrec.Log
	found    []ledger.Violation
}

// newWorld has the instances a and b, and a job j every ten seconds.
func newWorld(t *testing.T, whole bool) *world {
	t.Helper()
	w := &world{
		sessions: make(map[string]int64), owner: make(map[string]string), token: make(map[string]int64),
		tick: make(map[string]zkrec.Tick), history: make(map[string]zkrec.Log),
	}
	w.ledger = ledger.New(tree, whole, ledger.Observer{}, func(v ledger.Violation) { w.found = append(w.found, v) })
	w.connect(operator)
	w.join(0, "a", 1)
	w.join(0, "b", 2)
	w.submit(0, "j", job.Job{Schedule: "*/10 * * * * ?"})
	return w
}

func (w *world) txn(second float64, session int64, ops ...txnlog.Op) *txnlog.Txn {
	w.zxid++
	return &txnlog.Txn{Zxid: w.zxid, Session: session, Time: at(second), Kind: txnlog.Write, Ops: ops}
}

func (w *world) write(second float64, session int64, ops ...txnlog.Op) {
	w.ledger.Apply(w.txn(second, session, ops...))
}

func create(path string, data []byte) txnlog.Op {
	return txnlog.Op{Type: txnlog.Create, Path: path, Data: data}
}
func set(path string, data []byte) txnlog.Op {
	return txnlog.Op{Type: txnlog.SetData, Path: path, Data: data}
}
func remove(path string) txnlog.Op { return txnlog.Op{Type: txnlog.Delete, Path: path} }

func (w *world) connect(session int64) {
	w.zxid++
	w.ledger.Apply(&txnlog.Txn{Zxid: w.zxid, Session: session, Time: at(0), Kind: txnlog.Connect, Timeout: timeout})
}

func (w *world) join(second float64, sid string, session int64) {
	w.connect(session)
	w.sessions[sid] = session
	w.rejoin(second, sid)
}

// rejoin makes an instance's node.
func (w *world) rejoin(second float64, sid string) {
	op := create(tree.Instance(sid), zkrec.Instance{Incarnation: sid + "!", SessionTimeout: zkrec.Duration(timeout)}.Encode())
	op.Owner = w.sessions[sid]
	w.write(second, op.Owner, op)
}

// expire ends the session of an instance. Its node goes with it.
func (w *world) expire(second float64, sid string) {
	w.zxid++
	w.ledger.Apply(&txnlog.Txn{Zxid: w.zxid, Session: w.sessions[sid], Time: at(second), Kind: txnlog.Close})
}

func (w *world) submit(second float64, name string, j job.Job) {
	var ops []txnlog.Op
	for _, n := range tree.NewJob(name, zkrec.Spec{Job: j}) {
		ops = append(ops, create(n.Path, n.Data))
	}
	w.tick[name], w.history[name] = zkrec.Tick{Watermark: ms(second)}, zkrec.Log{}
	w.write(second, operator, ops...)
}

func (w *world) cancel(second float64, name string) {
	var ops []txnlog.Op
	for _, path := range []string{tree.Alive(name), tree.Tick(name), tree.History(name), tree.Requests(name), tree.Register(name), tree.Job(name)} {
		ops = append(ops, remove(path))
	}
	w.write(second, operator, ops...)
}

// own makes an instance the owner of a slot, which may name one as relieved.
func (w *world) own(second float64, slot, sid string, relieved ...string) {
	record := zkrec.Owner{SID: sid, Incarnation: sid + "!"}
	for _, of := range relieved {
		record.Relieved = zkrec.Member{SID: of, Incarnation: of + "!"}
	}
	ops := []txnlog.Op{set(tree.Alive(slot), record.Encode())}
	if old := w.owner[slot]; old != "" {
		ops = append(ops, remove(tree.Heartbeat(slot, old)))
	}
	ops = append(ops, create(tree.Heartbeat(slot, sid), []byte("1")))
	w.write(second, w.sessions[sid], ops...)
	w.owner[slot], w.token[slot] = sid, w.zxid
}

func (w *world) beat(second float64, slot string) {
	w.write(second, w.sessions[w.owner[slot]], set(tree.Heartbeat(slot, w.owner[slot]), []byte("2")))
}

// release ends the ownership of a slot, in a session.
func (w *world) release(second float64, slot string, session int64) {
	w.write(second, session, set(tree.Alive(slot), nil), remove(tree.Heartbeat(slot, w.owner[slot])))
	w.owner[slot] = ""
}

// claimed is the record of a claim by the owner of a slot.
func (w *world) claimed(slot string, tick float64, run string) zkrec.Tick {
	return zkrec.Tick{Watermark: ms(tick), Run: zkrec.Run{
		Tick: ms(tick), RunID: run, SID: w.owner[slot], Token: w.token[slot], Attempt: 1, State: history.StateRunning,
	}}
}

// claims is the write of a claim of job j's tick at 20 s.
func (w *world) claims(run string) txnlog.Op {
	rec := w.claimed("j", 20, run)
	rec.History = w.history["j"].Mark()
	return set(tree.Tick("j"), rec.Encode())
}

// record writes a tick record as its instance, and adds entries to the history.
func (w *world) record(second float64, slot string, rec zkrec.Tick, entries ...zkrec.Entry) {
	w.recordIn(second, w.sessions[rec.SID], slot, rec, entries...)
}

func (w *world) recordIn(second float64, session int64, slot string, rec zkrec.Tick, entries ...zkrec.Entry) {
	w.history[slot] = w.history[slot].Add(zkrec.MinHistory, w.tick[slot].Watermark, entries...)
	rec.History = w.history[slot].Mark()
	ops := []txnlog.Op{set(tree.Tick(slot), rec.Encode())}
	if len(entries) > 0 {
		ops = append(ops, w.pages(slot)...)
	}
	w.tick[slot] = rec.Normal()
	w.write(second, session, ops...)
}

// amend has the result of a run come late, of which the history says something else.
func (w *world) amend(second float64, slot string, run zkrec.Run) {
	w.history[slot], _ = w.history[slot].Amend(zkrec.Entry{Run: run})
	rec := w.tick[slot]
	rec.History = w.history[slot].Mark()
	w.tick[slot] = rec
	w.write(second, 1, append(w.pages(slot), set(tree.Tick(slot), rec.Encode()))...)
}

// pages writes the pages of a history that have changed.
func (w *world) pages(slot string) (ops []txnlog.Op) {
	log := w.history[slot]
	for _, page := range log.Changed() {
		ops = append(ops, set(tree.HistoryPage(slot, page), log.Encode(page)))
	}
	return ops
}

// end writes the result of the open run.
func (w *world) end(second float64, slot string, state history.State) {
	rec := w.tick[slot]
	rec.State, rec.Ended = state, ms(second)
	if state == history.StateFailed {
		rec.NextAttempt = history.NextRetry
	}
	w.record(second, slot, rec, zkrec.Entry{Run: rec.Run})
}

// missed is an entry about ticks that were not run.
func missed(from, to float64, n int) zkrec.Entry {
	e := zkrec.Entry{Run: zkrec.Run{Tick: ms(from), State: history.StateMissed}, Reason: history.ReasonNoOwner}
	if n > 1 {
		e.To, e.Count = ms(to), n
	}
	return e
}

// again is the record of a further attempt.
func (w *world) again(slot, run string) zkrec.Tick {
	rec := w.claimed(slot, 0, run)
	last := w.tick[slot].Run
	if o := w.tick[slot].Again(); o.NextAttempt != "" {
		last = o.Run
	}
	rec.Watermark, rec.Tick, rec.Attempt = w.tick[slot].Watermark, last.Tick, last.Attempt+1
	return rec
}
