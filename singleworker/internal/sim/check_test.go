package sim

import (
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// evidence is all that the checker is given. What an instance says of itself, its rights and its
// hooks, is compared with the log.
type evidence struct {
	tree    zkrec.Tree
	session time.Duration // as granted
	log     []zkdev.Txn
	runs    []swtest.Run
	rights  []swtest.Right
	hooks   []adoption // what OnOwned was told
	forced  []forced
	// unrecorded are the runs whose results OnRunEnd called unrecorded.
	unrecorded map[string]bool
}

// adoption is an owner record that names an instance.
type adoption struct {
	job, sid string
	token    int64
	at       time.Time
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

	born  int64 // of the job
	end   time.Time
	endBy int64                  // zxid; 0 while it goes on
	gone  bool                   // the job was deleted
	beats []time.Time            // when the adoption and its heartbeats were applied
	tick  map[string]*zkdev.Txn  // claims by run id
	recs  map[string]*zkrec.Tick // and what they say
}

// ledger is what the log says.
type ledger struct {
	evidence

	model    *swtest.Model
	reigns   map[string][]*reign // by job, in order
	seen     map[string]bool     // run ids
	accounts map[string]*account // of the jobs that there are
	closed   []*account          // of the others
	found    []violation
	ticks    int // that are accounted for
}

// check verifies the properties 1 to 4, and 8.
func check(e evidence) (found []violation, ticks int) {
	l := &ledger{
		evidence: e, model: swtest.NewModel(e.tree), reigns: make(map[string][]*reign),
		seen: make(map[string]bool), accounts: make(map[string]*account),
	}
	for k := range e.log {
		if e.log[k].Code == zkdev.OK {
			l.apply(&e.log[k])
		}
	}
	for k := range e.runs {
		l.checkRun(&e.runs[k])
	}
	for _, right := range e.rights {
		l.checkRight(right)
	}
	l.checkOverlaps()
	for _, a := range e.hooks {
		if r := l.reignOf(a.job, a.token); r == nil || r.sid != a.sid {
			l.violatef(4, a.job, a.at, "OnOwned of %s has token %d, which the log does not give it", a.sid, a.token)
		}
	}
	l.checkAccounts()
	return l.found, l.ticks
}

func (l *ledger) violatef(property int, job string, at time.Time, format string, args ...any) {
	l.found = append(l.found, violation{property, job, at, fmt.Sprintf(format, args...)})
}

// apply reads one transaction.
func (l *ledger) apply(txn *zkdev.Txn) {
	job, node, rest, ok := l.model.Split(txn.Path)
	var before *swtest.Job
	if ok {
		before = l.model.Jobs[job]
	}
	if before != nil && node == swtest.NodeJob && txn.Op == zkdev.OpDelete {
		l.endReign(job, txn, true)
		l.closeAccount(job) // a job that is submitted again has ticks of its own
	}
	l.model.Apply(*txn)
	j := l.model.Jobs[job]
	if !ok || j == nil || txn.Op == zkdev.OpDelete || txn.Op == zkdev.OpCheck {
		return
	}
	switch {
	case node == swtest.NodeAlive && rest == "":
		l.endReign(job, txn, false)
		if j.Owner.SID != "" {
			l.reigns[job] = append(l.reigns[job], &reign{
				adoption: adoption{job, j.Owner.SID, txn.Zxid, txn.Time}, born: j.Born,
				beats: []time.Time{txn.Time}, tick: make(map[string]*zkdev.Txn), recs: make(map[string]*zkrec.Tick),
			})
		}
	case node == swtest.NodeAlive:
		if r := l.current(job); r != nil && r.sid == rest {
			r.beats = append(r.beats, txn.Time)
		}
	case node == swtest.NodeJob:
		l.openAccount(job, txn, j.Spec)
	case node == swtest.NodeTick && txn.Op == zkdev.OpSetData:
		l.checkTick(job, txn, j.Tick)
	case node == swtest.NodeHistory && txn.Op == zkdev.OpSetData:
		history, _ := zkrec.ParseHistory(txn.Data)
		l.accounts[job].written(history)
	}
}

// current is the reign that goes on.
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

func (l *ledger) reignOf(job string, token int64) *reign {
	for _, r := range l.reigns[job] {
		if r.token == token {
			return r
		}
	}
	return nil
}

// checkTick verifies a claim, or another change of what the last one says.
func (l *ledger) checkTick(job string, txn *zkdev.Txn, rec zkrec.Tick) {
	acc := l.accounts[job]
	last := acc.record
	acc.record = rec
	if rec.Through < last.Through {
		l.violatef(8, job, txn.Time, "%s takes the line back from %s to %s", rec.SID, clockMs(last.Through), clockMs(rec.Through))
	}
	switch {
	case rec.RunID != last.RunID && !rec.Open():
		l.violatef(2, job, txn.Time, "the result of run %s replaces the claim of %s", rec.RunID, last.RunID)
		return
	case rec.RunID != last.RunID:
		l.checkClaim(job, txn, last, rec)
	case rec.Open() && (!last.Open() || rec == last):
		l.violatef(2, job, txn.Time, "run %s claims a second time, now %s", rec.RunID, clockMs(rec.Tick))
	case rec.Attempt != last.Attempt || rec.Tick != last.Tick || rec.Token != last.Token:
		l.violatef(2, job, txn.Time, "run %s claims something else, now %s", rec.RunID, clockMs(rec.Tick))
	}
}

// checkClaim verifies a record that opens a run.
func (l *ledger) checkClaim(job string, txn *zkdev.Txn, last, rec zkrec.Tick) {
	again := rec.Tick == last.Tick && rec.Manual == last.Manual && rec.Attempt == last.Attempt+1 &&
		(last.Open() || last.Again != "")
	first := rec.Manual != "" || rec.Tick > last.Through && rec.Tick == rec.Through
	switch {
	case l.seen[rec.RunID]:
		l.violatef(2, job, txn.Time, "run %s claims a second time, now %s", rec.RunID, clockMs(rec.Tick))
	case !again && (!first || rec.Attempt != 1):
		l.violatef(2, job, txn.Time, "%s claims %s, attempt %d, after %s, attempt %d, was claimed by %s: %s", rec.SID,
			clockMs(rec.Tick), rec.Attempt, clockMs(last.Tick), last.Attempt, last.SID, last.State)
	}
	l.seen[rec.RunID] = true
	if rec.Token < last.Token {
		l.violatef(4, job, txn.Time, "%s claims with token %d after %s had %d", rec.SID, rec.Token, last.SID, last.Token)
	}
	r := l.current(job)
	if r == nil || r.token != rec.Token || r.sid != rec.SID {
		l.violatef(3, job, txn.Time, "%s claims %s with token %d and is not the owner: %s", rec.SID, clockMs(rec.Tick), rec.Token, describe(r))
		return
	}
	r.tick[rec.RunID], r.recs[rec.RunID] = txn, &rec
}

func describe(r *reign) string {
	if r == nil {
		return "nobody is"
	}
	return fmt.Sprintf("%s is, with %d", r.sid, r.token)
}

// checkRun verifies what a handler saw: from its start to the end of its right it had
// the job for itself.
func (l *ledger) checkRun(run *swtest.Run) {
	r := l.reignOf(run.Job, run.Token)
	switch {
	case r == nil || r.sid != run.Instance.Name:
		l.violatef(3, run.Job, run.Started, "run %s of %s has token %d, which the log does not give it", run.ID, run.Instance.Name, run.Token)
		return
	case r.tick[run.ID] == nil:
		l.violatef(3, run.Job, run.Started, "run %s of %s has no claim in the log", run.ID, run.Instance.Name)
		return
	case r.tick[run.ID].Time.After(run.Started), r.recs[run.ID].Tick != run.Tick.UnixMilli():
		l.violatef(3, run.Job, run.Started, "run %s of %s starts for %s, claimed at %s for %s", run.ID, run.Instance.Name,
			clock(run.Tick), clock(r.tick[run.ID].Time), clock(time.UnixMilli(r.recs[run.ID].Tick)))
	}
	end := run.End()
	if end.IsZero() {
		l.violatef(7, run.Job, run.Started, "run %s of %s never ends", run.ID, run.Instance.Name)
		return
	}
	what := span{run.Instance.Name, run.Started, end, "run " + run.ID}
	if l.outlasts(what, r) {
		property := 1
		if r.end.Before(run.Started) {
			property = 3
		}
		l.violatef(property, run.Job, r.end, "%v; the job passed on at %s, zxid %d", what, clock(r.end), r.endBy)
	}
	if until := l.leaseOf(what, r); until.Before(run.Started) {
		l.violatef(3, run.Job, run.Started, "%v starts %v after its lease", what, run.Started.Sub(until))
	}
}

// checkRight verifies that an instance believes to hold a lease only while the record names it, and
// no longer than a lease lasts, idle or not.
func (l *ledger) checkRight(right swtest.Right) {
	what := span{right.Instance.Name, right.From, right.Until, fmt.Sprintf("token %d", right.Token)}
	r := l.reignOf(right.Job, right.Token)
	if r == nil || r.sid != what.sid {
		l.violatef(1, right.Job, right.From, "%v is a lease that the log does not give it", what)
		return
	}
	if l.outlasts(what, r) {
		l.violatef(1, right.Job, r.end, "%v is a lease; the job passed on at %s, zxid %d", what, clock(r.end), r.endBy)
	}
	l.leaseOf(what, r)
}

// checkOverlaps verifies the same without the log: no two instances believe at once that a slot
// is theirs. What is left out is what the design leaves out: the old lease on a job that was deleted and
// submitted again, and that of a session ended from outside.
func (l *ledger) checkOverlaps() {
	byJob := make(map[string][]swtest.Right)
	for _, right := range l.rights {
		byJob[right.Job] = append(byJob[right.Job], right)
	}
	for job, rights := range byJob {
		for k, b := range rights {
			for _, a := range rights[:k] { // began before
				if a.Instance == b.Instance || !a.Until.After(b.From) || !b.Until.After(b.From) {
					continue
				}
				of, than := l.reignOf(job, a.Token), l.reignOf(job, b.Token)
				// b may be the one whose node was deleted: an answer that was late gives it back
				// what is left of its lease.
				excused := l.excused(a.Instance.Name, b.From) || l.excused(b.Instance.Name, b.From)
				if of != nil && than != nil && of.born == than.born && !excused {
					l.violatef(1, job, b.From, "%s has a lease until %s, and %s has one from %s to %s",
						a.Instance.Name, clock(a.Until), b.Instance.Name, clock(b.From), clock(b.Until))
				}
			}
		}
	}
}

// span is a time for which an instance has, or takes, the right to run a job.
type span struct {
	sid      string
	from, to time.Time
	what     string
}

func (s span) String() string {
	return fmt.Sprintf("%s from %s to %s (%s)", s.sid, clock(s.from), clock(s.to), s.what)
}

// outlasts says that a right goes on when the record names somebody else.
func (l *ledger) outlasts(s span, r *reign) bool {
	return r.endBy != 0 && !r.gone && r.end.Before(s.to) && !l.excused(s.sid, r.end)
}

// leaseOf verifies that a right never lasts longer than a lease after a heartbeat that
// reached the server: a lease begins before the heartbeat is sent. It returns when the
// last one before the end is over.
func (l *ledger) leaseOf(s span, r *reign) (until time.Time) {
	lease := l.session * 3 / 4
	for _, beat := range r.beats {
		if beat.After(s.to) {
			break
		}
		if gap := until; !gap.IsZero() && beat.After(gap) && gap.Before(s.to) && !gap.Before(s.from) && !l.excused(s.sid, gap) {
			l.violatef(1, r.job, gap, "%v goes on for %v without a heartbeat", s, beat.Sub(gap)+lease)
			return until
		}
		until = beat.Add(lease)
	}
	if until.Before(s.to) && !until.Before(s.from) && !l.excused(s.sid, until) {
		l.violatef(1, r.job, until, "%v; its lease ended at %s", s, clock(until))
	}
	return until
}

// excused says that the instance's session had been ended from outside, so lately that
// a lease from before may go on.
func (l *ledger) excused(sid string, at time.Time) bool {
	for _, f := range l.forced {
		if f.sids[sid] && !at.Before(f.at) && at.Sub(f.at) <= l.session {
			return true
		}
	}
	return false
}
