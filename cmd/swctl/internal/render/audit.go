package render

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/txnaudit"
)

// Audit shows an audit's judgments, and the first violation among its neighbors.
func (p Page) Audit(r txnaudit.Report) {
	p.field("Group", r.Group)
	p.field("Log", logOf(r))
	if r.Baseline != "" {
		p.field("Begins with", r.Baseline)
	}
	n := r.Counts
	p.field("Claims", fmt.Sprintf("%d of ticks, %d manual, %d further attempts; %d results", n.Claims, n.ManualRuns, n.Attempts, n.Results))
	p.field("Ticks", fmt.Sprintf("%d accounted for", n.Ticks))
	p.field("Owners", fmt.Sprintf("%d changes, %d of them takeovers, %d of these because the owner was late", n.OwnerChanges, n.Takeovers, n.Relieved))
	if n.Layouts+n.Complete > 0 {
		p.field("Shards", fmt.Sprintf("%d resharded, %d records of complete ticks", n.Layouts, n.Complete))
	}
	if n.Unjudged+n.Unreadable > 0 {
		p.field("Not judged", fmt.Sprintf("%d writes, for lack of what was before; %d records that cannot be read", n.Unjudged, n.Unreadable))
	}
	p.field("Remarks", strings.Join(r.Notes, "\n"))
	p.Out.WriteByte('\n')
	t := &output.Table{}
	t.Row("PROMISE", "RULE", "VIOLATIONS")
	for _, promise := range r.Promises {
		t.Row(promise.Text, promise.Rule, strconv.Itoa(promise.Violations))
	}
	t.Row("ZooKeeper keeps what it has acknowledged", "zookeeper", strconv.Itoa(len(r.Losses)))
	t.Write(p.Out, "")
	p.Out.WriteByte('\n')
	for _, loss := range r.Losses {
		what := "lost"
		if loss.Back {
			what = "did without, and later had again,"
		}
		p.linef("ZOOKEEPER %s %d transactions from zxid %v to %v: zxid %v, %s, shows it", what, loss.Transactions, loss.First, loss.Last,
			loss.Shown.Zxid, loss.Shown.Time.Format(toTheMillisecond))
	}
	switch {
	case r.OK:
		p.linef("PASS")
	case len(r.Violations) > 0:
		p.violations(r)
	}
}

// logOf is which part of the log was judged.
func logOf(r txnaudit.Report) string {
	if r.First.Zxid == 0 {
		return "no transaction is in this time"
	}
	return fmt.Sprintf("%s to %s, zxid %v to %v, %d transactions", plain.Absolute(r.First.Time, time.UTC),
		plain.Absolute(r.Last.Time, time.UTC), r.First.Zxid, r.Last.Zxid, r.Counts.Transactions)
}

// toTheMillisecond is how the times of transactions are printed.
const toTheMillisecond = "2006-01-02 15:04:05.000"

// violations shows the first violation with the transactions around it, and names some of the
// others.
func (p Page) violations(r txnaudit.Report) {
	const named = 10
	first := r.Violations[0]
	for _, v := range r.Violations[:min(named, len(r.Violations))] {
		p.linef("VIOLATION %s: %s: zxid %v, session %v, %s: %s", v.Rule, v.Job, v.Zxid, v.Session, v.Time.Format(toTheMillisecond), v.Text)
	}
	if more := len(r.Violations) - named; more > 0 {
		p.linef("and at least %d more; -o json has them", more)
	}
	p.Out.WriteByte('\n')
	t := &output.Table{}
	t.Row("WHEN", "ZXID", "TIME", "SESSION", "OP", "PATH", "DATA")
	for _, w := range r.Around {
		when := "violation"
		if w.Zxid < first.Zxid {
			when = "before"
		} else if w.Zxid > first.Zxid {
			when = "after"
		}
		t.Row(when, w.Zxid.String(), w.Time.Format(toTheMillisecond), w.Session.String(), w.Op, w.Path, w.Data)
	}
	t.Write(p.Out, "")
}
