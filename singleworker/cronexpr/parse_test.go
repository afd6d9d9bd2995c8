package cronexpr

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// errorTest is a schedule and the fields of its *Error.
type errorTest struct {
	text    string
	field   string
	column  int
	problem string
	want    string
}

func checkErrors(t *testing.T, tests []errorTest) {
	t.Helper()
	for _, tt := range tests {
		_, err := Parse(tt.text, nil)
		var fault *Error
		if !errors.As(err, &fault) {
			t.Errorf("Parse(%q) = %v, want an *Error", tt.text, err)
			continue
		}
		text := tt.text[:min(len(tt.text), maxText)]
		if want := (Error{text, tt.field, tt.column, tt.problem, tt.want}); *fault != want {
			t.Errorf("Parse(%q):\n got %+v\nwant %+v", tt.text, *fault, want)
		}
	}
}

// Texts that match none of the forms.
func TestTextErrors(t *testing.T) {
	t.Parallel()
	const (
		zones = "the time zone in a separate setting"
		ascii = "printable ASCII, spaces and tabs"
	)
	checkErrors(t, []errorTest{
		{"", "", 0, "empty", wantForms},
		{" \t ", "", 0, "empty", wantForms},
		{"* * * *", "", 0, "4 fields", wantForms},
		{"0 0 0 * * ? 2030 1", "", 0, "8 fields", wantForms},
		{"0 0 0 * * ?\n", "", 12, `unexpected '\n'`, ascii},
		{"0 0\x00 0 * * ?", "", 4, `unexpected '\x00'`, ascii},
		{"0 0 ٣ * * ?", "", 5, `unexpected '٣'`, ascii},
		{"0 0 0 * * ?\xff", "", 12, "unexpected '\uFFFD'", ascii},
		{strings.Repeat("*", 257), "", 0, "257 bytes long", "at most 256"},
		{"TZ=UTC", "", 1, "unexpected time zone", zones},
		{" TZ=Asia/Tokyo 0 9 * * *", "", 2, "unexpected time zone", zones},
		{"cron_tz=UTC @daily", "", 1, "unexpected time zone", zones},
	})
}

// Values, ranges, steps and lists.
func TestFieldErrors(t *testing.T) {
	t.Parallel()
	const (
		days  = "1-31"
		wdays = "1-7 or SUN-SAT"
		ends  = "the field to end here"
	)
	checkErrors(t, []errorTest{
		{"60 0 0 * * ?", "second", 1, "60 is out of range", "0-59"},
		{"0 60 0 * * ?", "minute", 3, "60 is out of range", "0-59"},
		{"0 0 24 * * ?", "hour", 5, "24 is out of range", "0-23"},
		{"  0\t0   25 * * ?", "hour", 9, "25 is out of range", "0-23"},
		{"0 0 99999999999999999999 * * ?", "hour", 5, "99999999999999999999 is out of range", "0-23"},
		{"0 0 0 0 * ?", "day-of-month", 7, "0 is out of range", days},
		{"0 0 0 1,32 * ?", "day-of-month", 9, "32 is out of range", days},
		{"0 0 0 1 13 ?", "month", 9, "13 is out of range", "1-12 or JAN-DEC"},
		{"0 0 0 1 foo ?", "month", 9, `"FOO" is not a valid month`, "1-12 or JAN-DEC"},
		{"0 0 0 1 JAN-FOO ?", "month", 13, `"FOO" is not a valid month`, "1-12 or JAN-DEC"},
		{"0 0 0 ? * 0", "day-of-week", 11, "0 is out of range", wdays},
		{"0 0 0 ? * 8", "day-of-week", 11, "8 is out of range", wdays},
		{"0 0 0 ? * SUNDAY", "day-of-week", 11, `"SUNDAY" is not a valid day-of-week`, wdays},
		{"0 0 0 * * ? 1969", "year", 13, "1969 is out of range", "1970-2099"},
		{"0 0 0 * * ? 2030-2026", "year", 13, "the range 2030-2026 ends before it starts", "the smaller year first"},

		{"0/70 * * * * ?", "second", 3, "70 is out of range", "1-59"},
		{"0 */0 * * * ?", "minute", 5, "0 is out of range", "1-59"},
		{"0 0 */24 * * ?", "hour", 7, "24 is out of range", "1-23"},
		{"0 0 0 */32 * ?", "day-of-month", 9, "32 is out of range", "1-31"},
		{"0 0 / * * ?", "hour", 6, "the step is missing", "1-23"},
		{"0 0 1/x * * ?", "hour", 7, `unexpected "X"`, "1-23"},
		{"0 0 1/2/3 * * ?", "hour", 8, `unexpected "/3"`, ends},
		{"0 0 1-2-3 * * ?", "hour", 8, `unexpected "-3"`, ends},
		{"0 0 *5 * * ?", "hour", 6, `unexpected "5"`, ends},
		{"0 0 1- * * ?", "hour", 7, "the value is missing", "0-23"},
		{"0 0 1,,2 * * ?", "hour", 7, "the value is missing", "0-23"},
		{"0 0 ,1 * * ?", "hour", 5, "the value is missing", "0-23"},
		{", * * * *", "minute", 1, "the value is missing", "0-59"},
		{"0 0 1, * * ?", "hour", 7, "the value is missing", "0-23"},
		{"0 0 -1 * * ?", "hour", 5, `unexpected "-"`, "0-23"},
		{"0 0 ? * * ?", "hour", 5, `unexpected "?"`, "0-23"},
		{"0 0 L * * ?", "hour", 5, `"L" is not a valid hour`, "0-23"},
		{"0 0 9am * * ?", "hour", 6, `unexpected "AM"`, ends},
	})
}

// The two day fields, in both dialects.
func TestDayErrors(t *testing.T) {
	t.Parallel()
	const (
		days  = "1-31"
		wdays = "1-7 or SUN-SAT"
		ends  = "the field to end here"
	)
	checkErrors(t, []errorTest{
		{"0 0 0 ? * ?", "day-of-week", 11, "day-of-month and day-of-week are both ?", "? in only one of them"},
		{"0 0 0 1 * MON", "day-of-week", 11, "day-of-month and day-of-week are both given", "? in one of them"},
		{"0 0 0 1 * *", "day-of-week", 11, "day-of-month and day-of-week are both given", "? in one of them"},
		{"0 0 0 L-31 * ?", "day-of-month", 9, "31 is out of range", "0-30"},
		{"0 0 0 L- * ?", "day-of-month", 9, "the number of days is missing", "0-30"},
		{"0 0 0 15,L * ?", "day-of-month", 10, "L in a list", "L as the only entry of the field"},
		{"0 0 0 15W,20 * ?", "day-of-month", 9, "W in a list", "W as the only entry of the field"},
		{"0 0 0 32W * ?", "day-of-month", 7, "32 is out of range", days},
		{"0 0 0 1-5W * ?", "day-of-month", 8, `"W" is missing`, "W right after the day, like 15W"},
		{"0 0 0 LWW * ?", "day-of-month", 9, `unexpected "W"`, ends},
		{"0 0 0 W * ?", "day-of-month", 7, `"W" is not a valid day-of-month`, days},
		{"0 0 0 ? * 6#6", "day-of-week", 13, "6 is out of range", "1-5"},
		{"0 0 0 ? * 6#", "day-of-week", 13, "the number of the week is missing", "1-5"},
		{"0 0 0 ? * #3", "day-of-week", 11, `unexpected "#"`, wdays},
		{"0 0 0 ? * 6#3,2", "day-of-week", 12, "# in a list", "# as the only entry of the field"},
		{"0 0 0 ? * 2,6L", "day-of-week", 14, "L in a list", "L as the only entry of the field"},
		{"0 0 0 ? * 8L", "day-of-week", 11, "8 is out of range", wdays},
		{"0 0 0 ? * 2-6L", "day-of-week", 12, `"#" is missing`, "# right after the weekday, like 6#3"},
		{"0 0 0 ? * 6LL", "day-of-week", 13, `unexpected "L"`, ends},

		{"60 * * * *", "minute", 1, "60 is out of range", "0-59"},
		{"* * * * 8", "day-of-week", 9, "8 is out of range", "0-7 or SUN-SAT"},
		{"0 0 L * *", "day-of-month", 5, "L in an expression of five fields", "six fields (Quartz), starting with the second"},
		{"0 0 * * FRI#2", "day-of-week", 12, "# in an expression of five fields", "six fields (Quartz), starting with the second"},
	})
}

// Descriptors, and schedules that never fire.
func TestDescriptorErrors(t *testing.T) {
	t.Parallel()
	const (
		never  = "never fires in the years 1970 to 2099"
		exists = "times that exist"
	)
	checkErrors(t, []errorTest{
		{"@fortnightly", "", 1, `unknown descriptor "@fortnightly"`, wantDescriptors},
		{"@daily 9", "@daily", 8, `unexpected "9"`, "nothing after @daily"},
		{"@every", "@every", 7, "the period is missing", wantPeriod},
		{"@every 1h 30m", "@every", 11, `unexpected "30m"`, "one word after @every"},
		{"@every 100ms", "@every", 8, "100ms is too short", "1s or more"},
		{"@every 0s", "@every", 8, "0s is too short", "1s or more"},
		{"@every -5s", "@every", 8, `"-5s" is not a period`, wantPeriod},
		{"@every 90", "@every", 8, `"90" is not a period`, wantPeriod},
		{"@every 1.0005s", "@every", 8, `"1.0005s" is not a period`, wantPeriod},
		{"@every 1000.5ms", "@every", 8, `"1000.5ms" is not a period`, wantPeriod},
		{"@every 5000000us", "@every", 8, `"5000000us" is not a period`, wantPeriod},
		{"@every 9999999h", "@every", 8, "9999999h is too long", "less than 292 years"},
		{"@at", "@at", 4, "the time is missing", wantTime},
		{"@at noon", "@at", 5, `"noon" is not a time`, wantTime},
		{"@at 2026-02-29T00:00:00Z", "@at", 5, `"2026-02-29T00:00:00Z" is not a time`, wantTime},
		{"@at 2026-12-24T18:00:00", "@at", 5, `"2026-12-24T18:00:00" is not a time`, wantTime},
		{"@at 2026-12-24T18:00:00.5Z", "@at", 5, `"2026-12-24T18:00:00.5Z" is not a time`, wantTime},
		{"@at 2026-12-24 18:00:00Z", "@at", 16, `unexpected "18:00:00Z"`, "one word after @at"},
		{"@at 2100-01-01T00:00:00Z", "@at", 5, `"2100-01-01T00:00:00Z" is out of range`, "a time in the years 1970 to 2099"},
		{"@at 1970-01-01T00:00:00+01:00", "@at", 5, `"1970-01-01T00:00:00+01:00" is out of range`, "a time in the years 1970 to 2099"},

		{"0 0 3 30 2 ?", "", 0, never, exists},
		{"0 0 0 31 4,6,9,11 ?", "", 0, never, exists},
		{"0 0 0 29 2 ? 2027", "", 0, never, exists},
		{"0 0 0 L-29 2 ?", "", 0, never, exists},
		{"0 0 0 ? 2 6#5 2027", "", 0, never, exists},
		{"0 0 30 2 *", "", 0, never, exists},
	})
}

// A schedule for a day that its zone skipped never fires.
func TestParseRejectsSkippedDay(t *testing.T) {
	t.Parallel()
	if s, err := Parse("0 0 * 30 12 ? 2011", zone(t, "Pacific/Apia")); err == nil {
		t.Errorf("accepted, and fires at %v", s.Next(distantPast))
	}
	if _, err := Parse("0 0 * 30 12 ? 2011", nil); err != nil {
		t.Errorf("refused in a zone that has the day: %v", err)
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0 0 25 * * ?": `schedule "0 0 25 * * ?": hour at column 5: 25 is out of range, want 0-23`,
		"@often":       `schedule "@often": column 1: unknown descriptor "@often", want ` + wantDescriptors,
		"* *":          `schedule "* *": 2 fields, want ` + wantForms,
	} {
		if _, err := Parse(text, nil); err == nil || err.Error() != want {
			t.Errorf("Parse(%q):\n got %v\nwant %s", text, err, want)
		}
	}
}

// Cases that the Quartz vectors do not cover: each pair fires at the same times.
func TestSameMeaning(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{
		// Quartz
		{"0 0 12 * * *", "0 0 12 * * ?"},
		{"0 0 12 ? * *", "0 0 12 * * ?"},
		{"0 /5 * * * ?", "0 0/5 * * * ?"},
		{"0 0 22-4 * * ?", "0 0 22,23,0,1,2,3,4 * * ?"},
		{"0 0 22-4/2 * * ?", "0 0 22,0,2,4 * * ?"},
		{"0 0 0 29-2 * ?", "0 0 0 29,30,31,1,2 * ?"},
		{"0 0 0 1 NOV-FEB ?", "0 0 0 1 11,12,1,2 ?"},
		{"0 0 0 ? * FRI-MON", "0 0 0 ? * 6,7,1,2"},
		{"0 0 0 ? * MON-FRI/2", "0 0 0 ? * 2,4,6"},
		{"0 0 0 ? * L", "0 0 0 ? * SAT"},
		{"0 0 0 ? * FRIL", "0 0 0 ? * 6l"},
		{"0 0 0 ? * fri#2", "0 0 0 ? * 6#2"},
		{"0 0 0 L-0 * ?", "0 0 0 L * ?"},
		{"0 0 0 L-0W * ?", "0 0 0 LW * ?"},
		{"0 0 0 1 1 ? */10", "0 0 0 1 1 ? 1970/10"},
		{"0 0 0 1 1 ? 2030-2040/5", "0 0 0 1 1 ? 2030,2035,2040"},
		// crontab
		{"* * * * *", "0 * * * * ?"},
		{"*/15 9-17 * * MON-FRI", "0 */15 9-17 ? * 2-6"},
		{"0 0 * * 0", "0 0 0 ? * SUN"},
		{"0 0 * * 7", "0 0 0 ? * SUN"},
		{"0 0 * * 0-7", "0 0 0 * * ?"},
		{"0 0 * * 5-7", "0 0 0 ? * FRI-SUN"},
		{"0 0 * * 7-2", "0 0 0 ? * SUN-TUE"},
		{"0 0 * * 1/2", "0 0 0 ? * MON,WED,FRI"},
		{"0 0 * * */2", "0 0 0 ? * SUN,TUE,THU,SAT"},
		{"0 0 ? * 1", "0 0 0 ? * MON"},
		{"0 0 15 * ?", "0 0 0 15 * ?"},
		{"0 0 1-31 * MON", "0 0 0 * * ?"},
		{"0 0 *,5 * MON", "0 0 0 ? * MON"},
		// descriptors
		{"@yearly", "0 0 0 1 1 ?"},
		{"@annually", "0 0 1 1 *"},
		{"@monthly", "0 0 1 * *"},
		{"@weekly", "0 0 * * 0"},
		{"@DAILY", "0 0 * * *"},
		{"@midnight", "0 0 * * *"},
		{"@hourly", "0 * * * *"},
		{"@every 1m30s", "@every 90s"},
		{"@every 1.5h", "@every 90m"},
		{"@every 1500ms", "@every 1.5s"},
	} {
		a, b := mustParse(t, pair[0], nil), mustParse(t, pair[1], nil)
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 50 {
			x, y := a.Next(at), b.Next(at)
			if !x.Equal(y) {
				t.Errorf("after %v %q fires at %v and %q at %v", at, pair[0], x, pair[1], y)
				break
			}
			at = x
		}
	}
}

// In crontab syntax a day must match either field if both are restricted, and
// both fields if one of them begins with *.
func TestCrontabDays(t *testing.T) {
	t.Parallel()
	for text, fires := range map[string][]string{
		"0 0 13 * FRI":  {"2026-02-06", "2026-02-13", "2026-02-20", "2026-02-27", "2026-03-06", "2026-03-13"},
		"0 0 13 * 2":    {"2026-02-03", "2026-02-10", "2026-02-13", "2026-02-17", "2026-02-24"},
		"0 0 13 * *":    {"2026-02-13", "2026-03-13", "2026-04-13"},
		"0 0 * * FRI":   {"2026-02-06", "2026-02-13"},
		"0 0 */2 * FRI": {"2026-02-13", "2026-02-27", "2026-03-13", "2026-03-27", "2026-04-03"},
		"0 0 13 * */5":  {"2026-02-13", "2026-03-13", "2026-09-13"},
		"0 0 31 4 FRI":  {"2026-04-03", "2026-04-10"},
	} {
		s := mustParse(t, text, nil)
		at := time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
		for _, want := range fires {
			at = s.Next(at)
			if got := at.Format(time.DateOnly); got != want {
				t.Errorf("%q: fires on %s, want %s", text, got, want)
				break
			}
		}
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		" \t0  0 12 ?  * mon-fri ":      "0 0 12 ? * MON-FRI",
		"*/5 * * * *":                   "*/5 * * * *",
		"@Midnight":                     "@daily",
		"@annually":                     "@yearly",
		"@EVERY 90s":                    "@every 1m30s",
		"@every 1000h1500ms":            "@every 1000h0m1.5s",
		"@at 2026-12-24T18:00:00+01:00": "@at 2026-12-24T17:00:00Z",
	} {
		s := mustParse(t, text, nil)
		if s.String() != want {
			t.Errorf("Parse(%q).String() = %q, want %q", text, s, want)
		}
		if again := mustParse(t, want, nil); again.String() != want {
			t.Errorf("Parse(%q).String() = %q", want, again)
		}
	}
}
