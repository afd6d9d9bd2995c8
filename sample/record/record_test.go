package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// scenario is a correct record, which tests modify. Two instances share three jobs: a and c are due
// every second, b every two; times are in ms since the Unix epoch.
//
//	10000  settled: s1 owns a, s2 owns b and c
//	20100  s1 is killed; s2 takes a over at 21260
//	30000  s1 is back, and has a from 30100 on
//	40100  s2 is stopped; s1 has b and c from 40120 on
//	45000  c is canceled
//	50000  quit
type scenario struct {
	events []string
	runs   []Run
	owners map[string]Owners // by file, by job
}

func newScenario() *scenario {
	s := &scenario{
		events: strings.Split(strings.TrimSpace(`
9000 instance s1
9000 instance s2
9500 job a 1000
9500 job b 2000
9500 job c 1000
10000 shares 1-2
10000 settled
20100 kill s1
21500 shares 3
30000 join s1
30200 shares 1-2
40100 stop s2
40200 shares 3
45000 cancel c
45050 canceled c
45060 shares 2
50000 quit`), "\n"),
		owners: map[string]Owners{
			"before-kill": {"a": {"s1", 9600}, "b": {"s2", 9600}, "c": {"s2", 9600}},
			"after-kill":  {"a": {"s2", 21260}, "b": {"s2", 9600}, "c": {"s2", 9600}},
			"before-stop": {"a": {"s1", 30100}, "b": {"s2", 9600}, "c": {"s2", 9600}},
			"after-stop":  {"a": {"s1", 30100}, "b": {"s1", 40120}, "c": {"s1", 40125}},
		},
	}
	s.addRuns("a", "s1", 1, 1000, 10_000, 20_000)
	s.addRuns("a", "s2", 4, 1000, 22_000, 30_000)
	s.addRuns("a", "s1", 5, 1000, 31_000, 49_000)
	s.addRuns("b", "s2", 2, 2000, 10_000, 40_000)
	s.addRuns("b", "s1", 6, 2000, 42_000, 49_000)
	s.addRuns("c", "s2", 3, 1000, 10_000, 40_000)
	s.addRuns("c", "s1", 7, 1000, 41_000, 44_000)
	return s
}

// addRuns adds runs of 60 ms that start 3 ms late, for the ticks from first to last.
func (s *scenario) addRuns(job, sid string, token int64, period, first, last Millis) {
	for tick := first; tick <= last; tick += period {
		s.runs = append(s.runs, Run{
			Job: job, Tick: tick, SID: sid, Token: token, Attempt: 1,
			Start: tick + 3, End: tick + 63, Outcome: "ok",
		})
	}
}

// run returns the run of a tick, for modification.
func (s *scenario) run(job string, tick Millis) *Run {
	i := slices.IndexFunc(s.runs, func(r Run) bool { return r.Job == job && r.Tick == tick })
	return &s.runs[i]
}

// drop removes the runs of the ticks from first to last.
func (s *scenario) drop(job string, first, last Millis) {
	s.runs = slices.DeleteFunc(s.runs, func(r Run) bool {
		return r.Job == job && first <= r.Tick && r.Tick <= last
	})
}

// dropEvent removes the events with a prefix.
func (s *scenario) dropEvent(start string) {
	s.events = slices.DeleteFunc(s.events, func(e string) bool { return strings.HasPrefix(e, start) })
}

// write writes the record to a directory.
func (s *scenario) write(t *testing.T) Dir {
	t.Helper()
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("events", strings.Join(s.events, "\n")+"\n")
	var ledger strings.Builder
	for _, r := range s.runs {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&ledger, "%s\n", line)
	}
	put("ledger", ledger.String())
	for name, owners := range s.owners {
		if err := Dir(dir).SaveOwners(name, owners); err != nil {
			t.Fatal(err)
		}
	}
	return Dir(dir)
}

// judge returns the last line of a demonstration.
func judge(t *testing.T, s *scenario) string {
	t.Helper()
	verdict, err := s.write(t).Judge()
	if err != nil {
		t.Fatal(err)
	}
	if verdict.Pass != strings.HasPrefix(verdict.String(), "PASS") {
		t.Errorf("pass %t and says %s", verdict.Pass, verdict)
	}
	return verdict.String() + "\n"
}

func TestVerdictPass(t *testing.T) {
	t.Parallel()
	got := judge(t, newScenario())
	want := "PASS  2 instances, 3 jobs, 94 runs: 0 double, 0 overlapping, 0 missing " +
		"(not counting 1 ticks during the takeover, 0 during hand-overs); " +
		"takeover max 1903 ms for jobs every 1 s (bound 2000); hand-over max 25 ms; " +
		"shares 1-2, 3, 1-2, 3, 2\n"
	if got != want {
		t.Errorf("got %s want %s", got, want)
	}
}

// Modifications that make a demonstration fail, and ones that do not.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		corrupt func(s *scenario)
		want    string
	}{
		"a tick run by two instances": {func(s *scenario) {
			r := *s.run("b", 14_000)
			r.SID, r.Start, r.End = "s1", r.End+10, r.End+70
			s.runs = append(s.runs, r)
		}, "FAIL  b: tick 00:00:14.000 ran twice, on s2 and s1\n"},
		"a tick run twice at the same time": {func(s *scenario) {
			s.runs = append(s.runs, *s.run("b", 14_000))
		}, "overlap"},
		"runs of two ticks that overlap": {func(s *scenario) {
			s.run("a", 15_000).End = 16_004
		}, "FAIL  a: the runs of ticks 00:00:15.000 on s1 and 00:00:16.000 on s1 overlap\n"},
		"a run that outlasts two others": {func(s *scenario) {
			s.run("a", 15_000).End = 17_500
		}, "a: the runs of ticks 00:00:15.000 on s1 and 00:00:17.000 on s1 overlap\n"},
		"a run that ends as the next begins": {func(s *scenario) {
			s.run("a", 15_000).End = 16_003
		}, "PASS"},
		"a tick missing": {func(s *scenario) {
			s.drop("b", 14_000, 14_000)
		}, "FAIL  b: tick 00:00:14.000 did not run\n"},
		"a tick missing just before the end": {func(s *scenario) {
			s.drop("a", 49_000, 49_000)
		}, "FAIL  a: tick 00:00:49.000 did not run\n"},
		"the first tick missing": {func(s *scenario) {
			s.drop("a", 10_000, 11_000)
		}, "FAIL  a: tick 00:00:11.000 did not run\n"},
		"a tick missing during the takeover, of a job that kept its owner": {func(s *scenario) {
			s.drop("b", 22_000, 22_000)
		}, "FAIL  b: tick 00:00:22.000 did not run\n"},
		"a takeover that is late": {func(s *scenario) {
			s.drop("a", 22_000, 23_000)
		}, "FAIL  a: tick 00:00:23.000 did not run\n"},
		"the last run before the kill, cut off": {func(s *scenario) {
			s.drop("a", 20_000, 20_000)
		}, "not counting 2 ticks during the takeover, 0 during"},
		"a tick missing long before the kill": {func(s *scenario) {
			s.drop("a", 19_000, 20_000)
		}, "FAIL  a: tick 00:00:19.000 did not run\n"},
		"a tick that fell into a hand-over": {func(s *scenario) {
			s.drop("b", 40_000, 40_000)
		}, "not counting 1 ticks during the takeover, 1 during hand-overs"},
		"a tick missing after a hand-over": {func(s *scenario) {
			s.drop("b", 42_000, 42_000)
		}, "FAIL  b: tick 00:00:42.000 did not run\n"},
		"a job that never ran again": {func(s *scenario) {
			s.drop("a", 22_000, 49_000)
		}, "FAIL  a: tick 00:00:21.000 did not run; "},
		"a job that never ran": {func(s *scenario) {
			s.drop("b", 0, 50_000)
		}, "; and 15 more\n"},
		"a run that failed": {func(s *scenario) {
			s.run("a", 15_000).Outcome = "failed"
		}, "FAIL  a: tick 00:00:15.000 failed on s1\n"},
		"a run cut off as its job was canceled": {func(s *scenario) {
			s.addRuns("c", "s1", 7, 1000, 45_000, 45_000)
			s.run("c", 45_000).Outcome = "interrupted"
		}, "PASS"},
		"a run cut off before its job was canceled": {func(s *scenario) {
			s.run("c", 44_000).Outcome = "interrupted"
		}, "FAIL  c: tick 00:00:44.000 interrupted on s1\n"},
		"a run of a canceled job": {func(s *scenario) {
			s.addRuns("c", "s1", 7, 1000, 46_000, 46_000)
		}, "FAIL  c: tick 00:00:46.000 ran although the job was canceled at 00:00:45.050\n"},
		"a run that was never due": {func(s *scenario) {
			s.addRuns("a", "s1", 1, 1000, 15_500, 15_500)
		}, "FAIL  a: 00:00:15.500 is not one of its ticks\n"},
		"a run before its time": {func(s *scenario) {
			s.run("a", 15_000).Start = 14_990
		}, "FAIL  a: tick 00:00:15.000 ran at 00:00:14.990, too early\n"},
		"a job that nobody submitted": {func(s *scenario) {
			s.addRuns("x", "s1", 1, 1000, 15_000, 15_000)
		}, "FAIL  x ran but was not submitted\n"},
		"a step left out": {func(s *scenario) {
			s.dropEvent("20100 kill")
		}, "FAIL  events: no kill"},
		"a stop after which a job has no owner": {func(s *scenario) {
			delete(s.owners["after-stop"], "b")
		}, "FAIL  after the stop: b has no other owner yet\n"},
	} {
		s := newScenario()
		test.corrupt(s)
		got := judge(t, s)
		if !strings.Contains(got, test.want) {
			t.Errorf("%s\n got %s want %s", name, got, test.want)
		}
		if strings.Count(got, "\n") != 1 {
			t.Errorf("%s: more than one line: %s", name, got)
		}
	}
}

func TestVerdictOfTruncatedLedger(t *testing.T) {
	t.Parallel()
	dir := newScenario().write(t)
	if err := os.WriteFile(dir.Ledger(), []byte("{}\n{\"job\":\"a\",\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Judge(); err == nil || !strings.Contains(err.Error(), "ledger: line 2") {
		t.Errorf("%v, want line 2", err)
	}
}

func TestMoved(t *testing.T) {
	t.Parallel()
	s := newScenario()
	for step, want := range map[string]string{
		"kill": `JOB  EVERY  WENT TO  OWNED AFTER  RAN AFTER  TICKS MISSED
a    1 s    s2       1160 ms      1903 ms    1
`,
		"stop": `JOB  EVERY  WENT TO  OWNED AFTER  RAN AFTER  TICKS MISSED
b    2 s    s1       20 ms        1903 ms    0
c    1 s    s1       25 ms        903 ms     0
`,
	} {
		if got, err := s.write(t).Moved(step); err != nil || got != want {
			t.Errorf("%s: %v\ngot\n%swant\n%s", step, err, got, want)
		}
	}
}

func TestTakeoversByPeriod(t *testing.T) {
	t.Parallel()
	got := takeovers([]move{{period: 2000, ran: 5900}, {period: 1000, ran: 4800}, {period: 1000, ran: 4900}})
	if want := "4900 ms for jobs every 1 s (bound 2000), 5900 ms for jobs every 2 s (bound 3000)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSharesAndBusiest(t *testing.T) {
	t.Parallel()
	list := func(sids ...string) Owners {
		owners := make(Owners)
		for i, sid := range sids {
			owners[fmt.Sprint("job-", i)] = Owner{sid, 1}
		}
		return owners
	}
	for _, test := range []struct {
		owners string
		sids   string
		want   string
	}{
		{"s1 s2 s3", "s1 s2 s3", "1-1-1"},
		{"s1 s2 s1", "s2 s1", "1-2"},
		{"s1 s1 s1 s2", "s1 s2", "shares 3-1 differ by more than one"},
		{"s1 s2", "s1 s2 s3 s4", "1-1-0-0"},
		{"s1 s1 s2", "s1 s2 s3", "shares 2-1-0 differ by more than one"},
		{"s1 s2 gone", "s1 s2", "shares 1-1: 1 of 3 jobs have no owner among these"},
	} {
		got, err := list(strings.Fields(test.owners)...).Shares(strings.Fields(test.sids))
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s for %s: %q, want %q", test.owners, test.sids, got, test.want)
		}
	}
	if sid, count, err := list("s2", "s1", "s2", "s3", "s3").Busiest(); err != nil || sid != "s2" || count != 2 {
		t.Errorf("busiest: %q with %d, %v", sid, count, err)
	}
	if _, _, err := list().Busiest(); err == nil {
		t.Error("somebody is busiest without a job")
	}
}

func TestInvalidEvents(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"12", "x kill s1", "0 kill s1", "12 job a", "12 job a 0", "12 explode"} {
		if _, err := readEvents(text + "\n"); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v, want an error that quotes it", text, err)
		}
	}
}

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	dir := Dir(t.TempDir())
	if n, err := dir.CountRuns(); n != 0 || err != nil {
		t.Errorf("before the first run: %d, %v", n, err)
	}
	if err := errors.Join(
		os.WriteFile(dir.Ledger(), []byte("{}\n{}\n"), 0o600),
		dir.Event("job", "a", "1000"), dir.Event("kill", "s1"),
		dir.SaveOwners("before-kill", Owners{"a": {}, "b": {"s1", 1}}),
	); err != nil {
		t.Fatal(err)
	}
	if n, err := dir.CountRuns(); n != 2 || err != nil {
		t.Errorf("%d runs, %v, want 2", n, err)
	}
	all, err := dir.read()
	if err != nil {
		t.Fatal(err)
	}
	if all.events.periods["a"] != 1000 || all.events.sid["kill"] != "s1" || all.events.at["kill"] == 0 {
		t.Errorf("events: %+v", all.events)
	}
	if owners, err := dir.readOwners("before-kill"); err != nil || owners["a"] != (Owner{}) || owners["b"] != (Owner{"s1", 1}) || len(owners) != 2 {
		t.Errorf("owners: %v, %v", owners, err)
	}
	if _, err := dir.readOwners("after-kill"); err == nil {
		t.Error("owners that nobody has saved")
	}
}
