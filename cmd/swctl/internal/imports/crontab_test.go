package imports

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/jobs"
	"github.com/swjobs/singleworker/singleworker"
)

func TestCrontabGolden(t *testing.T) {
	t.Parallel()
	r := Crontab(testdata(t, "crontab.txt"), true, Options{Now: testNow})
	checkResult(t, r)
	golden(t, "crontab", r)
}

// A command works under jobs.Command as under cron: the shell sees the same words, and the same
// input.
func TestCrontabCommandsRunTheSame(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`/bin/echo a=1,2 +x b:c@d --e`:                       "a=1,2 +x b:c@d --e\n",
		`/bin/echo 'two  blanks' "and $((1 + 2))" \x`:        "two  blanks and 3 x\n",
		`echo relative | tr a-z A-Z && echo then; echo last`: "RELATIVE\nthen\nlast\n",
		`/bin/echo 'one  word' +`:                            "one  word +\n",
		`/bin/echo 100\% of`:                                 "100% of\n",
		`/bin/cat%first%it's "second" \% \n%`:                "first\nit's \"second\" % \\n\n\n",
		`read a; echo got $a; cat%one%two`:                   "got one\ntwo\n",
		`/bin/echo /bin/ech? *nothing*like*this*`:            "/bin/echo *nothing*like*this*\n",
	} {
		r := Crontab([]byte("* * * * * "+line+"\n"), false, Options{Zone: "UTC"})
		if len(r.Jobs) != 1 {
			t.Errorf("%s: %+v", line, r)
			continue
		}
		var out bytes.Buffer
		handler, err := jobs.Command(jobs.CommandConfig{Allow: []string{r.Jobs[0].Args["program"]}, Output: &out})
		if err == nil {
			err = handler(context.Background(), &singleworker.Run{Job: "a", Args: r.Jobs[0].Args})
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if out.String() != want {
			t.Errorf("%s: %q prints %q, want %q", line, r.Jobs[0].Args, out.String(), want)
		}
	}
}

// Two restricted day fields mean either of them, as cron has it.
func TestCrontabDays(t *testing.T) {
	t.Parallel()
	r := Crontab([]byte("0 4 13 * FRI /bin/true\n"), false, Options{Zone: "UTC"})
	schedule, err := find(t, r, "true").ParseSchedule()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	for day := at; day.Year() == 2026; day = day.AddDate(0, 0, 1) {
		tick := schedule.Next(day).Truncate(24 * time.Hour)
		if want := day.Day() == 13 || day.Weekday() == time.Friday; want != tick.Equal(day) {
			t.Fatalf("%v: next is %v, want on that day: %v", day, tick, want)
		}
	}
}

func TestCrontabZones(t *testing.T) {
	t.Parallel()
	const lines = "0 3 * * * /a\nCRON_TZ=Asia/Tokyo\n0 3 * * * /b\nTZ=Europe/Rome\n0 3 * * * /c\nCRON_TZ=Moon/Tycho\n0 3 * * * /d\n"
	r := Crontab([]byte(lines), false, Options{Zone: "America/New_York"})
	for name, want := range map[string]string{"a": "America/New_York", "b": "Asia/Tokyo", "c": "Asia/Tokyo"} {
		if j := find(t, r, name); j.TimeZone != want {
			t.Errorf("%s is in %q, want %q", name, j.TimeZone, want)
		}
	}
	if len(r.Jobs) != 3 || r.Lost() != 2 { // TZ, and the unknown zone
		t.Errorf("%+v", r)
	}
	if r := Crontab([]byte("0 3 * * * /a\n"), false, Options{}); r.Lost() != 1 {
		t.Errorf("without a zone: %+v", r.Remarks)
	}
	if r := Crontab([]byte("0 3 * * * /a -b\n"), false, Options{Zone: "UTC"}); r.Lost() != 0 {
		t.Errorf("a plain line: %+v", r.Remarks)
	}
}

func TestCrontabNames(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"/usr/bin/x.sh -a":                        "x.sh",
		"cd /opt/app && ./run.sh":                 "run.sh",
		"flock -n /tmp/a.lock timeout 10m /usr/y": "y",
		"A=1 B=2 nice -n 5 z":                     "z",
		`"/opt/app/run" -v`:                       "run",
		"[ -x /a ] && /a":                         "a",
		";;":                                      "cron",
	} {
		if got := commandName(line); got != want {
			t.Errorf("%s is named %q, want %q", line, got, want)
		}
	}
}

// No line is left out in silence.
func FuzzCrontab(f *testing.F) {
	f.Add(string(testdata(f, "crontab.txt")), true)
	f.Add("@reboot x\n* * * * * %\n\\%\n\x00\nTZ=\n* * * * * a\n", false)
	f.Add("SHELL=x\n@every 1s a\n0 0 30 2 * a", false)
	f.Fuzz(func(t *testing.T, text string, system bool) {
		r := Crontab([]byte(text), system, Options{Zone: "UTC", Now: testNow})
		checkResult(t, r)
		lines := 0
		for line := range strings.Lines(text) {
			line = strings.Trim(line, " \t\r\n")
			if line != "" && line[0] != '#' && !assignment.MatchString(line) {
				lines++
			}
		}
		if len(r.Jobs)+len(r.Remarks) < lines {
			t.Errorf("%d lines, %d jobs, remarks %+v", lines, len(r.Jobs), r.Remarks)
		}
	})
}
