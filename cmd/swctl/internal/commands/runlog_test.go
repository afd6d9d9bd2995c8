package commands

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

var errStopped = errors.New("that is all")

// logged keeps the fake group's histories, in a directory.
func (h *harness) logged(t *testing.T, dir string) {
	t.Helper()
	var entries []history.Entry
	for _, e := range nightlyEntries() {
		if e.State != history.StateRunning && e.State != history.StateUnreadable { // as records have them
			entries = append(entries, e)
		}
	}
	slices.Reverse(entries) // oldest first
	for i := range entries {
		entries[i].Number, entries[i].Rev = int64(i+1), int64(i+1)
	}
	n := int64(len(entries))
	other := history.Entry{
		Number: n + 21, Rev: n + 21,
		Run: history.Run{Tick: testNow, State: history.StateFailed, RunID: "r-x", Attempt: 1, Started: testNow, Ended: testNow.Add(time.Second), Error: "no\x1b[31m"},
		To:  testNow, Count: 1,
	}
	history := func(name string, incarnation, dropped int64, entries ...history.Entry) admin.SlotHistory {
		last := entries[len(entries)-1]
		return admin.SlotHistory{
			Name: name, Incarnation: incarnation, Written: testNow, Rev: last.Rev, Number: last.Number, Dropped: dropped, Entries: entries,
		}
	}
	h.fake.readings = []admin.HistoryReading{
		{Cursor: 7, Whole: true, Slots: []admin.SlotHistory{history("nightly", 3, 0, entries...), history("レポート[1]", 4, n+20, other)}},
		{Cursor: 8, Whole: true, Slots: []admin.SlotHistory{history("nightly", 3, n+20, other)}},
	}
	h.fake.fail = map[string]error{"WatchHistories": errStopped}
	h.exec("runlog", "--store", "file:"+dir, "--keep", "90d", "--keep-per-job", "10000")
	if !strings.Contains(h.errs.String(), errStopped.Error()) || !strings.Contains(h.out.String(), "keeping the run log of billing") {
		t.Fatalf("runlog: %s%s", h.out.String(), h.errs.String())
	}
}

func TestRunLogGolden(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	newHarness(t).logged(t, dir)
	h := newHarness(t)
	var texts []string
	for _, args := range [][]string{
		{"history", "nightly", "--store", "DIR"}, {"history", "--all", "--failed"}, {"history", "--all", "--summary"},
		{"history", "レポート", "--since", "2026-01-01 00:00", "-n", "1", "-o", "jsonl"}, {"history", "レポート[1]", "--until", "30d"},
		{"history", "--all", "--summary", "-o", "json", "--since", "12h"},
	} {
		h.vars[envStore] = "file:" + dir
		for i, arg := range args {
			if arg == "DIR" {
				args[i] = "file:" + dir
			}
		}
		texts = append(texts, strings.ReplaceAll(h.transcript(args...), dir, "DIR"))
	}
	golden(t, "runlog", strings.Join(texts, "\n"))
	if len(h.fake.calls) > 0 {
		t.Errorf("history --store called the server: %q", h.fake.calls)
	}
}

func TestStoresAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, want string }{
		{"runlog", "needs a store"},
		{"runlog job --store file:x", "takes no arguments"},
		{"runlog --store file:", "want file:DIRECTORY"},
		{"runlog --store file://host/x", "want file:DIRECTORY"},
		{"runlog --store nothing", "no stores of the kind"},
		{"runlog --store postgres://u:pw@h/db", "has a password"},
		{"runlog --store postgres://u@h/db?password=pw", "has a password"},
		{"runlog --store postgres://u@h/db?sslmode=require&SSLPassword=pw", "has a password"},
		{"runlog --store mysql://u@h/db?pass%77ord=pw", "has a password"},
		{"runlog --store postgres://u@h/db?a=%zz&password=pw", "is not a URL"},
		{"runlog --store postgres:///db?a=%zz&password=pw", "has a password"},
		{"runlog --store sqlite:what?%comes", "cannot open it"},
		{"runlog --store postgres://u@h/db?a;password=pw", "is not a URL"},
		{"runlog --store postgres://h/db?sslmode=require", "no stores of the kind postgres"},
		{"runlog --store postgres://h/db", "try: --store file:DIRECTORY or sqlite:...\n"},
		{"runlog --store sqlite:x", "cannot open it"},
		{"runlog --store %zz:pw", "is not a URL"},
		{"runlog --store file:/dev/null/x", "not a directory"},
		{"runlog --store file:x --keep 0d", "want an age"},
		{"runlog --store file:x --keep-per-job 0", "want a number"},
		{"history --store file:/tmp", "needs the name of one job"},
		{"history a --all --store file:/tmp", "a name is given"},
		{"history a --summary --failed --store file:/tmp", "sums up all"},
		{"history a --since yesterday --store file:/tmp", "is not a time"},
		{"history a --since 1d", "needs a store"},
	} {
		h := newHarness(t)
		h.app.stores = map[string]StoreOpener{"sqlite": func(*url.URL) (runlog.Store, error) { return nil, errors.New("cannot open it") }}
		code := h.exec(strings.Fields(test.args)...)
		if text := h.errs.String(); code == cmdline.ExitOK || !strings.Contains(text, test.want) || strings.Contains(text, "pw") {
			t.Errorf("swctl %s: exit %d, %s", test.args, code, text)
		}
	}
	h := newHarness(t)
	for _, address := range []string{"postgres://u:pw@h/db", "postgres://u@h/db?password=pw"} {
		h.vars[envStore] = address
		if h.exec("history", "--all"); strings.Contains(h.errs.String(), "pw") || !strings.Contains(h.errs.String(), "no stores of the kind") {
			t.Error(h.errs.String())
		}
	}
}

// Who asks for a database is told how to get the program that has it.
func TestProgramWithDatabases(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.vars[envStore] = "sqlite:runs.db"
	code := h.exec("history", "--all")
	want := "swctl: SWCTL_STORE: this program has no stores of the kind sqlite\ntry: go install " + withDatabases + ", and swctl-sql instead of swctl"
	if text := h.errs.String(); code != cmdline.ExitUsage || !strings.HasPrefix(text, want) || strings.Count(text, "\n") != 2 {
		t.Errorf("exit %d, %s", code, text)
	}
}
