package imports

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/job"
)

func TestQuartzGolden(t *testing.T) {
	t.Parallel()
	r := Quartz(testdata(t, "quartz.xml"), Options{Zone: "Europe/Berlin", Now: testNow})
	checkResult(t, r)
	golden(t, "quartz", r)
}

// trigger is a file with one job and one trigger of it.
func trigger(kind, inside string) []byte {
	return fmt.Appendf(nil, `<job-scheduling-data><schedule><job><name>a</name><job-class>A</job-class></job>
<trigger><%s><name>t</name><job-name>a</job-name>%s</%s></trigger></schedule></job-scheduling-data>`, kind, inside, kind)
}

func TestQuartzMisfires(t *testing.T) {
	t.Parallel()
	const (
		cron   = "<cron-expression>0 0 3 * * ?</cron-expression>"
		simple = "<start-time>2026-01-01T00:00:00Z</start-time><repeat-count>-1</repeat-count><repeat-interval>60000</repeat-interval>"
		days   = "<start-time>2026-01-01T03:00:00</start-time><repeat-interval>1</repeat-interval><repeat-interval-unit>DAY</repeat-interval-unit>"
	)
	for _, c := range []struct {
		kind, inside, instruction string
		want                      job.MisfirePolicy
		lost                      int
	}{
		{"cron", cron, "", "", 0},
		{"cron", cron, "SMART_POLICY", "", 0}, // once, the default
		{"cron", cron, "MISFIRE_INSTRUCTION_FIRE_ONCE_NOW", "", 0},
		{"cron", cron, "MISFIRE_INSTRUCTION_DO_NOTHING", job.MisfireSkip, 0},
		{"cron", cron, "MISFIRE_INSTRUCTION_IGNORE_MISFIRE_POLICY", job.MisfireAll, 0},
		{"cron", cron, "MISFIRE_INSTRUCTION_GUESS", "", 1},
		{"simple", simple, "", job.MisfireSkip, 0},
		{"simple", simple, "MISFIRE_INSTRUCTION_FIRE_NOW", "", 0},
		{"simple", simple, "MISFIRE_INSTRUCTION_RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT", "", 1},
		{"simple", simple, "MISFIRE_INSTRUCTION_RESCHEDULE_NEXT_WITH_EXISTING_COUNT", job.MisfireSkip, 0},
		{"calendar-interval", days, "", "", 0},
		{"calendar-interval", days, "MISFIRE_INSTRUCTION_DO_NOTHING", job.MisfireSkip, 0},
	} {
		inside := c.inside
		if c.instruction != "" {
			inside += "<misfire-instruction>" + c.instruction + "</misfire-instruction>"
		}
		r := Quartz(trigger(c.kind, inside), Options{Zone: "UTC", Now: testNow})
		if j := find(t, r, "a"); j.Misfire != c.want || r.Lost() != c.lost {
			t.Errorf("%s %s: misfire %q, want %q, remarks %+v", c.kind, c.instruction, j.Misfire, c.want, r.Remarks)
		}
	}
}

// The next tick of a job is the trigger's, or there is no job and a remark.
func TestQuartzSchedules(t *testing.T) {
	t.Parallel()
	from := func(start, interval, unit string) string {
		return "<start-time>" + start + "</start-time><repeat-interval>" + interval + "</repeat-interval><repeat-interval-unit>" + unit + "</repeat-interval-unit>"
	}
	for _, c := range []struct{ kind, inside, want string }{
		{"cron", "<cron-expression>0 0 3 ? * SUN</cron-expression><time-zone>Asia/Tokyo</time-zone>", "2026-11-21T18:00:00Z"},
		{"cron", "<cron-expression>0 0 3 * * ?</cron-expression>", "2026-11-22T02:00:00Z"}, // in Berlin
		{"cron", "<cron-expression>0 0 0 30 2 ?</cron-expression>", ""},
		{"cron", "", ""},
		{"calendar-interval", from("2026-01-05T04:30:00", "1", "WEEK"), "2026-11-23T03:30:00Z"},
		{"calendar-interval", from("2026-01-05T04:30:00", "1", "MONTHS"), "2026-12-05T03:30:00Z"},
		{"calendar-interval", from("2026-01-05T04:30:00", "1", "YEAR"), "2027-01-05T03:30:00Z"},
		{"calendar-interval", from("2026-01-05T03:30:00Z", "1", "DAY"), "2026-11-22T03:30:00Z"},
		{"calendar-interval", from("2026-01-05T04:30:00", "2", "HOUR"), "2026-11-21T10:00:00Z"}, // with a remark
		{"calendar-interval", from("2026-01-31T04:30:00", "1", "MONTH"), ""},
		{"calendar-interval", from("2026-01-31T04:30:00", "2", "DAY"), ""},
		{"calendar-interval", from("2026-01-31T04:30:00", "0", "DAY"), ""},
		{"calendar-interval", from("yesterday", "1", "DAY"), ""},
		{"simple", "<repeat-count>-1</repeat-count><repeat-interval>3600000</repeat-interval>", "2026-11-21T09:00:00Z"},
		{"simple", "<repeat-count>-1</repeat-count><repeat-interval>999</repeat-interval>", ""},
		{"simple", "<repeat-count>-1</repeat-count><repeat-interval>9999999999999999</repeat-interval>", ""},
		{"simple", "<repeat-count>3</repeat-count><repeat-interval>3600000</repeat-interval>", "2026-11-21T09:00:00Z"}, // with a remark
		{"simple", "<repeat-count>x</repeat-count><repeat-interval>3600000</repeat-interval>", ""},
		{"simple", "<repeat-count>1000000</repeat-count><repeat-interval>3600000</repeat-interval>", ""},
		{"simple", "<start-time>2026-12-01T00:00:00</start-time><repeat-count>3</repeat-count><repeat-interval>3600000</repeat-interval>", "2026-11-30T23:00:00Z"},
		{"cron", "<cron-expression>0 0 3 * * ?</cron-expression><start-time>2026-12-01T00:00:00</start-time>", "2026-12-01T02:00:00Z"},
		{"simple", "<start-time>2026-12-24T18:00:00</start-time>", "2026-12-24T17:00:00Z"},
		{"simple", "<start-time>2025-12-24T18:00:00</start-time>", ""},
		{"simple", "", ""},
		{"daily-time-interval", "", ""},
		{"cron", "<cron-expression>0 0 3 * * ?</cron-expression><end-time>2026-01-01T00:00:00</end-time>", ""},
	} {
		r := Quartz(trigger(c.kind, c.inside), Options{Zone: "Europe/Berlin", Now: testNow})
		checkResult(t, r)
		if c.want == "" {
			if len(r.Jobs) != 0 || r.Lost() == 0 {
				t.Errorf("%s %s: %+v", c.kind, c.inside, r)
			}
			continue
		}
		schedule, err := find(t, r, "a").ParseSchedule()
		if err != nil {
			t.Fatal(err)
		}
		if next := schedule.Next(testNow).UTC().Format(time.RFC3339); next != c.want {
			t.Errorf("%s %s: next is %s, want %s", c.kind, c.inside, next, c.want)
		}
	}
}

// A file that is not Quartz's, or a hostile one, is refused with a reason, and soon.
func TestQuartzRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{ //nolint:gosec // a path, no secret
		"":                      "no root element",
		"0 0 3 * * ?":           "no root element",
		"<beans/>":              "not job-scheduling-data",
		"<job-scheduling-data>": "is not XML",
		`<?xml version="1.0" encoding="ISO-8859-1"?><job-scheduling-data/>`:                                      "is not XML",
		`<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><job-scheduling-data>&b;</job-scheduling-data>`: "is not XML",
		`<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><job-scheduling-data>&a;</job-scheduling-data>`:   "is not XML",
		strings.Repeat("<a>", 1<<20): "within 32 others",
		"<job-scheduling-data>" + strings.Repeat("<a/> ", 600_000) + "</job-scheduling-data>": "more than 500000 elements",
	} {
		r := Quartz([]byte(text), Options{Zone: "UTC", Now: testNow})
		if len(r.Jobs) > 0 || r.Lost() != 1 || !strings.Contains(r.Remarks[0].Text, want) {
			t.Errorf("%.80s: %+v, want %q", text, r, want)
		}
	}
}

// Every trigger becomes a job or a remark.
func FuzzQuartz(f *testing.F) {
	f.Add(string(testdata(f, "quartz.xml")))
	f.Add(string(trigger("simple", "<repeat-count>-1</repeat-count><repeat-interval>1000</repeat-interval>")))
	f.Fuzz(func(t *testing.T, text string) {
		r := Quartz([]byte(text), Options{Now: testNow})
		checkResult(t, r)
		root, err := parseXML([]byte(text))
		if err != nil || root.name != "job-scheduling-data" {
			if len(r.Remarks) == 0 {
				t.Error("refused without a remark")
			}
			return
		}
		triggers := 0
		for _, schedule := range root.all("schedule") {
			for _, trigger := range schedule.all("trigger") {
				triggers += len(trigger.children)
			}
		}
		if len(r.Jobs)+len(r.Remarks) < triggers {
			t.Errorf("%d triggers, %d jobs, remarks %+v", triggers, len(r.Jobs), r.Remarks)
		}
	})
}

// The start, the end and the repeats of a trigger are the job's. Quartz runs simple triggers up to
// their end, and cron triggers also at it.
func TestQuartzWindows(t *testing.T) {
	t.Parallel()
	start, end := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC)
	const bounds = "<start-time>2026-12-01T00:00:00Z</start-time><end-time>2026-12-02T03:00:00Z</end-time>"
	for _, c := range []struct {
		kind, inside string
		after        time.Time
		runs         int
	}{
		{"cron", "<cron-expression>0 0 3 * * ?</cron-expression>" + bounds, end, 0},
		{"simple", "<repeat-count>3</repeat-count><repeat-interval>3600000</repeat-interval>" + bounds, end.Add(-time.Millisecond), 4},
	} {
		r := Quartz(trigger(c.kind, c.inside), Options{Zone: "UTC", Now: testNow})
		checkResult(t, r)
		j := find(t, r, "a")
		if r.Lost() != 0 || !j.NotBefore.Equal(start) || !j.NotAfter.Equal(c.after) || j.MaxRuns != c.runs {
			t.Errorf("%s: %d lost, from %v to %v, %d runs; want to %v, %d", c.kind, r.Lost(), j.NotBefore, j.NotAfter, j.MaxRuns, c.after, c.runs)
		}
	}
}
