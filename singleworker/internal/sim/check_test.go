package sim

import (
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	rules "github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/swtest/audit"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// evidence is the checker's input. An instance's reports about itself, its leases and its hooks are
// compared with the log.
type evidence struct {
	tree    zkrec.Tree
	session time.Duration // as granted
	log     []zkdev.Txn
	runs    []swtest.Run
	rights  []swtest.Right
	hooks   []adoption   // what OnOwned was told
	told    []completion // what OnTickComplete was told
	warned  []warned     // what OnTickMissed was told
	forced  []forced
	// clocksOff: instances may judge ticks before their time.
	clocksOff bool
	// aheadMost is how far a claimed tick may be ahead of the server's time; zero or less: not judged.
	aheadMost time.Duration
	// In between nothing happened to the group, and all was settled.
	calmFrom, calmTo time.Time
	// unrecorded are the runs whose results OnRunEnd called unrecorded.
	unrecorded map[string]bool
	// contacts are when the server heard from sessions; silentFor is how long a group may take to
	// raise an alarm, and until when it was watched.
	contacts  []contact
	silentFor time.Duration
	until     time.Time
	latch     bool  // the group is in latch mode
	lost      *loss // for check
	answers   map[*zkdev.Client][]answer
	stops     map[*zkdev.Client][]stop
}

// witness collects the reports of a cluster's instances about themselves.
type witness struct {
	mu         sync.Mutex
	hooks      []adoption
	told       []completion
	warned     []warned
	forced     []forced
	unrecorded map[string]bool
	contacts   []contact
	latest     map[int64]int // of the contacts, by session
	answers    map[*zkdev.Client][]answer
	stops      map[*zkdev.Client][]stop
	behind     map[string]int // the places whose servers are behind
}

// listen makes the hooks of an instance tell the witness.
func (w *witness) listen(name string, hooks *singleworker.Hooks) {
	hooks.OnOwned = func(o singleworker.Ownership) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.hooks = append(w.hooks, adoption{o.Job, o.Shard.Index, name, o.Token, time.Now()})
	}
	hooks.OnTickComplete = func(r singleworker.TickResult) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, completion{name, time.Now(), r})
	}
	hooks.OnTickMissed = func(m singleworker.Missed) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.warned = append(w.warned, warned{name, time.Now(), m})
	}
	hooks.OnRunEnd = func(r singleworker.RunResult) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.unrecorded == nil {
			w.unrecorded = make(map[string]bool)
		}
		if r.Unrecorded != nil {
			w.unrecorded[r.RunID] = true
		}
	}
}

// evidence is all evidence when all instances have stopped.
func (w *witness) evidence(c *swtest.Cluster, session time.Duration) evidence {
	return evidence{
		tree: c.Tree(), session: session, log: c.Server.Log(), runs: c.Runs(), rights: c.Rights(),
		hooks: w.hooks, told: w.told, warned: w.warned, forced: w.forced, unrecorded: w.unrecorded,
		contacts: w.contacts, silentFor: 2 * session, until: time.Now(), answers: w.answers, stops: w.stops,
	}
}

// adoption is an owner record that names an instance.
type adoption struct {
	job   string // or slot, in the log
	shard int
	sid   string
	token int64
	at    time.Time
}

// forced is sessions ended from outside. The leases of those instances are not the
// protocol's business until they have run out.
type forced struct {
	at   time.Time
	sids map[string]bool
}

// violation is a property that does not hold.
type violation struct {
	property int
	job      string
	at       time.Time
	text     string
}

func (v violation) String() string {
	return fmt.Sprintf("(%d) %s at %s: %s", v.property, v.job, clock(v.at), v.text)
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000000") }

// reign is one time that an owner record named one instance.
type reign struct {
	adoption

	born  int64 // of the record
	end   time.Time
	endBy int64                  // zxid; 0 while it lasts
	gone  bool                   // the record was deleted
	idle  bool                   // it ended although the owner may live, because no run was open, and one due
	beats []time.Time            // when the adoption and its heartbeats were applied
	zxids []int64                // of these
	tick  map[string]*zkdev.Txn  // claims by run id
	recs  map[string]*zkrec.Tick // and what they say
}

// ledger is the log's evidence.
type ledger struct {
	evidence

	judge    *rules.Ledger
	through  int64 // zxid up to which the log was read
	model    *swtest.Model
	rightsTo map[string][]swtest.Right // by slot
	reigns   map[string][]*reign       // by slot, in order
	born     map[string]int64          // by slot, when its owner record was made
	seen     map[string]bool           // run ids
	started  map[string]*swtest.Run    // by run id
	accounts map[string]*account       // of the slots that there are
	closed   []*account                // of the others
	joined   map[int64]string          // by session, the instances whose nodes were made; they may have been deleted manually since
	over     map[string][]time.Time    // by instance, when its sessions have ended
	canceled map[int64]bool            // zxids of transactions that deleted jobs
	found    []violation
	counts

	divisions map[string]*division    // of the jobs that there are
	epochs    map[string]*epoch       // by run id, those of the claims
	completed map[string][]*completed // by job
	alarms    []*alarmed
	vigils    map[string]*vigil // by slot
	silences  []silence
	members   []contact      // when sessions were instances of the group
	stay      map[string]int // of the members, by id
	queue     queue
	lost      *loss            // so far
	orders    map[string]order // for jobs, by the names of their nodes
	// labelsOf are an instance's, and orderHeard is after how long an order is followed.
	labelsOf   func(sid string) map[string]string
	orderHeard time.Duration
	// clockHeard is after how long an instance knows that its clock is wrong, and offsets are the
	// offsets of the clocks.
	clockHeard     time.Duration
	offsets        map[string][]offset
	calendars      zkrec.ReadCalendars // as they were last
	server         []offset            // of the server's clock
	hasty          []rules.Violation   // reliefs of owners of which a run was due by that clock alone
	clocksMayBeOff bool
	endless        map[string]bool     // by id, the runs of jobs that always run
	after          map[string][]string // by id, of runs of ticks of jobs after others, which these are
	untold         []untold
	listening      map[string]time.Time // by path, since when incarnations hear of requests
}

// counts is how much there was to check.
type counts struct {
	txns       int           // in the log
	ticks      int           // that are accounted for
	schedules  int           // that replaced another one
	spent      int           // that came to the end of their MaxRuns
	calendars  int           // contents of calendars that replaced others, of jobs that there were
	ranAfter   int           // ticks that jobs after others have run
	withheld   int           // ticks that such jobs have not run because of their parents
	reparented int           // terms of such jobs in which one that comes before them has changed
	barren     int           // writes of a job that has children, and can be no parent
	tangled    int           // writes of a job that comes before itself
	limited    int           // runs that took places of limits
	waited     int           // those that had waited for them, or for other runs
	layouts    int           // that came into effect after another one
	complete   int           // ticks that hooks were told of
	alarms     int           // that were raised
	forgotten  int           // claims that the servers have lost
	endless    int           // runs of jobs that always run
	atEach     int           // ticks that are accounted for at an instance, of jobs that run on every one
	removed    int           // jobs that were done
	relieved   int           // owners that may have lived, and had not claimed a run that was due
	leaps      int           // of the server's clock
	silent     time.Duration // the longest time for which an alarm was due
}

// check verifies the properties 1 to 4 and 8 to 10.
func check(e evidence) ([]violation, counts) {
	l := newLedger(e.tree)
	l.latch, l.aheadMost = e.latch, e.aheadMost
	if e.lost != nil {
		l.readAround(*e.lost, e.log)
	} else {
		l.read(e.log)
	}
	return l.end(e)
}

func newLedger(tree zkrec.Tree) *ledger {
	l := &ledger{
		model: rules.NewModel(tree), rightsTo: make(map[string][]swtest.Right), reigns: make(map[string][]*reign),
		born: make(map[string]int64), seen: make(map[string]bool), started: make(map[string]*swtest.Run),
		accounts: make(map[string]*account), joined: make(map[int64]string), canceled: make(map[int64]bool),
		divisions: make(map[string]*division), epochs: make(map[string]*epoch), completed: make(map[string][]*completed),
		vigils: make(map[string]*vigil), stay: make(map[string]int), orders: make(map[string]order), endless: make(map[string]bool),
		after: make(map[string][]string), offsets: make(map[string][]offset), listening: make(map[string]time.Time), over: make(map[string][]time.Time),
		calendars: make(zkrec.ReadCalendars),
	}
	l.tree = tree
	l.judge = rules.New(tree, true, rules.Observer{}, func(v rules.Violation) {
		if v.ServerDue {
			l.hasty = append(l.hasty, v)
			return
		}
		l.violatef(propertyOf[v.Rule], v.Slot, v.Txn.True, "%v", v)
	})
	return l
}

// read takes in the next part of the log, of which it keeps nothing: an hour's log has hundreds of
// megabytes. All that one zxid has done is in one part.
func (l *ledger) read(log []zkdev.Txn) {
	for _, txn := range swtest.Transactions(log) { // the rules by which a real server's log is audited
		l.judge.Apply(txn)
	}
	for k := range log {
		if first := log[k].Zxid; k == 0 && first > l.through+1 {
			l.violatef(7, "", log[k].Time, "the log from %d to %d was dropped before it was read", l.through, first)
		}
		l.txns, l.through = l.txns+1, log[k].Zxid
		if log[k].Code == zkdev.OK {
			l.apply(&log[k])
		}
	}
}

// end makes the checks that need the whole log.
func (l *ledger) end(e evidence) ([]violation, counts) {
	e = l.excuse(e)
	l.evidence = e
	for _, right := range e.rights {
		l.rightsTo[right.Job] = append(l.rightsTo[right.Job], right)
	}
	for k := range e.runs {
		l.checkRun(&e.runs[k])
	}
	l.checkSideBySide()
	for _, right := range e.rights {
		l.checkRight(right)
	}
	l.checkOverlaps()
	for _, a := range e.hooks {
		if r := l.reignOfPart(a.job, a.shard, a.sid, a.token); r == nil || r.sid != a.sid {
			l.violatef(4, a.job, a.at, "OnOwned of %s has token %d, which the log does not give it", a.sid, a.token)
		}
	}
	l.checkAccounts()
	l.checkDivisions()
	l.checkAlarms()
	l.checkSilences()
	l.checkReliefs()
	l.checkAfter()
	l.wantTold()
	return l.found, l.counts
}

// propertyOf maps the rules of package ledger to properties of this simulation.
var propertyOf = map[rules.Rule]int{
	rules.Owner: 1, rules.Claim: 2, rules.Claimant: 3, rules.Token: 4, rules.Account: 8, rules.Shards: 9, rules.Limit: 20,
}

func (l *ledger) violatef(property int, job string, at time.Time, format string, args ...any) {
	l.found = append(l.found, violation{property, job, at, fmt.Sprintf(format, args...)})
}

// apply reads one transaction.
func (l *ledger) apply(txn *zkdev.Txn) {
	slot, node, rest, ok := l.model.Split(txn.Path)
	l.tells(slot, node, rest, txn)
	l.queue.apply(txn, l.tree.Leader())
	l.serverClock(txn)
	l.ordered(txn)
	if sid := l.joined[txn.Session]; txn.Op == zkdev.OpCloseSession {
		l.over[sid] = append(l.over[sid], txn.Time)
	}
	if txn.Op != zkdev.OpCheck {
		l.watch(slot, node, rest, txn)
	}
	if path.Dir(txn.Path) == l.tree.Instances() {
		switch txn.Op {
		case zkdev.OpCreate:
			l.joined[txn.Session] = rest
			l.checkSaysLeads(rest, txn)
		case zkdev.OpSetData:
			l.checkSaysLeads(rest, txn)
		default:
		}
	}
	if !ok || txn.Op == zkdev.OpCheck {
		l.model.Apply(swtest.Transactions([]zkdev.Txn{*txn})[0])
		if txn.Op != zkdev.OpCheck {
			l.recalendared(txn)
		}
		return
	}
	if txn.Op == zkdev.OpDelete {
		l.deleted(slot, node, rest, txn)
		l.model.Apply(swtest.Transactions([]zkdev.Txn{*txn})[0])
		if node == rules.NodeJob && rest == "" {
			l.reparented(slot, txn)
		}
		return
	}
	l.model.Apply(swtest.Transactions([]zkdev.Txn{*txn})[0])
	j := l.model.Jobs[slot]
	if j == nil {
		return
	}
	created := txn.Op != zkdev.OpSetData
	switch {
	case node == rules.NodeAlive && rest == "":
		l.endReign(slot, txn, false)
		l.checkOffer(slot, txn)
		if created {
			l.born[slot] = txn.Zxid
		}
		if j.Owner.SID != "" {
			l.reigns[slot] = append(l.reigns[slot], &reign{
				adoption: adoption{slot, 0, j.Owner.SID, txn.Zxid, txn.Time}, born: l.born[slot],
				beats: []time.Time{txn.Time}, zxids: []int64{txn.Zxid}, tick: make(map[string]*zkdev.Txn), recs: make(map[string]*zkrec.Tick),
			})
		}
	case node == rules.NodeAlive:
		if r := l.current(slot); r != nil && r.sid == rest {
			r.beats, r.zxids = append(r.beats, txn.Time), append(r.zxids, txn.Zxid)
		}
	case node == rules.NodeJob:
		if zkrec.JobOfSlot(slot) == slot {
			l.divided(slot, txn, j.Spec)
			l.watched(slot, j.Spec, txn.Time)
			l.reparented(slot, txn)
		}
	case node == rules.NodeTick && rest != "": // a late result is being written
	case node == rules.NodeTick && created:
		l.openAccount(slot, txn, j)
	case node == rules.NodeTick:
		l.checkTick(slot, txn, j.Tick)
	case node == rules.NodeHistory && created && l.accounts[slot].born == txn.Zxid:
		l.accounts[slot].history = j.History // of a job that was undeleted
	case node == rules.NodeHistory && (rest != "" || !created):
		l.accounts[slot].written(j.History, txn)
		l.checkParents(l.accounts[slot], txn)
	case node == rules.NodeShards && !created:
		l.checkComplete(slot, txn)
	case node == nodeAlarm:
		l.raised(slot, txn)
	}
}

// deleted takes in the end of a job, or of a slot: the nodes below are deleted before.
func (l *ledger) deleted(slot, node, rest string, txn *zkdev.Txn) {
	if l.model.Jobs[slot] == nil {
		return
	}
	if rest != "" {
		l.relieved(slot, node, txn)
		return
	}
	switch node {
	case rules.NodeAlive:
		l.endReign(slot, txn, true)
	case rules.NodeTick:
		l.closeAccount(slot, txn) // a slot that is created again has new ticks
	case rules.NodeJob:
		if zkrec.JobOfSlot(slot) == slot {
			l.canceled[txn.Zxid] = true
			l.checkRemoved(slot, txn)
			delete(l.divisions, slot)
		}
	}
}

// current is the current reign.
func (l *ledger) current(job string) *reign {
	reigns := l.reigns[job]
	if len(reigns) == 0 || reigns[len(reigns)-1].endBy != 0 {
		return nil
	}
	return reigns[len(reigns)-1]
}

func (l *ledger) endReign(job string, txn *zkdev.Txn, gone bool) {
	if r := l.current(job); r != nil {
		r.end, r.endBy, r.gone = txn.Time, txn.Zxid, gone
	}
}

// relieved notes that this transaction has ended the reign of an owner that may live: the
// transaction proves that no run was open. Whether that is so, and one was due, judges the other
// ledger.
func (l *ledger) relieved(slot, node string, txn *zkdev.Txn) {
	n := len(l.reigns[slot]) - 2
	if node == rules.NodeTick && n >= 0 && l.reigns[slot][n].endBy == txn.Zxid {
		l.reigns[slot][n].idle = true
		l.counts.relieved++
	}
}

func (l *ledger) reignOf(job string, token int64) *reign {
	for _, r := range l.reigns[job] {
		if r.token == token {
			return r
		}
	}
	return nil
}

// reignOfPart is the same for a shard of a job, or an instance's part of it; the job itself is
// shard 0 as long as it is not divided. No two tokens are the same.
func (l *ledger) reignOfPart(job string, shard int, sid string, token int64) *reign {
	if r := l.reignOf(zkrec.ShardSlot(job, shard), token); r != nil || shard > 0 {
		return r
	}
	if r := l.reignOf(zkrec.InstanceSlot(job, sid), token); r != nil {
		return r
	}
	return l.reignOf(job, token)
}

// checkTick takes in a tick record. Package ledger judges it.
func (l *ledger) checkTick(job string, txn *zkdev.Txn, rec zkrec.Tick) {
	acc := l.accounts[job]
	last := acc.record
	acc.advanced(txn.Time, stale)
	acc.begins(last, rec)
	l.unknown(acc, last.Watermark, rec.Watermark)
	acc.record = rec
	if rec.Watermark > last.Watermark { // a result keeps what was claimed before a clock was set right
		l.checkAhead(job, txn, rec)
	}
	l.checkRestart(job, txn, last, rec)
	if rec.RunID == last.RunID || !rec.Open() {
		return
	}
	l.counted(acc, txn, last, rec)
	l.seen[rec.RunID], acc.claimed = true, txn.Zxid
	if rec.Places != "" {
		l.limited++
		l.waited += min(1, int(rec.Delayed))
	}
	if l.lost != nil {
		delete(l.lost.claims, rec.RunID) // the answer to the lost claim was lost, too
	}
	if l.endless[rec.RunID] = l.isEndless(job, rec); l.endless[rec.RunID] {
		l.counts.endless++
	}
	if of := l.model.Jobs[zkrec.JobOfSlot(job)].Spec.Job.After; len(of) > 0 && rec.Manual == "" {
		l.after[rec.RunID] = of
		l.ranAfter++
	}
	l.checkLeads(job, txn, rec)
	l.checkPlace(job, txn, rec)
	l.checkClock(job, txn, rec)
	l.checkPause(job, txn, last, rec)
	if r := l.current(job); r != nil && r.token == rec.Token && r.sid == rec.SID {
		claim := *txn
		claim.Data = nil // read already
		r.tick[rec.RunID], r.recs[rec.RunID] = &claim, &rec
		l.noteLayout(job, rec)
	}
}

// checkSideBySide verifies that a slot has one run at a time in an instance, to the return of its
// handler.
func (l *ledger) checkSideBySide() {
	var runs []audit.Run
	for k := range l.runs {
		run := &l.runs[k]
		slot := run.Job
		if shard := zkrec.ShardSlot(run.Job, run.Shard.Index); run.Shard.Total > 1 || l.reignOf(shard, run.Token) != nil {
			slot = shard // also of a job with one shard, which is another slot than the job before it had one
		}
		if run.Ended.IsZero() {
			continue // checkRun reports it
		}
		runs = append(runs, audit.Run{Job: run.Instance.Place() + " " + slot, Instance: run.ID, Start: run.Started, End: run.Ended})
	}
	for _, f := range audit.Runs(runs) {
		if _, slot, _ := strings.Cut(f.Run.Job, " "); f.Rule == audit.Overlap {
			l.violatef(3, slot, f.Run.Start, "run %s begins beside run %s", f.Run.Instance, f.Before.Instance)
		}
	}
}

// checkRun verifies a handler's run: from its start to the end of its right it had the job for
// itself.
func (l *ledger) checkRun(run *swtest.Run) {
	if l.started[run.ID] != nil {
		l.violatef(3, run.Job, run.Started, "run %s of %s starts a second time", run.ID, run.Instance.Name)
	}
	l.started[run.ID] = run
	r := l.reignOfPart(run.Job, run.Shard.Index, run.Instance.Name, run.Token)
	switch {
	case r == nil || r.sid != run.Instance.Name:
		l.violatef(3, run.Job, run.Started, "run %s of %s has token %d, which the log does not give it", run.ID, run.Instance.Name, run.Token)
		return
	case r.tick[run.ID] == nil:
		l.violatef(3, run.Job, run.Started, "run %s of %s has no claim in the log", run.ID, run.Instance.Name)
		return
	case r.tick[run.ID].Time.After(run.Started), r.recs[run.ID].Tick != run.Tick.UnixMilli(), r.recs[run.ID].Attempt != run.Attempt:
		l.violatef(3, run.Job, run.Started, "run %s of %s starts for %s, attempt %d, claimed at %s for %s, attempt %d", run.ID, run.Instance.Name,
			clock(run.Tick), run.Attempt, clock(r.tick[run.ID].Time), clockMs(r.recs[run.ID].Tick), r.recs[run.ID].Attempt)
	}
	end := run.End()
	if end.IsZero() {
		l.violatef(7, run.Job, run.Started, "run %s of %s never ends", run.ID, run.Instance.Name)
		return
	}
	what := span{run.Instance.Name, run.Started, end, "run " + run.ID}
	if l.outlasts(what, r) { // also if the owner was relieved: then no run was open
		property := 1
		if r.end.Before(run.Started) {
			property = 3
		}
		l.violatef(property, run.Job, r.end, "%v; the job passed on at %s, zxid %d", what, clock(r.end), r.endBy)
	}
	l.leaseOf(3, what, r)
	l.checkKept(run, r)
	if !l.hasRight(run.Instance, r, run.Started, end) {
		l.violatef(3, run.Job, run.Started, "%v has no right of its instance's", what)
	}
}
