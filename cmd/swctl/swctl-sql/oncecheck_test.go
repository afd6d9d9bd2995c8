package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/effects"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/once"
	"github.com/swjobs/singleworker/singleworker/runlog"
	"github.com/swjobs/singleworker/singleworker/runlog/jsonl"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// swctl runs this binary as swctl-sql, with the database in its environment.
func swctl(t *testing.T, url string, args ...string) (out []byte, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...) //nolint:gosec // this test
	cmd.Env = append(os.Environ(), "SWCTL_DB="+url)
	cmd.Stderr = t.Output()
	return cmd.Output()
}

// testCheck has ticks that are on one side alone.
func testCheck(t *testing.T, g target) {
	t.Helper()
	if g.url == "" {
		return
	}
	slot := g.newSlot(t)
	group, start := slot, time.Now().Add(-100*time.Hour).UTC().Truncate(time.Hour)
	var entries []runlog.Entry
	for i := range 24 {
		run := runOf(slot, 0, 1, fmt.Sprintf("run-%d", i))
		run.Group, run.Tick = group, start.Add(time.Duration(i)*time.Hour)
		state := history.StateOK
		switch i {
		case 9: // the result of a run that is in the database
			state = history.StateLost
		case 11, 12: // of a manual run
			run.Manual, run.Request = true, fmt.Sprintf("q%d", i)
		}
		do := func(step string) error {
			if step != "" {
				return once.Step(t.Context(), g.db, run, step, g.effectOf(t.Context(), run))
			}
			return once.Do(t.Context(), g.db, run, g.effectOf(t.Context(), run))
		}
		var err error
		switch i {
		case 5, 11: // no marker
		case 7:
			err = do("part")
		case 8:
			run.BeforeTick = true
			err = do("")
			run.BeforeTick = false
			if err == nil {
				err = do("")
			}
		default:
			err = do("")
		}
		if err != nil {
			t.Fatal(err)
		}
		if i == 10 { // which the log lacks
			continue
		}
		e := history.Entry{Count: 1, To: run.Tick, Number: int64(i + 1), Rev: int64(i + 1), Run: history.Run{
			Tick: run.Tick, Manual: run.Request, State: state, RunID: run.ID, InstanceID: run.InstanceID, Token: run.Token, Attempt: 1, Started: run.Tick, Ended: run.Tick.Add(time.Second),
		}}
		entries = append(entries, runlog.Entry{Seq: int64(len(entries) + 1), Slot: slot, Job: run.Job, Incarnation: 1, Key: run.ID, Kind: runlog.Ran, At: e.Ended, Entry: e})
	}
	now := time.Now()
	entries = append(entries, runlog.Entry{
		Seq: int64(len(entries) + 1), Slot: slot, Job: "daily", Incarnation: 1, Key: "last", Kind: runlog.Ran, At: now.Add(time.Hour),
		Entry: history.Entry{Count: 1, Number: 99, Rev: 99, Run: history.Run{Tick: now, State: history.StateFailed, RunID: "last", Started: now.Add(time.Hour), Ended: now.Add(time.Hour)}},
	})
	dir := t.TempDir()
	log, err := jsonl.Open(dir, jsonl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Load(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	if err := log.Append(t.Context(), group, runlog.Batch{Entries: entries}); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	check := func(want ...string) {
		t.Helper()
		out, err := swctl(t, g.url, "once", "check", "--store", "file:"+dir, "--server-type", group, "-o", "json")
		var report effects.Report
		if failed := json.Unmarshal(out, &report); failed != nil {
			t.Fatalf("%s: %v, %v", out, failed, err)
		}
		var got []string
		for _, d := range report.Differences {
			got = append(got, fmt.Sprintf("%s %d %s %s %s", d.Missing, int(d.Tick.Sub(start).Hours()), d.Request, d.RunID, d.State))
		}
		if !slices.Equal(got, want) || (err != nil) != (len(want) > 0) || report.Slots != 1 {
			t.Errorf("%q, %v; want %q; %s", got, err, want, out)
		}
	}
	check("database 11 q11 run-11 ", "log 10  run-10 ", "log 9  run-9 lost", "database 5  run-5 ")
	if _, err := g.db.Prune(t.Context(), group, start.Add(10*time.Hour)); err != nil {
		t.Fatal(err)
	}
	check("database 11 q11 run-11 ", "log 10  run-10 ")
	if _, err := g.db.Prune(t.Context(), group, start.Add(12*time.Hour)); err != nil {
		t.Fatal(err)
	}
	check()
}

// testLower has a group whose tokens have gone back.
func testLower(t *testing.T, g target) {
	t.Helper()
	if g.url == "" {
		return
	}
	url, _, _ := strings.Cut(g.url, "&default")
	url, _, _ = strings.Cut(url, "?tx_read")
	slot := g.newSlot(t)
	low := slot + " low"
	g.exec(t, "INSERT INTO counters (slot, n) VALUES (?,0)", low)
	server := zkdev.Start(t, zkdev.Config{})
	client, err := admin.Dial(t.Context(), admin.Config{Servers: server.Addr(), ServerType: slot})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	do := func(slot string, tick, token int64) error {
		run := runOf(slot, tick, token, "run")
		run.Group = "restored"
		return once.Do(t.Context(), g.db, run, g.effectOf(t.Context(), run))
	}
	if err := do(slot, 1, 1<<40); err != nil {
		t.Fatal(err)
	}
	if err := do(low, 1, 1); err != nil {
		t.Fatal(err)
	}
	reset := func(flags ...string) string {
		t.Helper()
		out, err := swctl(t, url, append([]string{"once", "reset", "--zk", server.Addr(), "--server-type", "restored"}, flags...)...)
		if err != nil {
			t.Fatalf("%v: %s, %v", flags, out, err)
		}
		return string(out)
	}
	if out := reset("--dry-run"); !strings.HasPrefix(out, slot+": 1099511627776\n") || strings.Contains(out, low) {
		t.Errorf("a dry run says %s", out)
	}
	fences, err := g.db.Fences(t.Context(), "restored")
	if err != nil || len(fences) != 2 || max(fences[0].Token, fences[1].Token) != 1<<40 {
		t.Errorf("after a dry run: %+v, %v", fences, err)
	}
	reset("--yes")
	fences, err = g.db.Fences(t.Context(), "restored")
	if err != nil || len(fences) != 2 || min(fences[0].Token, fences[1].Token) != 1 || max(fences[0].Token, fences[1].Token) > server.Zxid() {
		t.Errorf("after a reset at transaction %d: %+v, %v", server.Zxid(), fences, err)
	}
	if err := do(slot, 2, server.Zxid()+1); err != nil {
		t.Errorf("the next owner: %v", err)
	}
}
