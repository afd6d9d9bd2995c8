package sim

import (
	"fmt"
	"slices"
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
	if l.outlasts(what, r) && !r.idle {
		l.violatef(1, right.Job, r.end, "%v is a lease; the job passed on at %s, zxid %d", what, clock(r.end), r.endBy)
	}
	l.leaseOf(1, what, r)
}

// checkOverlaps verifies the same without the log: no two instances believe at once that a slot is
// theirs. The design's exceptions are left out: the old lease on a job that was deleted and
// submitted again, the lease of a session ended from outside, and the lease of an owner that was
// relieved, whose slot has no open run, and which can open none.
func (l *ledger) checkOverlaps() {
	for job, rights := range l.rightsTo {
		for k, b := range rights {
			for _, a := range rights[:k] { // began before
				if a.Instance == b.Instance || !a.Until.After(b.From) || !b.Until.After(b.From) {
					continue
				}
				of, than := l.reignOf(job, a.Token), l.reignOf(job, b.Token)
				// b may be the one whose node was deleted: an answer that was late gives it back the rest of
				// its lease.
				excused := l.excused(a.Instance.Name, b.From) || l.excused(b.Instance.Name, b.From)
				if of != nil && than != nil && of.born == than.born && !of.idle && !than.idle && !excused {
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

// outlasts reports whether a right continues when the record names another instance.
func (l *ledger) outlasts(s span, r *reign) bool {
	return r.endBy != 0 && !r.gone && r.end.Before(s.to) && !l.excused(s.sid, r.end)
}

// leaseOf verifies that a lease is valid throughout a right: a lease begins before its heartbeat is
// sent, so it ends at most 0.75 sessions after the heartbeat reached the server. property is the
// one that is violated if there is no valid lease at the beginning.
func (l *ledger) leaseOf(property int, s span, r *reign) {
	lease := l.session * 3 / 4
	var until time.Time
	for _, beat := range r.beats {
		switch {
		case beat.After(s.to):
		case beat.After(s.from) && until.Before(s.from): // it is too late
		case beat.After(s.from) && beat.After(until):
			l.violatef(1, r.job, until, "%v continues for %v without a heartbeat", s, beat.Sub(until)+lease)
			return
		default:
			until = beat.Add(lease)
		}
	}
	switch {
	case until.Before(s.from):
		l.violatef(property, r.job, s.from, "%v begins %v after its lease", s, s.from.Sub(until))
	case until.Before(s.to):
		l.violatef(1, r.job, until, "%v; its lease ended at %s", s, clock(until))
	}
}

// hasRight reports whether an instance believed throughout that it held the lease of a reign.
func (l *ledger) hasRight(i *swtest.Instance, r *reign, from, to time.Time) bool {
	return slices.ContainsFunc(l.rightsTo[r.job], func(right swtest.Right) bool {
		return right.Instance == i && right.Token == r.token && !right.From.After(from) && !right.Until.Before(to)
	})
}

// excused reports whether the instance's session was ended from outside so recently that
// a lease from before may still be valid.
func (l *ledger) excused(sid string, at time.Time) bool {
	for _, f := range l.forced {
		if f.sids[sid] && !at.Before(f.at) && at.Sub(f.at) <= l.session {
			return true
		}
	}
	return false
}
