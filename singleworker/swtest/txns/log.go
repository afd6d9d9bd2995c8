package txns

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Log is what transactions say.
type Log struct {
	Claims []*Claim // in ZooKeeper's order
	// Skipped are the ticks that were recorded as not run, in Unix milliseconds, with the reason.
	Skipped map[Life]map[int64]string
	// Owners has, by slot, each change of the owner that lives, in ZooKeeper's order.
	Owners map[string][]Ownership
	// Last are the lives that had not ended.
	Last       map[Life]bool
	Counts     Counts
	Violations []Violation
	// Lost are transactions that most servers had logged, so that clients may have been told of them, and that were
	// not there later: ZooKeeper has not kept its promise, and those of the group do not hold either.
	Lost []int64
	// Dropped counts the other transactions that a server had logged and that were never committed.
	Dropped int
}

// Life is a slot from its creation to its deletion: a job that is canceled and submitted has a new one, and so has
// a shard that was removed and comes back.
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
	State   string // of its result, as on record in the end; empty if it has no result
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

// A scribe reads transactions into a log.
type scribe struct {
	*Log

	model  *ledger.Model
	ledger *ledger.Ledger
	born   map[string]int64 // by slot, of its last life
	runs   map[string]*Claim
}

func newScribe(group string) *scribe {
	tree := zkrec.NewTree(group)
	s := &scribe{
		Log:   &Log{Skipped: make(map[Life]map[int64]string), Owners: make(map[string][]Ownership)},
		model: ledger.NewModel(tree), born: make(map[string]int64), runs: make(map[string]*Claim),
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

func (s *scribe) recorded(_ *txnlog.Txn, _ string, entry zkrec.Entry, _ bool) {
	if c := s.runs[entry.RunID]; c != nil {
		c.State = entry.State
	}
}

func (s *scribe) skipped(slot string, tick int64, entry zkrec.Entry) {
	life := s.life(slot)
	if s.Skipped[life] == nil {
		s.Skipped[life] = make(map[int64]string)
	}
	s.Skipped[life][tick] = entry.Reason
}

func (s *scribe) violated(v ledger.Violation) {
	s.Violations = append(s.Violations, Violation{string(v.Rule), v.Txn.Time, v.Slot, v.String()})
}

// apply takes in the next transaction.
func (s *scribe) apply(txn *txnlog.Txn) {
	s.model.Apply(txn)
	owners := txn.Kind == txnlog.Close
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
}

// end notes what there is after the last transaction.
func (s *scribe) end() {
	s.Counts, s.Last = s.ledger.Counts(), make(map[Life]bool)
	for slot, j := range s.model.Jobs {
		if s.model.IsSlot(slot) {
			s.Last[Life{slot, j.Born}] = true
		}
	}
}

// noteOwners notes who owns what now, where that has changed.
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
