package txns

import (
	"cmp"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Log is the life of a group by its transactions.
type Log struct {
	Claims []*Claim // in ZooKeeper's order
	// Skipped are the ticks that were recorded as not run, in Unix milliseconds, with the reason.
	Skipped map[Life]map[int64]history.Reason
	// Owners has, by slot, each change of the owner that lives, in ZooKeeper's order.
	Owners map[string][]Ownership
	// Last are the lives that had not ended.
	Last       map[Life]bool
	Counts     Counts
	Violations []Violation
	// Losses are the transactions that ZooKeeper has lost, although clients may have been told of
	// them: a later one shows that the leader worked without them. Later transactions are judged by
	// the records that it worked with.
	Losses []Loss
	// Dropped counts the transactions that a server had logged and that were never committed.
	Dropped int
	// Restores are the times at which the servers' data was replaced, in their order.
	Restores []Restore
	// Times are the logs as of each of them, and in the end, if there are any: each as if nothing had
	// come afterwards.
	Times []*Log

	order []int64          // zxids of the transactions
	sums  map[int64]uint64 // likewise
	end   time.Time        // of the last transaction
}

// Life is a slot from its creation to its deletion: a job that is canceled and submitted has a new
// one, and so has a shard that was removed and comes back.
type Life struct {
	Slot string
	Born int64 // zxid
}

// Claim is a run that ZooKeeper has accepted, of a tick or of a request.
type Claim struct {
	Life

	Zxid    int64
	At      time.Time
	Tick    int64 // Unix milliseconds
	Manual  bool
	Attempt int
	Token   int64
	Run     string
	SID     string
	State   history.State // of its result, as on record in the end; empty if it has no result
	// NotBegun says that the result says that the handler was certainly not called: another claim is
	// the same attempt.
	NotBegun bool
	// Ended is when its first result was recorded; zero if it has none.
	Ended time.Time
	// Lost says that ZooKeeper has lost the claim. GoneAt is the zxid of the transaction that shows
	// that it has lost the claim, its result, or the ownership; 0 if none does.
	Lost   bool
	GoneAt int64

	result int64 // zxid of its last result
}

// Ownership says who owns a slot from a moment on.
type Ownership struct {
	At          time.Time
	SID         string // empty if no instance that lives does
	Incarnation string
	Gone        bool // the slot does not exist, or not any more
}

// Violation is a promise that the transactions break.
type Violation struct {
	Rule string
	At   time.Time
	Slot string
	Text string
}

// Counts is how much there was to judge.
type Counts = ledger.Counts

// Loss is a number of transactions that ZooKeeper has lost.
type Loss = txnlog.Loss

// A scribe reads transactions into a log.
type scribe struct {
	*Log

	model  *ledger.Model
	ledger *ledger.Ledger
	past   *txnlog.History
	born   map[string]int64 // by slot, of its last life
	runs   map[string]*Claim
	zxid   int64
	skips  map[int64][]skip // by zxid of the transaction that recorded them
}

type skip struct {
	life Life
	tick int64
}

func newScribe(group string) *scribe {
	tree := zkrec.NewTree(group)
	s := &scribe{
		Log:   &Log{Skipped: make(map[Life]map[int64]history.Reason), Owners: make(map[string][]Ownership), sums: make(map[int64]uint64)},
		model: ledger.NewModel(tree), past: txnlog.NewHistory(), born: make(map[string]int64), runs: make(map[string]*Claim),
		skips: make(map[int64][]skip),
	}
	s.ledger = ledger.New(tree, true, ledger.Observer{Claimed: s.claimed, Recorded: s.recorded, Skipped: s.skipped}, s.violated)
	return s
}

func (s *scribe) life(slot string) Life { return Life{slot, s.born[slot]} }

func (s *scribe) claimed(txn *txnlog.Txn, slot string, rec zkrec.Tick, _ zkrec.Layout) {
	c := &Claim{
		Life: s.life(slot), Zxid: txn.Zxid, At: txn.Time, Tick: rec.Tick, Manual: rec.Manual != "",
		Attempt: rec.Attempt, Token: rec.Token, Run: rec.RunID, SID: rec.SID,
	}
	s.Claims = append(s.Claims, c)
	s.runs[c.Run] = c
}

func (s *scribe) recorded(txn *txnlog.Txn, _ string, entry zkrec.Entry, _ bool) {
	if c := s.runs[entry.RunID]; c != nil {
		c.State, c.NotBegun, c.result = entry.State, entry.NotBegun, txn.Zxid
		if c.Ended.IsZero() {
			c.Ended = txn.Time
		}
	}
}

func (s *scribe) skipped(slot string, tick int64, entry zkrec.Entry) {
	life := s.life(slot)
	if s.Skipped[life] == nil {
		s.Skipped[life] = make(map[int64]history.Reason)
	}
	s.Skipped[life][tick] = entry.Reason
	s.skips[s.zxid] = append(s.skips[s.zxid], skip{life, tick})
}

func (s *scribe) violated(v ledger.Violation) {
	s.Violations = append(s.Violations, Violation{string(v.Rule), v.Txn.Time, v.Slot, v.String()})
}

// apply takes in the next transaction. It returns the zxid of one that was set aside and that this
// one shows to be there, or 0.
func (s *scribe) apply(txn *txnlog.Txn) (back int64) {
	s.zxid, s.end = txn.Zxid, txn.Time
	s.order, s.sums[txn.Zxid] = append(s.order, txn.Zxid), sumOf(txn)
	returns, back := s.past.Next(txn)
	for _, r := range returns {
		s.undo(r)
	}
	s.model.Apply(txn)
	owners := txn.Kind == txnlog.Close || len(returns) > 0
	for k := range txn.Ops {
		slot, node, rest, ok := s.model.Split(txn.Ops[k].Path)
		owners = owners || ok && (slot == "" || node == ledger.NodeAlive && rest == "" || node == ledger.NodeJob)
		if j := s.model.Jobs[slot]; ok && j != nil {
			s.born[slot] = j.Born
		}
	}
	if owners {
		s.noteOwners(txn.Time)
	}
	s.ledger.Apply(txn)
	return back
}

// undo takes back transactions that ZooKeeper has lost.
func (s *scribe) undo(r txnlog.Return) {
	slot, node, rest, _ := s.model.Split(r.Path)
	for _, n := range r.Gone {
		switch {
		case rest != "" && node != ledger.NodeHistory:
		case node == ledger.NodeTick:
			s.forget(n)
		case node == ledger.NodeAlive:
			for _, c := range s.Claims {
				if c.Slot == slot && c.Token == n.Mzxid {
					c.GoneAt = cmp.Or(c.GoneAt, s.zxid)
				}
			}
		case node == ledger.NodeHistory:
			for _, one := range s.skips[n.Mzxid] {
				if one.life.Slot == slot {
					delete(s.Skipped[one.life], one.tick)
				}
			}
		}
	}
	s.model.Return(r)
	s.ledger.Return(r)
}

// forget marks the claim of a tick record that is gone.
func (s *scribe) forget(n txnlog.Node) {
	rec, err := zkrec.ParseTick(n.Data, n.Mtime)
	if c := s.runs[rec.RunID]; err == nil && c != nil {
		c.Lost = c.Lost || c.Zxid == n.Mzxid
		c.GoneAt = cmp.Or(c.GoneAt, s.zxid)
	}
}

// finish notes the state after the last transaction.
func (s *scribe) finish() {
	s.Counts, s.Last, s.Losses = s.ledger.Counts(), make(map[Life]bool), s.past.Losses()
	for slot, j := range s.model.Jobs {
		if s.model.IsSlot(slot) {
			s.Last[Life{slot, j.Born}] = true
		}
	}
}

// noteOwners notes the owners of slots now, where that has changed.
func (s *scribe) noteOwners(at time.Time) {
	for slot := range s.model.Jobs {
		if _, known := s.Owners[slot]; !known && s.model.IsSlot(slot) {
			s.Owners[slot] = []Ownership{{At: at}}
		}
	}
	for slot, past := range s.Owners {
		now := Ownership{At: at, Gone: !s.model.IsSlot(slot)}
		if now.SID = s.model.LiveOwner(slot); now.SID != "" {
			now.Incarnation = s.model.Jobs[slot].Owner.Incarnation
		}
		last := past[len(past)-1]
		if last.At = at; last != now {
			s.Owners[slot] = append(past, now)
		}
	}
}
