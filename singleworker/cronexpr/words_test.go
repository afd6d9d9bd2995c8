package cronexpr

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"@yearly":   "on day 1 of January at 00:00 UTC",
		"@annually": "on day 1 of January at 00:00 UTC",
		"@monthly":  "on day 1 of the month at 00:00 UTC",
		"@weekly":   "every Sunday at 00:00 UTC",
		"@daily":    "every day at 00:00 UTC",
		"@hourly":   "every hour",
		"@manually": "only when it is triggered",
		"@always":   "all the time",

		"@every 1s":     "every second",
		"@every 10s":    "every 10 seconds",
		"@every 1m":     "every minute",
		"@every 90s":    "every 1 minute 30 seconds from 00:00 UTC",
		"@every 1500ms": "every 1.5 seconds",
		"@every 1050ms": "every 1.05 seconds, counted from 1970-01-01 00:00 UTC",
		"@every 5m":     "every 5 minutes from 00:00 UTC",
		"@every 7m":     "every 7 minutes, counted from 1970-01-01 00:00 UTC",
		"@every 1h30m":  "every 1 hour 30 minutes from 00:00 UTC",
		"@every 2h1s":   "every 2 hours 1 second, counted from 1970-01-01 00:00 UTC",
		"@every 24h":    "every 24 hours from 00:00 UTC",

		"@at 2026-12-24T18:00:00+01:00": "once, at 2026-12-24 17:00:00 UTC",

		"* * * * * ?":                          "every second",
		"0 * * * * ?":                          "every minute",
		"*/10 * * * * ?":                       "every 10 seconds",
		"5 * * * * ?":                          "at second 5 of every minute",
		"*/7 * * * * ?":                        "at seconds 0 to 56 in steps of 7 of every minute",
		"5,6,40 * * * * ?":                     "at seconds 5, 6 and 40 of every minute",
		"0 */15 * * * ?":                       "every 15 minutes",
		"0 0,30 * * * ?":                       "every 30 minutes",
		"0 5/15 * * * ?":                       "at minutes 5, 20, 35 and 50 of every hour",
		"0 0,31 * * * ?":                       "at minutes 0 and 31 of every hour",
		"5 30 * * * ?":                         "at second 5 of minute 30 of every hour",
		"* 30 * * * ?":                         "every second of minute 30 of every hour",
		"*/20 1,2 9 * * ?":                     "every 20 seconds of minutes 1 and 2 of hour 9, UTC",
		"0 0 */2 * * ?":                        "every 2 hours, UTC",
		"0 0 9-17 * * ?":                       "every hour from 09:00 to 17:00, UTC",
		"0 0 22-4 * * ?":                       "every hour from 22:00 to 04:00, UTC",
		"0 0 1/3 * * ?":                        "at minute 0 of hours 1 to 22 in steps of 3, UTC",
		"0 */5 9-17 * * ?":                     "every 5 minutes from 09:00 to 17:59, UTC",
		"0 */5 9,11,13 * * ?":                  "every 5 minutes in hours 9, 11 and 13, UTC",
		"30 * 9-17 * * ?":                      "at second 30 of every minute from 09:00 to 17:59, UTC",
		"0 10,20 9-17 * * ?":                   "at minutes 10 and 20 of hours 9 to 17, UTC",
		"0 0 2 * * ?":                          "every day at 02:00 UTC",
		"15 0 2 * * ?":                         "every day at 02:00:15 UTC",
		"0 0,30 9,10 * * ?":                    "every day at 09:00, 09:30, 10:00 and 10:30 UTC",
		"0 0 12 ? * MON-FRI":                   "Monday to Friday at 12:00 UTC",
		"0 0 12 ? * FRI-MON":                   "Friday to Monday at 12:00 UTC",
		"0 0 12 ? * SAT,SUN":                   "Saturday and Sunday at 12:00 UTC",
		"0 0 12 ? * 4":                         "every Wednesday at 12:00 UTC",
		"0 0 12 ? * MON-WED,6":                 "Monday to Wednesday and Friday at 12:00 UTC",
		"0 0 12 ? * L":                         "every Saturday at 12:00 UTC",
		"0 0 12 ? * 6L":                        "on the last Friday of the month at 12:00 UTC",
		"0 0 12 ? 2 6#3":                       "on the third Friday of February at 12:00 UTC",
		"0 0 12 1,15 * ?":                      "on days 1 and 15 of the month at 12:00 UTC",
		"0 0 12 1-7 1,7 ?":                     "on days 1 to 7 of January and July at 12:00 UTC",
		"0 0 12 L * ?":                         "on the last day of the month at 12:00 UTC",
		"0 0 12 L-3 6 ?":                       "3 days before the last day of June at 12:00 UTC",
		"0 0 12 LW * ?":                        "on the last workday of the month at 12:00 UTC",
		"0 0 12 L-1W * ?":                      "on the workday nearest to 1 day before the last day of the month at 12:00 UTC",
		"0 0 12 15W * ?":                       "on the workday nearest to day 15 of the month at 12:00 UTC",
		"0 0 12 * 7 ?":                         "every day in July at 12:00 UTC",
		"0 0 12 ? NOV-FEB MON":                 "every Monday in November to February at 12:00 UTC",
		"0 0 12 * * ? 2026":                    "every day in 2026 at 12:00 UTC",
		"0 0 12 24 12 ? 2026-2030/2":           "on day 24 of December in 2026, 2028 and 2030 at 12:00 UTC",
		"0 */20 * * * ? 2026-2028":             "every 20 minutes, in 2026 to 2028, UTC",
		"0 0,31 * ? * MON-FRI":                 "at minutes 0 and 31 of every hour, Monday to Friday, UTC",
		"0 0 2 13 * ? 1970-2099/2":             "on day 13 of the month in 1970 to 2098 in steps of 2 at 02:00 UTC",
		"0 2 * * *":                            "every day at 02:00 UTC",
		"*/10 9-17 * * MON-FRI":                "every 10 minutes from 09:00 to 17:59, Monday to Friday, UTC",
		"0 2 13 * FRI":                         "on day 13 of the month or on Friday at 02:00 UTC",
		"0 2 13 10 1-5":                        "on day 13 of the month or on Monday to Friday, in October at 02:00 UTC",
		"0 2 1-31 * FRI":                       "every day at 02:00 UTC",
		"0 2 */2 * MON":                        "on days 1 to 31 in steps of 2 of the month that fall on Monday at 02:00 UTC",
		"0 2 */2 5 *":                          "on days 1 to 31 in steps of 2 of May at 02:00 UTC",
		"0 2 * * */2":                          "Tuesday, Thursday, Saturday and Sunday at 02:00 UTC",
		"1,2,3,10,20,21,22,59 0 0 29 2 ? 2000": "at seconds 1 to 3, 10, 20 to 22 and 59 of minute 0 of hour 0, on day 29 of February in 2000, UTC",
		"59,0,1 0,1,2,3,4,5 * * * ?":           "at seconds 59 to 1 of minutes 0 to 5 of every hour",
		"* * * * *":                            "every minute",
	} {
		if got := mustParse(t, text, nil).Words(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	berlin := zone(t, "Europe/Berlin")
	for text, want := range map[string]string{
		"0 2 * * *": "every day at 02:00 Europe/Berlin", "@every 10s": "every 10 seconds", "* * * * *": "every minute", "*/20 * * * *": "every 20 minutes, Europe/Berlin",
		"@at 2026-12-24T17:00:00Z": "once, at 2026-12-24 18:00:00 +01:00", "0 0,31 * ? * MON-FRI": "at minutes 0 and 31 of every hour, Monday to Friday, Europe/Berlin",
	} {
		if got := mustParse(t, text, berlin).Words(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// meaning is the content of a schedule's words: the values of its fields, and its days in months of
// all lengths and first days.
func meaning(c *cron) string {
	var text strings.Builder
	fmt.Fprint(&text, c.seconds, c.minutes, c.hours, c.months, c.years)
	for length := 28; length <= 31; length++ {
		for first := time.Sunday; first <= time.Saturday; first++ {
			fmt.Fprint(&text, c.days.days(month{length, first}))
		}
	}
	return text.String()
}

// drawn is a random schedule: as fields, of which some are *.
func drawn(rnd *rand.Rand, days []namedDay) []string {
	fields := []string{"*", "*", "*", "*", "*", "?", "*"}
	for i, f := range []field{secondField, minuteField, hourField, {}, monthField} {
		switch none := func(time.Time) int { return 0 }; {
		case f.name == "" || rnd.IntN(4) == 0:
		case rnd.IntN(2) == 0:
			fields[i] = strconv.Itoa(f.min + rnd.IntN(f.max-f.min+1))
		case rnd.IntN(3) == 0:
			fields[i] = fmt.Sprintf("*/%d", 1+rnd.IntN(f.max))
		default:
			fields[i], _ = numeric(rnd, f.min, f.max, none)
		}
	}
	switch day := days[rnd.IntN(len(days))]; rnd.IntN(4) {
	case 0:
	case 1:
		fields[3], _ = numeric(rnd, 1, 31, time.Time.Day)
	case 2:
		fields[3], fields[5] = "?", weekdayNames[rnd.IntN(7)]
	default:
		fields[3], fields[5] = day.monthDay, day.weekDay
	}
	if rnd.IntN(3) == 0 {
		year := firstYear + rnd.IntN(100)
		fields[6] = fmt.Sprintf("%d-%d/%d", year, year+rnd.IntN(30), 1+rnd.IntN(3))
	}
	if rnd.IntN(4) == 0 { // crontab, of which both days count
		fields[3], _ = numeric(rnd, 1, 31, time.Time.Day)
		fields[5], _ = numeric(rnd, 0, 6, time.Time.Day)
		if rnd.IntN(2) == 0 {
			fields[3] = fmt.Sprintf("*/%d", 1+rnd.IntN(9))
		}
		return fields[1:6]
	}
	return fields
}

// For random schedules:
//  1. there are words, on one line,
//  2. a field that is made another one changes them, if it changes the times: every field is in them,
//  3. two schedules with the same words have the same times.
func TestWordsTellSchedulesApart(t *testing.T) {
	t.Parallel()
	days := namedDays()
	rnd := rand.New(rand.NewPCG(20260308, 1))
	meanings := make(map[string]string)
	texts := make(map[string]string)
	add := func(fields []string) (words, means string) {
		text := strings.Join(fields, " ")
		s, err := Parse(text, nil)
		if err != nil { // a day that no month has
			return "", ""
		}
		c, is := s.rule.(*cron)
		if !is {
			t.Fatalf("%s is not cron", text)
		}
		words, means = s.Words(), meaning(c)
		if words == "" || strings.TrimSpace(words) != words || strings.Contains(words, "  ") || strings.ContainsAny(words, "*?\n") {
			t.Fatalf("%s: %q", text, words)
		}
		if before, known := meanings[words]; known && before != means {
			t.Fatalf("%q is both %s and %s", words, texts[words], text)
		}
		meanings[words], texts[words] = means, text
		return words, means
	}
	for range 1000 {
		fields := drawn(rnd, days)
		words, means := add(fields)
		other := drawn(rnd, days)
		for i := range fields {
			if len(other) != len(fields) || words == "" {
				break
			}
			changed := append([]string{}, fields...)
			if changed[i] = other[i]; len(fields) == 7 && (i == 3 || i == 5) {
				changed[3], changed[5] = other[3], other[5]
			}
			if w, m := add(changed); w != "" && m != means && w == words {
				t.Fatalf("%v and %v: %q", fields, changed, words)
			}
		}
	}
	if len(meanings) < 2000 {
		t.Errorf("only %d different words", len(meanings))
	}
}

type noTime struct{}

func (noTime) Keeps(time.Time) (kept bool, from, until time.Time) { return false, from, until }

// Bounds and filters leave the words as they are.
func TestWordsOfPartsOfASchedule(t *testing.T) {
	t.Parallel()
	whole, err := Parse("30 2 * * *", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []*Schedule{whole.Within(time.Unix(0, 0), time.Time{}), whole.Only(noTime{}), whole.Within(time.Time{}, time.Unix(0, 0)).Only(noTime{})} {
		if part.Words() != whole.Words() || part.String() != whole.String() {
			t.Errorf("a part of %q (%s) is %q (%s)", whole, whole.Words(), part, part.Words())
		}
	}
}
