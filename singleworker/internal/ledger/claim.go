package ledger

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

func hex(zxid int64) string { return "0x" + strconv.FormatInt(zxid, 16) }

// judgeTick judges a change of a tick record, of the history, or of both.
func (l *Ledger) judgeTick(j *Job, t *touch) {
	if t.set.tick && !j.Known.Tick || t.set.history && !j.Known.History {
		l.unread(j, "tick record, or a history,")
		return
	}
	if !t.before.Known.Tick || !j.Known.Tick || t.set.history && !t.before.Known.History {
		l.counts.Unjudged++ // the first since the log begins, or since somebody repaired the record
		return
	}
	last, rec := t.before.Tick, j.Tick
	if writer, known := l.writer(); known && writer == "" {
		l.violatef(Claimant, j.Name, "%s changes what is on record of its ticks", l.who())
	}
	dated := t.first && !t.set.history && rec.Run == (zkrec.Run{}) // nothing was claimed since a wrong clock said when it begins
	if rec.Watermark < last.Watermark && !dated {
		l.violatef(Account, j.Name, "%s takes the line back from %s to %s", rec.SID, clockMs(last.Watermark), clockMs(rec.Watermark))
	}
	switch {
	case t.again:
		l.violatef(Claim, j.Name, "run %s claims, or gets a result, a second time in one transaction", rec.RunID)
		return
	case !t.set.tick:
	case rec.RunID != last.RunID && !rec.Open():
		l.violatef(Claim, j.Name, "the result of run %s replaces the claim of %s", rec.RunID, last.RunID)
		return
	case rec.RunID != last.RunID:
		l.judgeClaim(j, t, last, rec)
	case rec.Same(last) && t.set.history: // a late result of a run before
	case rec.Open() && (!last.Open() || rec.Same(last)):
		l.violatef(Claim, j.Name, "run %s claims a second time, now %s", rec.RunID, clockMs(rec.Tick))
	case rec.Attempt != last.Attempt || rec.Tick != last.Tick || rec.Token != last.Token:
		l.violatef(Claim, j.Name, "run %s claims something else, now %s", rec.RunID, clockMs(rec.Tick))
	}
	l.judgeRuns(j, last, rec)
	l.judgeMarks(j, t)
	l.judgeOwed(j, last, rec)
	if rec.Watermark >= last.Watermark {
		l.judgeAccount(j, t)
	}
}

// judgeClaim judges a record that opens a run.
func (l *Ledger) judgeClaim(j *Job, t *touch, last, rec zkrec.Tick) {
	again := repeats(rec, last.Run) && (last.Open() || last.NextAttempt != "") || repeats(rec, last.Held.Run)
	first := rec.Manual == "" && rec.Tick > last.Watermark && rec.Tick == rec.Watermark
	attempt := 1
	if rec.Manual != "" {
		request, waits := j.Requests[rec.Manual]
		first = (waits || !l.whole) && !l.claimed[j.Name][rec.Manual]
		add(l.claimed, j.Name, rec.Manual)
		if !again && (rec.Past() != "" || request.Past != "") {
			attempt = l.judgePast(j, t, rec, request, waits)
		}
	}
	switch {
	case again:
		l.counts.Attempts++
	case rec.Manual != "":
		l.counts.Manual++
	default:
		l.counts.Claims++
	}
	if !again && (!first || rec.Attempt != attempt) {
		l.violatef(Claim, j.Name, "%s claims %s, attempt %d, after %s, attempt %d, was claimed by %s: %s", rec.SID,
			clockMs(rec.Tick), rec.Attempt, clockMs(last.Tick), last.Attempt, last.SID, last.State)
	}
	if rec.Token < last.Token && !l.disowned[last.Token] {
		l.violatef(Token, j.Name, "%s claims with token %d after %s had %d", rec.SID, rec.Token, last.SID, last.Token)
	}
	writer, known := l.writer()
	switch {
	case known && writer != rec.SID:
		l.violatef(Claimant, j.Name, "%s claims %s in the name of %s", l.who(), clockMs(rec.Tick), rec.SID)
	case !j.Known.Owner && !l.whole:
		l.counts.Unjudged++
	case t.owner.SID == "":
		l.violatef(Claimant, j.Name, "%s claims %s with token %d and is not the owner: no instance is", rec.SID, clockMs(rec.Tick), rec.Token)
	case t.owner.SID != rec.SID || t.token != rec.Token:
		l.violatef(Claimant, j.Name, "%s claims %s with token %d and is not the owner: %s is, with %d", rec.SID, clockMs(rec.Tick),
			rec.Token, t.owner.SID, t.token)
	}
	l.judgeLayoutOf(j, last, rec)
	if rec.Manual == "" {
		l.judgePaused(j, rec, !again)
		l.judgeFailed(j, last, rec)
	}
	if !again && rec.Manual == "" {
		l.judgeDelay(j, rec)
		l.judgeBegun(j, rec)
		l.judgeAfter(j, rec)
	}
	l.policies[j.Name] = j.Spec.Job
	delete(l.stops, j.Name)
	if l.observe.Claimed != nil {
		l.observe.Claimed(l.txn, j.Name, rec, j.Spec.ActiveLayout())
	}
}

// judgePast judges the claim of a past tick by name, for a request, if that is known. It returns
// which attempt it has to be: the one after the last on record.
func (l *Ledger) judgePast(j *Job, t *touch, rec zkrec.Tick, request zkrec.Request, known bool) (attempt int) {
	last := t.before.Tick
	asked := request.Run(rec.Manual)
	if rec.Tick > last.Watermark || known && (asked.Tick != rec.Tick || asked.Past() != rec.Past()) {
		l.violatef(Claim, j.Name, "%s claims %s by name, which is not past, or not what request %s names: %s", rec.SID, clockMs(rec.Tick), rec.Manual,
			clockMs(asked.Tick))
		return rec.Attempt
	}
	for _, e := range append(slices.Clone(t.before.History.Entries), zkrec.Entry{Run: last.Run}, zkrec.Entry{Run: last.Held.Run}) {
		if e.RunID != "" && e.Tick == rec.Tick && (e.Manual == "" || e.Past() != "") {
			attempt = max(attempt, e.Attempt+1)
		}
	}
	switch {
	case attempt > 0:
		return attempt
	case known: // the history may have forgotten attempts since the request was made
		return asked.Attempt
	}
	return rec.Attempt
}

// judgeRuns verifies that a claim counts its tick, once, if the job has MaxRuns, and that nothing
// else changes the count. A claim of no further tick leaves the count alone while ticks of a former
// schedule may be without a fate.
func (l *Ledger) judgeRuns(j *Job, last, rec zkrec.Tick) {
	n, since := last.Runs, last.RunsSince
	first := rec.Manual == "" && rec.Tick > last.Watermark
	if rec.RunID != last.RunID && j.Known.Spec && (first || last.Watermark >= j.Spec.Since) {
		if since != j.Spec.Since || j.Spec.Job.MaxRuns == 0 {
			n, since = 0, 0
		}
		if j.Spec.Job.MaxRuns > 0 && first {
			n, since = n+1, j.Spec.Since
		}
	}
	if rec.Runs != n || rec.RunsSince != since {
		l.violatef(Claim, j.Name, "%s counts %d runs of %d since %s, and there were %d since %s", rec.SID, rec.Runs, j.Spec.Job.MaxRuns,
			clockMs(rec.RunsSince), n, clockMs(since))
	}
}

// judgeDelay verifies that a tick is not claimed before it is due by the job's Jitter, by the clock
// of the instance that claims it.
func (l *Ledger) judgeDelay(j *Job, rec zkrec.Tick) {
	if due := l.delayed(j.Name, j.Spec, rec.Tick); j.Known.Spec && j.Spec.Job.Jitter > 0 && rec.Started < due {
		l.violatef(Claim, j.Name, "%s claims %s at %s, and it is due at %s", rec.SID, clockMs(rec.Tick), clockMs(rec.Started), clockMs(due))
	}
}

// delayed is when a tick of a slot is due.
func (l *Ledger) delayed(slot string, spec zkrec.Spec, tick int64) int64 {
	sched := l.schedule(spec.Job)
	if sched == nil || spec.Job.Jitter == 0 || tick == math.MaxInt64 {
		return tick
	}
	if spec.ActiveLayout().BeforeTick != "" {
		slot = zkrec.ShardSlot(zkrec.JobOfSlot(slot), 0)
	}
	at, limit := time.UnixMilli(tick), spec.Job.Jitter
	if next := sched.Next(at); !next.IsZero() {
		limit = min(limit, next.Sub(at))
	}
	return at.Add(zkrec.Jitter(l.model.tree.Group(), slot, at, limit)).UnixMilli()
}

// judgePaused verifies that no run that nobody has asked for begins in a pause or a freeze, by the
// order of the log: so none has begun once it was acknowledged. The end of one that ends by itself
// is judged by the claimant's clock. first is a first attempt: its tick is none that a pause, which
// is over, leaves out. A job that always runs begins then, and keeps the time of its record as its
// tick.
func (l *Ledger) judgePaused(j *Job, rec zkrec.Tick, first bool) {
	pauses := slices.Clip(l.model.Freeze.Of(zkrec.JobOfSlot(j.Name)))
	last := max(0, len(pauses)-1)
	if p := j.Spec.Switch.Paused; p != nil && j.Known.Switch {
		pauses = append(pauses, *p)
	}
	due := time.UnixMilli(l.delayed(j.Name, j.Spec, rec.Tick))
	for k, p := range pauses {
		begins := k >= last && p.Lasts(time.UnixMilli(rec.Started))
		leavesOut := first && !rec.Always && p.Covers(due) && (p.Missed == "" || p.Missed == job.MisfireSkip)
		if begins || leavesOut {
			l.violatef(Claim, j.Name, "%s claims %s, attempt %d, and the job has been paused since %s", rec.SID, clockMs(rec.Tick), rec.Attempt, clockMs(p.Since))
		}
	}
}

// judgeFailed verifies that nothing of a schedule begins after as many failures, by the record, as
// pause the job, until that was paused and resumed.
func (l *Ledger) judgeFailed(j *Job, last, rec zkrec.Tick) {
	if !j.Known.Spec || !j.Known.Switch || j.Spec.Job.PauseAfterFailures == 0 {
		return
	}
	resumed := int64(0)
	if p := j.Spec.Switch.Paused; p != nil {
		resumed = p.Until
	}
	if n := j.Spec.Job.PauseAfterFailures; last.Failed >= n && last.FailedSince == resumed {
		l.violatef(Claim, j.Name, "%s claims %s, and %d ticks have failed since %s, of %d that pause the job", rec.SID, clockMs(rec.Tick), last.Failed, clockMs(resumed), n)
	}
}

// repeats reports whether a record has the next attempt at the tick of a run.
func repeats(rec zkrec.Tick, run zkrec.Run) bool {
	attempt := run.Attempt + 1
	if run.NotBegun {
		attempt = run.Attempt
	}
	return rec.Tick == run.Tick && rec.Manual == run.Manual && rec.Attempt == attempt
}

// judgeOwed verifies that a run that is to be repeated stays on record until it is, or there is a
// reason to give it up; and that one that was interrupted is to be repeated.
func (l *Ledger) judgeOwed(j *Job, last, rec zkrec.Tick) {
	schedule := l.schedule(j.Spec.Job)
	if !j.Known.Spec || schedule == nil || schedule.Always() {
		return
	}
	owed := []zkrec.Held{last.Held}
	if last.NextAttempt != "" {
		owed = append(owed, last.Again())
	}
	for _, o := range owed {
		kept := rec.RunID == o.RunID && rec.NextAttempt != "" || rec.Held.RunID == o.RunID
		replaced := o.NextAttempt == history.NextRetry && rec.Watermark > last.Watermark
		if !kept && !replaced && !repeats(rec, o.Run) && o.NextAttempt != "" && (o.NextAttempt == history.NextRetry || reruns(j.Spec.Job, o.Run)) {
			l.violatef(Claim, j.Name, "the %s of %s, attempt %d, is dropped: run %s is %s", o.NextAttempt, clockMs(o.Tick), o.Attempt, rec.RunID, rec.State)
		}
	}
	policy, known := l.policies[j.Name]
	if rec.RunID == last.RunID && last.Open() && rec.State == history.StateInterrupted && rec.NextAttempt == "" && !rec.Always &&
		known && l.whole && !l.stops[j.Name][rec.RunID] && reruns(policy, rec.Run) {
		l.violatef(Claim, j.Name, "run %s of %s, attempt %d, was interrupted and is not to be repeated", rec.RunID, clockMs(rec.Tick), rec.Attempt)
	}
}

// reruns reports whether a policy has an interrupted run repeated. Whether it is too old, or its
// request was withdrawn, is not judged.
func reruns(policy job.Job, run zkrec.Run) bool {
	policy = policy.WithDefaults()
	attempts := policy.MaxAttempts
	if policy.Interrupted.Asks() {
		attempts++ // the last one asks, and does nothing else
	}
	if asks, _, ifUnknown := run.Asks(policy); run.NotBegun && asks && !ifUnknown {
		return false // what it was told, or that it was told nothing, may have ended it
	}
	rerun := run.NotBegun || policy.Interrupted != job.InterruptedSkip && run.Attempt-run.Failures < attempts
	return rerun && policy.MisfireGrace == 0 && run.Manual == ""
}

// judgeRequest judges the deletion of a request: its owner deletes it when its run has ended and is
// not repeated, or with the slot, or when the job always runs, of which no run can be asked for. An
// operator may withdraw it.
func (l *Ledger) judgeRequest(slot, id string) {
	run := remove(l.runs, slot, id)
	claimed := remove(l.claimed, slot, id)
	if writer, _ := l.writer(); run && !claimed && writer != "" && l.inForce(slot) && !l.alwaysRuns(slot) {
		l.violatef(Claim, slot, "%s deletes request %s, which was never claimed", writer, id)
	}
}

// alwaysRuns reports whether the job of a slot is one that always runs.
func (l *Ledger) alwaysRuns(slot string) bool {
	job := l.model.Jobs[zkrec.JobOfSlot(slot)]
	if job == nil {
		return false
	}
	sched := l.schedule(job.Spec.Job)
	return sched != nil && sched.Always()
}
