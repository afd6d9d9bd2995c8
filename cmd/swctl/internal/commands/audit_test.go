package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/txnaudit"
)

// audited is a report of an audit, with a violation or without.
func audited(broken int) txnaudit.Report {
	at := time.Date(2026, 11, 22, 2, 59, 58, 5e6, time.UTC)
	r := txnaudit.Report{
		Group: "/billing", OK: broken == 0, First: txnaudit.Point{Zxid: 0x500000001, Time: at}, Last: txnaudit.Point{Zxid: 0x500001a2b, Time: at.Add(time.Hour)},
		Baseline: "/data/version-2/snapshot.500000000", Whole: true,
		Counts:   txnaudit.Counts{Transactions: 6699, Claims: 3600, ManualRuns: 1, Attempts: 2, Results: 3603, Ticks: 3610, OwnerChanges: 9, Takeovers: 4},
		Promises: []txnaudit.Promise{{Rule: "owner", Text: "every change of owner is legal"}, {Rule: "claim", Text: "no tick is claimed twice", Violations: broken}},
		Losses:   []txnaudit.Loss{},
		Notes:    []string{},
	}
	if broken == 0 {
		return r
	}
	r.Notes = []string{"/data/version-2/log.500000001: txnlog: the last record is torn, at byte 17"}
	r.Counts.Layouts, r.Counts.Unjudged = 1, 3
	for n := range broken {
		r.Violations = append(r.Violations, txnaudit.Violation{
			Rule: "claim", Job: "nightly", Zxid: txnaudit.Hex(0x500000123 + n), Session: -2, Time: at, Text: "run x claims a \x1b[31msecond time",
		})
	}
	r.Around = []txnaudit.Write{
		{Zxid: 0x500000122, Session: 0x17, Time: at, Op: "set", Path: "/billing/nightly/tick", Data: `{"schema":1}`},
		{Zxid: 0x500000123, Session: -2, Time: at, Op: "set", Path: "/billing/nightly/tick", Data: "\x1b[2J"},
	}
	return r
}

func TestAuditGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var text strings.Builder
	line := func(report txnaudit.Report, err error, args ...string) {
		h.app.audit = func(context.Context, txnaudit.Options) (txnaudit.Report, error) { return report, err }
		text.WriteString(h.transcript(append([]string{"audit"}, args...)...) + "\n")
	}
	line(audited(0), nil, "--txnlog", "/data")
	line(audited(1), nil, "--txnlog", "/data")
	line(audited(12), nil, "--txnlog", "/data")
	lost := audited(0)
	lost.OK, lost.Losses = false, []txnaudit.Loss{
		{First: 0x500000123, Last: 0x500000140, Transactions: 17, Shown: lost.Last},
		{First: 0x500000151, Last: 0x500000152, Transactions: 2, Shown: lost.Last, Back: true},
	}
	line(lost, nil, "--txnlog", "/data")
	line(audited(1), nil, "--txnlog", "/data", "-o", "json")
	line(txnaudit.Report{}, nil)
	line(txnaudit.Report{}, nil, "nightly", "--txnlog", "/data")
	line(txnaudit.Report{}, nil, "--txnlog", "/data", "--since", "yesterday")
	for _, err := range []error{txnaudit.ErrNoLog, txnaudit.ErrNoGroup, txnaudit.ErrCorrupt, txnaudit.ErrFile, errors.New("what")} {
		line(txnaudit.Report{}, fmt.Errorf("x: %w", err), "--txnlog", "/data")
	}
	h.vars[cmdline.EnvServerType] = ""
	line(txnaudit.Report{}, nil, "--txnlog", "/data")
	golden(t, "audit", text.String())
}

// The audit follows the line, and nobody connects.
func TestAuditOptions(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var got txnaudit.Options
	bounded := false
	h.app.audit = func(ctx context.Context, opts txnaudit.Options) (txnaudit.Report, error) {
		got = opts
		_, bounded = ctx.Deadline()
		return audited(0), nil
	}
	h.exec("audit", "--txnlog", "/a", "--zk", "h1:2181,h2:2181/apps/eu", "--txnlog", "/b", "--since", "2026-11-22 02:00", "--until", "2026-11-22T04:00:00+01:00")
	want := txnaudit.Options{
		Dirs: []string{"/a", "/b"}, ServerType: "billing", Chroot: "apps/eu",
		Since: time.Date(2026, 11, 22, 2, 0, 0, 0, time.UTC), Until: time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC),
	}
	if got.Until = got.Until.UTC(); !reflect.DeepEqual(got, want) || bounded || len(h.fake.calls) > 0 {
		t.Errorf("%+v, want %+v; a deadline: %v; calls: %v", got, want, bounded, h.fake.calls)
	}
	if h.exec("audit", "--txnlog", "/a", "--timeout", "1m"); !bounded {
		t.Error("--timeout is ignored")
	}
}

// A person at a terminal hears how far a long audit is.
func TestAuditProgress(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	now := testNow
	h.Now = func() time.Time { return now }
	h.app.audit = func(_ context.Context, opts txnaudit.Options) (txnaudit.Report, error) {
		if opts.Progress != nil {
			for n := range int64(10) {
				now = now.Add(time.Second)
				opts.Progress(n<<20, 10<<20)
			}
		}
		return audited(0), nil
	}
	if h.exec("audit", "--txnlog", "/a"); h.errs.Len() > 0 {
		t.Errorf("without a terminal: %q", h.errs.String())
	}
	h.Interactive = true
	if h.exec("audit", "--txnlog", "/a"); h.errs.String() != "swctl: audit: 20 % of 10 MB\nswctl: audit: 50 % of 10 MB\nswctl: audit: 80 % of 10 MB\n" {
		t.Errorf("at a terminal: %q", h.errs.String())
	}
}

// Files that are no logs are refused, whatever is in them.
func TestAuditOfHostileFiles(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		"", "ZKLG", "garbage that is longer than a head", "ZKLG\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00",
		"ZKLG\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff",
		"ZKLG\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xf0",
	} {
		dir := t.TempDir()
		for _, name := range []string{"log.1", "snapshot.0"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		h := newHarness(t)
		h.app.audit = txnaudit.Run
		if code := h.exec("audit", "--txnlog", dir); code != cmdline.ExitUsage || !strings.HasPrefix(h.errs.String(), "swctl: audit: ") || h.out.Len() > 0 {
			t.Errorf("%q: exit %d, %q, %q", data, code, h.errs.String(), h.out.String())
		}
	}
}
