package txnaudit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/txnaudit"
)

func options(dirs ...string) txnaudit.Options {
	return txnaudit.Options{Dirs: dirs, ServerType: "g", Chroot: "/apps"}
}

func run(t *testing.T, opts txnaudit.Options) txnaudit.Report {
	t.Helper()
	report, err := txnaudit.Run(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestPass(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, story(5)...)
	r := run(t, options(dir))
	if !r.OK || !r.Whole || r.Counts.Claims != 5 || r.Counts.Results != 5 || r.Counts.Unjudged != 0 || len(r.Promises) != len(ledger.Rules()) || len(r.Notes) != 0 ||
		r.First.Zxid != 1 || r.Last.Zxid != 15 || !r.Last.Time.Equal(at(51)) {
		t.Errorf("%+v", r)
	}
	for _, promise := range r.Promises {
		if promise.Text == "" {
			t.Errorf("the rule %s is no promise", promise.Rule)
		}
	}
}

func TestViolation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, append(story(9), forged(9))...)
	r := run(t, options(dir))
	if r.OK || len(r.Violations) < 2 || r.Violations[1].Rule != "claim" || r.Violations[1].Zxid != 24 || r.Violations[1].Session != 8 || r.Violations[1].Job != "j" {
		t.Fatalf("%+v", r)
	}
	around := r.Around
	if last := around[len(around)-1]; len(around) != 12 || last.Zxid != 24 || last.Op != "set" || last.Path != tree.Tick("j") || !strings.Contains(last.Data, "forged") {
		t.Errorf("around: %+v", around)
	}
}

// Transactions from before Since build the known state, and are not judged.
func TestBounds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	txns := append(story(3), forged(3))
	write(t, dir, txns...)
	opts := options(dir)
	opts.Since, opts.Until = at(20), at(31)
	if r := run(t, opts); !r.OK || r.Counts.Claims != 2 || r.First.Zxid != 8 || r.Last.Zxid != 11 || r.Counts.Unjudged != 0 {
		t.Errorf("before the violation: %+v", r)
	}
	if opts.Until = at(40); run(t, opts).OK {
		t.Error("the violation is not found")
	}
	opts.Since = at(33)
	if r := run(t, opts); !r.OK || r.Counts.Transactions != 0 || len(r.Notes) == 0 {
		t.Errorf("after the violation: %+v", r)
	}
}

// kept is a snapshot's nodes after n runs.
func kept(runs int) []node {
	txns := story(runs)
	last := txns[len(txns)-1].zxid
	rec := claim(10 * runs)
	rec.State = history.StateOK
	var log zkrec.Log
	pages := make(map[string][]byte)
	for n := range runs {
		ended := claim(10 * (n + 1))
		ended.State = history.StateOK
		log = log.Add(zkrec.MinHistory, 0, zkrec.Entry{Run: ended.Run})
		for _, page := range log.Changed() {
			pages[tree.HistoryPage("j", page)] = log.Encode(page)
		}
	}
	rec.History = log.Mark()
	nodes := []node{
		{tree.Instance("a"), zkrec.Instance{Incarnation: "a!"}.Encode(), 3, 7},
		{tree.Alive("j"), zkrec.Owner{SID: "a", Incarnation: "a!"}.Encode(), 5, 0},
		{tree.Job("j"), []byte("*/10 * * * * ?"), 4, 0},
		{tree.Tick("j"), rec.Encode(), last, 0},
	}
	for _, path := range slices.Sorted(maps.Keys(pages)) {
		nodes = append(nodes, node{path, pages[path], last, 0})
	}
	return nodes
}

// TestPurged: a log that begins in the middle is judged from the oldest snapshot on.
func TestPurged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	txns := story(6)
	write(t, dir, txns[9:]...) // from zxid 10 on, the third run
	r := run(t, options(dir))
	if !r.OK || r.Whole || r.Counts.Unjudged == 0 || r.Baseline != "" {
		t.Errorf("without a snapshot: %+v", r)
	}
	snapshot(t, dir, 11, []int64{7, 8}, kept(3)...)
	r = run(t, options(dir))
	if !r.OK || !r.Whole || r.Counts.Unjudged != 0 || r.Counts.Claims != 3 || r.First.Zxid != 12 || !strings.HasSuffix(r.Baseline, "snapshot.b") {
		t.Errorf("with a snapshot: %+v", r)
	}
	save(t, dir, "snapshot.a", []byte("ZKSN\x00\x00\x00\x02 and so on"))
	if r = run(t, options(dir)); !r.OK || !r.Whole || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "snapshot not used") {
		t.Errorf("beside one that is damaged: %+v", r)
	}
	other := t.TempDir()
	write(t, other, append(txns[9:], forged(6))...)
	snapshot(t, other, 11, []int64{7, 8}, kept(3)...)
	if r = run(t, options(other)); r.OK {
		t.Errorf("a violation after a snapshot: %+v", r)
	}
}

// TestGap: a server that was away has a gap, which another one's files fill.
func TestGap(t *testing.T) {
	t.Parallel()
	one, two := t.TempDir(), t.TempDir()
	txns := story(9)
	write(t, one, txns[:9]...)
	write(t, one, txns[15:]...)
	write(t, two, txns[6:]...)
	if r := run(t, options(one)); !r.OK || r.Whole || !strings.Contains(strings.Join(r.Notes, " "), "between 0x9 and 0x10 are missing") {
		t.Errorf("with a gap: %+v", r)
	}
	if r := run(t, options(two, one)); !r.OK || !r.Whole || r.Counts.Claims != 9 || r.Counts.Transactions != len(txns) || len(r.Notes) != 0 {
		t.Errorf("with both servers: %+v", r)
	}
	snapshot(t, one, 15, []int64{7, 8}, kept(5)...)
	if r := run(t, options(one)); !r.OK || !r.Whole || r.Counts.Unjudged != 0 || r.Counts.Claims != 2+4 {
		t.Errorf("with a snapshot after the gap: %+v", r)
	}
}

// A leader logs a transaction and dies before another server has it: the next leader's history is
// without it. A server that has got a snapshot instead says nothing about it.
func TestTakenBack(t *testing.T) {
	t.Parallel()
	const next = 1 << 32 // the first zxid of the next leader is one more
	one, two := t.TempDir(), t.TempDir()
	txns, back := story(9), connected(next+1, 9)
	write(t, one, append(slices.Clone(txns), forged(9), back)...)
	write(t, two, append(slices.Clone(txns), back)...)
	if r := run(t, options(one)); r.OK {
		t.Error("the files of that server alone cannot tell")
	}
	r := run(t, options(one, two))
	if !r.OK || r.Counts.Transactions != len(txns)+1 || !strings.Contains(strings.Join(r.Notes, " "), "1 transactions were not judged") {
		t.Errorf("with both servers: %+v", r)
	}
	sent := int64(6 + 2*9)
	snapshot(t, two, sent, []int64{7, 8}, kept(9)...)
	if r := run(t, options(one, two)); r.OK {
		t.Error("a server that was sent a snapshot does not know what was before")
	}
}

// TestLost: a leader works without a claim, as the versions of its writes show. That breaks no
// promise of the group's.
func TestLost(t *testing.T) {
	t.Parallel()
	const next = 1 << 32
	second := claim(20)
	second.History = zkrec.Mark{Rev: 1, Number: 1} // after story(1)
	again := second
	again.RunID = "again"
	tick := func(rec zkrec.Tick) zkrec.Node { return zkrec.Node{Path: tree.Tick("j"), Data: rec.Encode()} }
	lost := append(story(1), setsTo(2, 8, 7, 20, tick(second)))
	for version, want := range map[int32]string{2: "[{0x8 0x8 1 {0x100000001 2027-01-15 08:00:21 +0000 UTC} false}] []", 3: "[] [claim account]"} {
		dir := t.TempDir()
		write(t, dir, append(slices.Clone(lost), setsTo(version, next+1, 7, 21, tick(again)))...)
		r := run(t, options(dir))
		var rules []string
		for _, v := range r.Violations {
			rules = append(rules, v.Rule)
		}
		if got := fmt.Sprint(r.Losses, slices.Compact(rules)); r.OK || got != want {
			t.Errorf("version %d: ok %v, %s, want %s", version, r.OK, got, want)
		}
		opts := options(dir)
		if opts.Since = at(22); !run(t, opts).OK {
			t.Error("what was lost before is reported")
		}
	}

	// A server continues without it, and the next leader has it.
	one, two := t.TempDir(), t.TempDir()
	ended := claim(20)
	ended.State = history.StateOK
	before := claim(10).Run
	before.State = history.StateOK
	log := zkrec.Log{}.Add(zkrec.MinHistory, 0, zkrec.Entry{Run: before}).Add(zkrec.MinHistory, 0, zkrec.Entry{Run: ended.Run})
	ended.History = log.Mark()
	result := setsTo(3, 2*next+1, 7, 21, tick(ended))
	result.fields[0] = int32(2)
	result.fields = append(result.fields, setsTo(2, 0, 0, 0, zkrec.Node{Path: tree.History("j"), Data: log.Encode(0)}).fields[1:]...)
	write(t, one, append(slices.Clone(lost), connected(next+1, 9), result)...)
	write(t, two, append(story(1), connected(next+1, 9), result)...)
	r := run(t, options(one, two))
	if len(r.Losses) != 1 || r.Losses[0].First != 8 || r.Losses[0].Last != 8 || !r.Losses[0].Back || r.OK || len(r.Violations) != 0 || r.Counts.Claims != 2 {
		t.Errorf("it came back: %+v", r)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	dir, empty := t.TempDir(), t.TempDir()
	write(t, dir, story(1)...)
	damaged := t.TempDir()
	write(t, damaged, story(1)...)
	save(t, damaged, "log.99", []byte("this is not a transaction log"))
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	long := t.TempDir()
	write(t, long, story(3000)...)
	for name, tt := range map[string]struct {
		ctx  context.Context //nolint:containedctx // one of the cases is about it
		opts txnaudit.Options
		want error
	}{
		"no log":          {t.Context(), options(empty), txnaudit.ErrNoLog},
		"no directory":    {t.Context(), options(filepath.Join(empty, "x")), txnaudit.ErrFile},
		"another group":   {t.Context(), txnaudit.Options{Dirs: []string{dir}, ServerType: "h", Chroot: "/apps"}, txnaudit.ErrNoGroup},
		"another chroot":  {t.Context(), txnaudit.Options{Dirs: []string{dir}, ServerType: "g"}, txnaudit.ErrNoGroup},
		"a damaged file":  {t.Context(), options(damaged), txnaudit.ErrCorrupt},
		"an interruption": {canceled, options(long), context.Cause(canceled)},
	} {
		_, err := txnaudit.Run(tt.ctx, tt.opts)
		if !errors.Is(err, tt.want) || tt.want == txnaudit.ErrNoGroup && !strings.Contains(err.Error(), `it has ["/apps/g"]`) { //nolint:errorlint // the table's own
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	if _, err := txnaudit.Run(t.Context(), txnaudit.Options{Dirs: []string{dir}, ServerType: "a/b"}); err == nil {
		t.Error("a server type that cannot be one is taken")
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, story(5000)...)
	info, err := os.Stat(filepath.Join(dir, "version-2", "log.1"))
	if err != nil {
		t.Fatal(err)
	}
	opts, calls, last := options(dir), 0, int64(0)
	opts.Progress = func(done, total int64) {
		if calls++; done <= last || done > total || total != info.Size() {
			t.Errorf("%d of %d after %d, of %d bytes", done, total, last, info.Size())
		}
		last = done
	}
	if r := run(t, opts); !r.OK || r.Counts.Claims != 5000 || calls != 2 {
		t.Errorf("%d calls, %+v", calls, r.Counts)
	}
}

// FuzzRun: whatever is in the files, an audit ends with a report or one of its errors.
func FuzzRun(f *testing.F) {
	f.Add([]byte("ZKLG"), []byte("ZKSN"))
	f.Fuzz(func(t *testing.T, log, snapshot []byte) {
		dir := t.TempDir()
		save(t, dir, "log.1", log)
		save(t, dir, "snapshot.0", snapshot)
		_, err := txnaudit.Run(t.Context(), options(dir))
		for _, known := range []error{txnaudit.ErrNoGroup, txnaudit.ErrCorrupt} {
			if errors.Is(err, known) {
				return
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
}
