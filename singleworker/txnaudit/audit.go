package txnaudit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

var (
	// ErrNoLog is returned when the directories have no transaction log.
	ErrNoLog = errors.New("no transaction log")
	// ErrNoGroup is returned when the log has nothing of the group.
	ErrNoGroup = errors.New("the log has no such group")
	// ErrCorrupt is returned for a file that is no ZooKeeper log, or that is damaged otherwise than by
	// a crash.
	ErrCorrupt = txnlog.ErrCorrupt
	// ErrFile is returned for a file or a directory that cannot be opened, listed or read.
	ErrFile = txnlog.ErrFile
)

// Options select the files, the group and the time to audit.
type Options struct {
	// Dirs are the dataDir, and the dataLogDir if there is one, of a server; or of several servers of
	// one ensemble, which fills gaps that one of them has. Their order does not matter.
	Dirs []string
	// ServerType is the group's. Chroot is the path that the connect string ends with, such as
	// "/apps", or empty.
	ServerType, Chroot string
	// Since and Until bound the judgment, by the times in the log. Zero means no bound.
	Since, Until time.Time
	// Progress, if set, is called now and then with how many of all bytes were read.
	Progress func(done, total int64)
	// Follow goes on as the log of one server grows, until a violation or a loss is found, or until
	// ctx is done, which is no error then. A server may have to cut off transactions that it had
	// logged and its ensemble had not; then it is audited once more from the beginning of its files.
	Follow bool
	// CaughtUp, if set, is called by Follow at the end of the log, a few times a second, with the last
	// transaction and all counts.
	CaughtUp func(last Point, counts Counts)
}

// ErrServers is returned by Follow for the files of several servers, of which each may stop.
var ErrServers = errors.New("only the files of one server can be followed")

// Run audits a group. Violations are not an error. Errors: ErrNoLog, ErrNoGroup, ErrCorrupt,
// ErrFile, ErrServers, the cause of ctx.
func Run(ctx context.Context, opts Options) (Report, error) {
	if err := zkrec.CheckServerType(opts.ServerType); err != nil {
		return Report{}, fmt.Errorf("server type %q: %w", opts.ServerType, err)
	}
	var back []txnlog.Loss
	for cut := 0; ; {
		files, err := collect(opts.Dirs)
		if err != nil {
			return Report{}, err
		}
		if opts.Follow && len(files.servers) > 1 {
			return Report{}, fmt.Errorf("%w: %q are of %d", ErrServers, opts.Dirs, len(files.servers))
		}
		files.back = back
		a := newAuditor(opts, files)
		if cut > 0 {
			a.notef("the server has cut off transactions %d times: its ensemble had continued without them", cut)
		}
		report, err := a.run(ctx)
		switch {
		case opts.Follow && errors.Is(err, txnlog.ErrCut):
			cut++
		case err != nil || a.back == nil:
			return report, err
		default:
			back = append(back, *a.back) // from the beginning, with what came back where it belongs
		}
	}
}

func newAuditor(opts Options, files evidence) *auditor {
	group := path.Join("/", opts.Chroot, opts.ServerType)
	tree := zkrec.NewTree(group[1:])
	a := &auditor{
		opts: opts, files: files, tree: tree, split: ledger.NewModel(tree).Split, broken: make(map[ledger.Rule]int),
		groups: make(map[string]bool),
		report: Report{Group: group, Whole: true, Losses: []Loss{}, Violations: []Violation{}, Around: []Write{}, Notes: []string{}},
	}
	a.remember()
	return a
}

// run returns the report, unless it sees that transactions that were taken back came back: see
// back.
func (a *auditor) run(ctx context.Context) (Report, error) {
	progress := func(done int64) {
		if a.opts.Progress != nil {
			a.opts.Progress(done, a.files.bytes)
		}
	}
	files := a.files
	if a.opts.Follow {
		files.wait = func() ([]txnlog.File, error) { return a.wait(ctx) }
	}
	notes, err := files.each(ctx, progress, a.setAside, a.take)
	if a.opts.Follow && err != nil && ctx.Err() != nil {
		err = nil
	}
	if err != nil || a.back != nil {
		return Report{}, err
	}
	a.report.Notes = append(a.report.Notes, notes...)
	a.closeLedger()
	if !a.found {
		return Report{}, fmt.Errorf("%w: %s%s", ErrNoGroup, a.report.Group, a.others())
	}
	if a.report.Counts.Claims == 0 {
		a.notef("no tick was claimed: there was little to judge")
	}
	for _, rule := range ledger.Rules() {
		a.report.Promises = append(a.report.Promises, Promise{string(rule), promises[rule], a.broken[rule]})
	}
	a.report.OK = len(a.report.Violations)+len(a.report.Losses) == 0
	if len(a.report.Violations) > 0 {
		a.report.Around, err = a.around(ctx, a.report.Violations[0])
	}
	return a.report, err
}

// auditor feeds ledgers with transactions: one, and another one after each gap.
type auditor struct {
	opts   Options
	files  evidence
	tree   zkrec.Tree
	split  func(path string) (slot, node, rest string, ok bool)
	report Report
	broken map[ledger.Rule]int
	groups map[string]bool // that the log has, this one or others
	found  bool            // something of the group

	past   *txnlog.History
	aside  []txnlog.Loss // each a number of transactions with none in between that was judged
	judged bool          // the last transaction was, rather than set aside
	back   *txnlog.Loss  // those of aside that a later transaction shows to have come back

	ledger  *ledger.Ledger
	last    int64         // zxid
	through int64         // up to here the snapshot shows traces of transactions
	skip    int64         // up to here transactions are in the snapshot
	muted   bool          // before Options.Since
	before  ledger.Counts // what was judged while muted
}

// maxGroups bounds the groups that are listed when there is not the one that was asked for.
const maxGroups = 10

// take takes in a transaction; false ends the audit.
func (a *auditor) take(txn *txnlog.Txn) bool {
	if !a.opts.Until.IsZero() && txn.Time.After(a.opts.Until) {
		return false
	}
	if a.ledger == nil || !txnlog.Follows(txn.Zxid, a.last) {
		a.begin(txn.Zxid)
	}
	a.last, a.judged = txn.Zxid, true
	a.look(txn)
	returns, back := a.past.Next(txn)
	if k := slices.IndexFunc(a.aside, func(l txnlog.Loss) bool { return l.First <= back && back <= l.Last }); k >= 0 && len(a.files.back) < maxBack {
		a.back = &a.aside[k]
		a.back.Shown, a.back.Time = txn.Zxid, txn.Time
		return false
	}
	switch {
	case txn.Zxid <= a.skip:
		return true
	case txn.Zxid <= a.through:
		a.ledger.Replay(txn)
		return true
	}
	for _, r := range returns {
		a.ledger.Return(r)
	}
	if muted := txn.Time.Before(a.opts.Since); a.muted && !muted {
		a.muted, a.before = false, a.ledger.Counts()
	}
	if !a.muted {
		at := Point{Hex(txn.Zxid), txn.Time.UTC()}
		if a.report.First.Zxid == 0 {
			a.report.First = at
		}
		a.report.Last = at
	}
	a.ledger.Apply(txn)
	return !a.opts.Follow || len(a.report.Violations)+len(a.losses()) == 0
}

// looksEach is how often the files are looked at for more when they are followed.
const looksEach = 250 * time.Millisecond

// wait waits a moment at the end of the log, and returns the files that there are then.
func (a *auditor) wait(ctx context.Context) ([]txnlog.File, error) {
	if a.opts.CaughtUp != nil && a.ledger != nil {
		a.opts.CaughtUp(a.report.Last, a.counts())
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(looksEach):
	}
	files, err := collect(a.opts.Dirs)
	if err != nil {
		return nil, err
	}
	a.files.snapshots = files.snapshots
	return files.servers[0].Logs, nil
}

// maxBack bounds how often an audit begins again.
const maxBack = 100

// setAside takes in a transaction that was taken back.
func (a *auditor) setAside(txn *txnlog.Txn) {
	if a.judged || len(a.aside) == 0 {
		a.aside = append(a.aside, txnlog.Loss{First: txn.Zxid})
	}
	run := &a.aside[len(a.aside)-1]
	run.Last, a.judged = txn.Zxid, false
	run.Txns++
	a.past.SetAside(txn)
}

// remember begins to follow versions: of the first transactions, or of those after a gap.
func (a *auditor) remember() {
	a.past = txnlog.NewHistory()
	for _, loss := range a.files.back {
		if loss.First > a.last {
			a.past.CameBack(loss)
		}
	}
}

// look looks for groups.
func (a *auditor) look(txn *txnlog.Txn) {
	for k := range txn.Ops {
		name := txn.Ops[k].Path
		a.found = a.found || a.isOfGroup(name)
		if group, _, found := strings.Cut(name, "/"+path.Base(a.tree.Instances())); found && len(a.groups) < maxGroups {
			a.groups[group] = true
		}
	}
}

// isOfGroup reports whether a path is one that only a group has.
func (a *auditor) isOfGroup(name string) bool {
	slot, node, _, ok := a.split(name)
	return ok && (slot == "" || node != ledger.NodeJob)
}

// others names the groups that there are, as a hint.
func (a *auditor) others() string {
	var names []string
	for name := range a.groups {
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; it has %q", names)
}

// begin begins a ledger for the transactions from zxid on: the first ones, or those after a gap.
func (a *auditor) begin(zxid int64) {
	gap := a.ledger != nil
	a.closeLedger()
	if gap {
		a.notef("transactions between %v and %v are missing: the server got them as a snapshot, or files were removed", Hex(a.last), Hex(zxid))
		a.remember()
	}
	a.skip, a.through, a.muted = 0, 0, !a.opts.Since.IsZero()
	const first = 1
	whole := !gap && zxid == first
	for k, file := range a.files.snapshots {
		if whole && file.Zxid >= zxid {
			break // an empty tree is earlier
		}
		next := k+1 == len(a.files.snapshots) || a.files.snapshots[k+1].Zxid >= zxid
		if file.Zxid < zxid-1 && !(next && txnlog.Follows(zxid, file.Zxid)) {
			continue
		}
		l := a.newLedger(true)
		snapshot, err := file.Visit(func(n txnlog.Node) {
			a.found = a.found || a.isOfGroup(n.Path)
			l.Load(n)
		})
		if err != nil {
			a.notef("snapshot not used: %v", err)
			continue
		}
		l.LoadSessions(snapshot.Sessions)
		a.ledger, a.skip, a.through = l, file.Zxid, snapshot.Through
		if file.Zxid > 0 && a.report.Baseline == "" {
			a.report.Baseline = file.Path
		}
		return
	}
	if !whole {
		a.report.Whole = false
		a.notef("no snapshot says what there was before %v: what a write changes is judged from the second one on", Hex(zxid))
	}
	a.ledger = a.newLedger(whole)
}

func (a *auditor) notef(format string, args ...any) {
	const most = 50
	if len(a.report.Notes) < most {
		a.report.Notes = append(a.report.Notes, fmt.Sprintf(format, args...))
	}
}

func (a *auditor) newLedger(whole bool) *ledger.Ledger {
	return ledger.New(a.tree, whole, ledger.Observer{}, func(v ledger.Violation) {
		if a.muted {
			return
		}
		a.broken[v.Rule]++
		if len(a.report.Violations) < MaxViolations {
			a.report.Violations = append(a.report.Violations, Violation{
				Rule: string(v.Rule), Job: v.Slot, Zxid: Hex(v.Txn.Zxid), Session: Hex(v.Txn.Session), Time: v.Txn.Time.UTC(), Text: v.Text,
			})
		}
	})
}

// closeLedger adds up the judgments.
func (a *auditor) closeLedger() {
	if a.ledger == nil || a.muted {
		return
	}
	a.report.Losses = append(a.report.Losses, a.losses()...)
	a.report.Counts = a.counts()
	a.before = ledger.Counts{}
}

// losses are those that the transactions since the last gap show, as many as the report takes.
func (a *auditor) losses() (shown []Loss) {
	for _, loss := range a.past.Losses() {
		if len(a.report.Losses)+len(shown) < MaxViolations && !loss.Time.Before(a.opts.Since) && loss.Shown <= a.last {
			shown = append(shown, Loss{
				First: Hex(loss.First), Last: Hex(loss.Last), Transactions: loss.Txns, Shown: Point{Hex(loss.Shown), loss.Time.UTC()}, Back: loss.Back,
			})
		}
	}
	return shown
}

// counts is how much was judged.
func (a *auditor) counts() Counts {
	return a.report.Counts.plus(countsOf(a.ledger.Counts()), 1).plus(countsOf(a.before), -1)
}

// How much of the log is shown around a violation.
const (
	shownBefore = 12
	shownAfter  = 4
	shownBytes  = 400
)

// around reads the log again for the writes around a violation.
func (a *auditor) around(ctx context.Context, v Violation) (shown []Write, err error) {
	job := zkrec.JobOfSlot(v.Job)
	after := 0
	_, err = a.files.each(ctx, nil, func(*txnlog.Txn) {}, func(txn *txnlog.Txn) bool {
		n := len(shown)
		for k := range txn.Ops {
			op := &txn.Ops[k]
			slot, node, rest, ok := a.split(op.Path)
			member := slot == "" && op.Type != txnlog.SetData
			beat := node == ledger.NodeAlive && rest != ""
			if ok && (member || zkrec.JobOfSlot(slot) == job && (slot == v.Job || slot == job) && !beat) {
				shown = append(shown, Write{
					Zxid: Hex(txn.Zxid), Session: Hex(txn.Session), Time: txn.Time.UTC(), Op: op.Type.String(), Path: op.Path,
					Data: string(bytes.ToValidUTF8(op.Data[:min(len(op.Data), shownBytes)], nil)),
				})
			}
		}
		if txn.Zxid <= int64(v.Zxid) {
			shown = shown[max(0, len(shown)-shownBefore):]
		} else if len(shown) > n {
			after++
		}
		return after < shownAfter
	})
	return shown, err
}
