package ledger

import (
	"fmt"
	"maps"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Rule is a promise of a group about its transactions.
type Rule string

// The rules. The basis for judging one, such as a record that was written before the log begins,
// may be missing. Then the transaction is counted as not judged.
const (
	// Owner: an owner record names only the instance that wrote it. It is taken from another one only
	// if that incarnation's node is gone, or was gone since its last heartbeat, or that and its sign
	// of life are a session timeout old; and nobody else ends an ownership before. Of a job that runs
	// on every instance, each owns its own slot alone.
	Owner Rule = "owner"
	// Claim: no tick is claimed twice but by a further attempt at it, after one that was
	// interrupted or failed, or for a request that names it, once, as the attempt after the last;
	// no request is run twice, or dropped; no result replaces another run's claim. A run that is to
	// be repeated stays on record until it is, or there is a reason to give it up. No tick is
	// claimed of a pause that lasts until it is ended, or whose ticks are to be skipped. While the
	// group is frozen, nothing is claimed but for requests, and of jobs that are excepted.
	Claim Rule = "claim"
	// Claimant: only the owner claims, in its own session and with its own token. A session that is
	// no instance's spoils no record of a slot's ticks.
	Claimant Rule = "claimant"
	// Token: the fencing tokens of a slot's claims never go back.
	Token Rule = "token"
	// Account: whatever moves the watermark accounts for all ticks in between, by the schedule that
	// was in effect: each is in one entry of the history, or claimed. Each claim gets one result, and
	// a time that is not a tick gets none.
	Account Rule = "account"
	// Shards: all shards claim a tick under one layout, which ends when all are done with it; and a
	// tick that is recorded as complete is.
	Shards Rule = "shards"
	// Limit: a claim takes the places of limits that its run needs, of those that there are, and
	// which no other run holds. Whatever ends the run gives them back, and nothing does before. So at
	// each transaction as many places are taken as open runs hold, by the records of the slots.
	Limit Rule = "limit"
)

// Rules are all rules, in the order of the guarantees.
func Rules() []Rule { return []Rule{Owner, Claim, Claimant, Token, Account, Shards, Limit} }

// Violation is a rule that does not hold.
type Violation struct {
	Rule Rule
	Slot string // the job, or shard
	Txn  *txnlog.Txn
	Text string
	// ServerDue: an owner was relieved before a run was due by the true time, but by the group's, as
	// far as it is published, one was.
	ServerDue bool
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s: zxid %#x, session %#x, %s: %s", v.Rule, v.Slot, v.Txn.Zxid, v.Txn.Session, clock(v.Txn.Time), v.Text)
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func clockMs(ms int64) string { return clock(time.UnixMilli(ms)) }

// Counts is how much there was to judge.
type Counts struct {
	Txns      int // transactions
	Claims    int // of scheduled ticks
	Manual    int // claims of requests
	Attempts  int // further attempts among both
	Results   int // runs that have ended
	Ticks     int // accounted for, as claims or as ticks that were not run
	Owners    int // times that an instance became the owner of a slot
	Takeovers int // those from another owner
	Relieved  int // among these, owners that may have been alive, and had not claimed a run that was due
	Layouts   int // that replaced another one
	Complete  int // records of complete ticks
	Unjudged  int // writes for which it takes to know what was before the log
	Unread    int // records written that cannot be read: manually, or by a newer version
}

// Ledger judges transactions. Not safe for concurrent use.
type Ledger struct {
	counts  Counts
	observe Observer
	report  func(Violation)

	model *Model
	txn   *txnlog.Txn // that is applied
	// joined says as which instance a session joined; its node may be gone since. Began has the
	// sessions whose beginning was seen: of another one, earlier writes are unknown.
	joined map[int64]string
	began  map[int64]bool
	// claimed are the requests, by slot and id, of which a run was claimed, while they exist; runs are
	// those for manual runs.
	claimed, runs map[string]map[string]bool
	latest        map[string]int64 // by job, the latest tick that was claimed
	// policies are the policies of the last claims, by slot. stops are the runs that an operator wants
	// to end.
	policies  map[string]job.Job
	stops     map[string]map[string]bool
	taken     []taken                // by the transaction
	holders   map[zkrec.Place]string // the slots whose open runs hold places, by their records
	places    []zkrec.Place          // whose nodes the transaction has changed
	disowned  map[int64]bool         // tokens of ownerships that ZooKeeper has lost
	schedules map[zone]*cronexpr.Schedule
	whole     bool // nothing before is unknown
}

// Observer is told of all that there was to judge; each func may be nil. The simulation compares it
// with the reports of handlers and hooks.
type Observer struct {
	Claimed  func(txn *txnlog.Txn, slot string, record zkrec.Tick, layout zkrec.Layout)
	Recorded func(txn *txnlog.Txn, slot string, entry zkrec.Entry, amended bool) // how a run ended
	Skipped  func(slot string, tick int64, entry zkrec.Entry)                    // a tick that was not run
	Divided  func(job string, layout zkrec.Layout)                               // it is in effect from now on
	Complete func(txn *txnlog.Txn, job string, after, through int64)
}

// New returns a ledger for an empty tree, or, if whole is false, for one of which nothing is known.
// It calls report for every violation.
func New(tree zkrec.Tree, whole bool, observe Observer, report func(Violation)) *Ledger {
	return &Ledger{
		observe: observe, report: report, model: NewModel(tree), whole: whole,
		joined: make(map[int64]string), began: make(map[int64]bool),
		claimed: make(map[string]map[string]bool), runs: make(map[string]map[string]bool),
		policies: make(map[string]job.Job), stops: make(map[string]map[string]bool),
		latest: make(map[string]int64), holders: make(map[zkrec.Place]string), disowned: make(map[int64]bool), schedules: make(map[zone]*cronexpr.Schedule),
	}
}

// Counts returns how much was judged so far.
func (l *Ledger) Counts() Counts { return l.counts }

// Empty reports whether the tree has no node of the group.
func (l *Ledger) Empty() bool { return len(l.model.Jobs) == 0 && len(l.model.Instances) == 0 }

func (l *Ledger) violatef(rule Rule, slot, format string, args ...any) {
	l.report(Violation{Rule: rule, Slot: slot, Txn: l.txn, Text: fmt.Sprintf(format, args...)})
}

// touch is a transaction's effect on one slot, or on a job that is no slot.
type touch struct {
	before   Job   // a copy, but for its maps
	beat     Beat  // the last of its owner then
	made     nodes // created
	set      nodes // created, or set
	gone     nodes // deleted
	again    bool  // the tick record was set twice
	first    bool  // the tick record is set for the first time since its node was made
	idle     bool  // the tick record is proven to be the one that was read, see zkrec.Tree.Late
	requests []string
	owner    zkrec.Owner // when the tick record was set, with its token: the transaction may end the ownership after that
	token    int64
}

// nodes is a set of a slot's nodes.
type nodes struct{ job, alive, tick, history, shards bool }

func (n *nodes) add(node string) {
	switch node {
	case NodeJob:
		n.job = true
	case NodeAlive:
		n.alive = true
	case NodeTick:
		n.tick = true
	case NodeHistory:
		n.history = true
	case NodeShards:
		n.shards = true
	}
}

// Load takes in a node of a snapshot, without judging it. Load the sessions first.
func (l *Ledger) Load(n txnlog.Node) {
	op := created(n)
	l.note(&txnlog.Txn{Session: n.Owner}, &op)
	l.model.load(n)
}

// LoadSessions takes in those that live.
func (l *Ledger) LoadSessions(timeouts map[int64]time.Duration) {
	maps.Copy(l.model.Sessions, timeouts)
}

// Replay takes in a transaction without judging it: one of which a snapshot already shows traces.
func (l *Ledger) Replay(txn *txnlog.Txn) {
	for k := range txn.Ops {
		l.note(txn, &txn.Ops[k])
	}
	l.begin(txn)
	l.model.Apply(txn)
	l.end(txn)
}

// Apply judges the next transaction.
func (l *Ledger) Apply(txn *txnlog.Txn) {
	l.txn = txn
	l.counts.Txns++
	l.begin(txn)
	var order []string
	touched := make(map[string]*touch)
	for k := range txn.Ops {
		op := &txn.Ops[k]
		l.note(txn, op)
		slot, node, rest, ok := l.model.Split(op.Path)
		if ok && slot != "" && op.Type != txnlog.Check && (rest == "" || node == NodeHistory || op.Type == txnlog.Delete && (node == NodeRequests || node == NodeTick)) {
			t := touched[slot]
			if t == nil {
				t = l.touch(slot)
				touched[slot] = t
				order = append(order, slot)
			}
			t.add(op, node, rest)
			if j := l.model.Jobs[slot]; j != nil && node == NodeTick && rest == "" {
				t.owner, t.token = j.Owner, j.Token
			}
		}
		if place, is := l.model.tree.HeldPlaceAt(op.Path); is && op.Type != txnlog.Check {
			l.judgePlace(place, op)
		}
		l.model.apply(txn, op)
	}
	if txn.Kind == txnlog.Close {
		l.model.Apply(&txnlog.Txn{Kind: txn.Kind, Session: txn.Session})
	}
	for _, slot := range order {
		l.judge(slot, touched[slot])
	}
	l.judgeLeft()
	l.judgePlaces(order, touched)
	l.end(txn)
}

func (l *Ledger) begin(txn *txnlog.Txn) {
	if txn.Kind == txnlog.Connect {
		l.model.Sessions[txn.Session] = txn.Timeout
		l.began[txn.Session] = true
	}
}

func (l *Ledger) end(txn *txnlog.Txn) {
	if txn.Kind == txnlog.Close {
		delete(l.joined, txn.Session)
		delete(l.began, txn.Session)
	}
}

func (l *Ledger) touch(slot string) *touch {
	t := &touch{}
	if j := l.model.Jobs[slot]; j != nil {
		t.before = *j
		t.beat = j.Beats[j.Owner.SID]
	}
	return t
}

func (t *touch) add(op *txnlog.Op, node, rest string) {
	switch {
	case rest != "" && node == NodeTick:
		t.idle = true
	case rest != "" && node == NodeHistory: // another page of it
		t.set.history = t.set.history || op.Type != txnlog.Delete
	case rest != "":
		t.requests = append(t.requests, rest)
	case op.Type == txnlog.Delete:
		t.gone.add(node)
	default:
		t.again = t.again || node == NodeTick && t.set.tick
		t.first = t.first || node == NodeTick && op.Type == txnlog.SetData && op.Version == 1
		t.set.add(node)
		if op.Type == txnlog.Create {
			t.made.add(node)
		}
	}
}

// note takes in facts that the model does not keep: an instance's ID, and the content of a request.
func (l *Ledger) note(txn *txnlog.Txn, op *txnlog.Op) {
	slot, node, rest, ok := l.model.Split(op.Path)
	if ok && op.Type == txnlog.Delete && slot != "" && node == NodeRequests {
		l.noteOutlived(slot, rest)
	}
	if !ok || op.Type != txnlog.Create || rest == "" {
		return
	}
	if slot == "" && node != nodeOrders {
		l.joined[txn.Session] = rest
	}
	if slot != "" && node == NodeRequests {
		if request, err := zkrec.ParseRequest(op.Data); err == nil && request.IsRun() {
			add(l.runs, slot, rest)
			l.judgeTaken(slot, rest, request)
		} else if err == nil && request.Kind == zkrec.RequestStop {
			add(l.stops, slot, request.RunID)
		}
	}
}

func add(sets map[string]map[string]bool, slot, id string) {
	if sets[slot] == nil {
		sets[slot] = make(map[string]bool)
	}
	sets[slot][id] = true
}

// remove takes an id out of a set, and reports whether it was there.
func remove(sets map[string]map[string]bool, slot, id string) bool {
	there := sets[slot][id]
	if delete(sets[slot], id); len(sets[slot]) == 0 {
		delete(sets, slot)
	}
	return there
}

// judge judges the transaction's effect on a slot.
func (l *Ledger) judge(slot string, t *touch) {
	j := l.model.Jobs[slot]
	if j == nil {
		j = &Job{Name: slot}
	}
	if t.gone.job {
		delete(l.latest, slot)
	}
	if t.set.alive {
		l.judgeOwner(j, t)
	}
	if t.set.job && zkrec.JobOfSlot(slot) == slot {
		l.judgeSpec(j, t)
	}
	switch {
	case t.gone.tick:
		l.judgeEnd(slot, t)
	case t.made.tick:
		l.judgeBeginning(j)
	case t.set.tick || t.set.history && !t.made.history:
		l.judgeTick(j, t)
	}
	for _, id := range t.requests {
		l.judgeRequest(slot, id)
	}
	if t.set.shards && !t.made.shards {
		l.judgeComplete(j, t)
	}
}

// writer is the instance that made the transaction: "" if that was something else, such as an
// operator's client. It is not known of a session that began before the log, and has no node in it.
func (l *Ledger) writer() (sid string, known bool) {
	sid, joined := l.joined[l.txn.Session]
	return sid, joined || l.began[l.txn.Session]
}

// who names the writer.
func (l *Ledger) who() string {
	if sid, _ := l.writer(); sid != "" {
		return sid
	}
	return fmt.Sprintf("session %#x, which is no instance's,", l.txn.Session)
}

// unread counts a record that cannot be read. Instances write only records that can be. So if a
// session wrote it that is no instance's, somebody has spoiled it.
func (l *Ledger) unread(j *Job, what string) {
	l.counts.Unread++
	if writer, known := l.writer(); known && writer == "" && !j.Newer {
		l.violatef(Claimant, j.Name, "%s writes a %s that cannot be read", l.who(), what)
	}
}

// inForce reports whether a slot is one of its job's: not of a job that is gone, or being deleted,
// and not one that a new layout has retired.
func (l *Ledger) inForce(slot string) bool {
	job := l.model.Jobs[zkrec.JobOfSlot(slot)]
	return job != nil && job.Known.Spec && !job.Spec.Canceled && hasSlot(&job.Spec, slot)
}
