package sim

import (
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/swtest"
)

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
