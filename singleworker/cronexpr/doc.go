// Package cronexpr parses schedules and computes the times at which they fire.
// It handles the grammar, time zones and daylight saving. It reads no clock:
// the caller passes the current time, and the same text, zone and time give the
// same result on every machine with the same time zone database.
//
// # Syntax
//
// The number of fields determines the dialect. Fields are separated by spaces
// and tabs. Names are case-insensitive.
//
//	6 or 7 fields     Quartz: second minute hour day-of-month month day-of-week [year]
//	5 fields          crontab: minute hour day-of-month month day-of-week
//	@yearly           also @annually: 1 January, 00:00
//	@monthly          the 1st, 00:00
//	@weekly           Sunday, 00:00
//	@daily            also @midnight: 00:00
//	@hourly           minute 0 of every hour
//	@every 1h30m      each multiple of the period since the Unix epoch; at least 1s
//	@at TIME          once, at an RFC 3339 time in whole seconds
//	@after            the times that other schedules, which are named elsewhere, have in common
//	@manually         at no time: such a job is only started manually
//	@always           at no time: such a job always runs
//
// A field is a list of values (1,15), ranges (9-17) and steps (*/5, 10/5,
// 9-17/2); 10/5 means 10 to the end of the field in steps of 5. A range may
// wrap around: NOV-FEB, FRI-MON, 22-4.
//
// In Quartz syntax the weekdays are 1-7 for SUN-SAT, and one of the two day
// fields is ?, unless both are *. A day of month may also be L (the last day),
// L-3 (three days before it), LW (the last workday, Monday to Friday), L-3W or
// 15W (the workday nearest to that day in the same month). A day of week may be
// 6L (the last Friday) or 6#3 (the third Friday). L alone in the day of week
// means SAT.
//
// In crontab syntax the weekdays are 0-7 for SUN-SAT and SUN again. When both
// day fields are restricted, a day matches if either does. As in Vixie cron, a
// field that begins with * does not count as restricted, so "0 0 */2 * MON"
// fires on Mondays with an odd date. ? means *.
//
// # Differences from Quartz
//
// Expressions have the meaning that they have in Quartz 2.3.2, except on days when clocks change
// and in these points. Where Quartz silently ignores a part of an expression, this package either
// applies it (the step of MON-FRI/2) or rejects it (15W,20; 6#3,2; a step of 0). A month that lacks
// the day of 31W or L-30 is skipped. The years are always 1970 to 2099, whatever the current year.
// Expressions that never fire in those years, in their zone, are rejected; @manually and @always
// are how to say that on purpose.
//
// # Daylight saving
//
// If the hour field is *, or lists all hours, a schedule follows elapsed time:
// it fires whenever the wall clock shows a matching time, so twice in a repeated
// hour. Otherwise it follows the wall clock: it fires once for each matching
// time, at the first moment at which the clock shows that time or a later one.
// In America/New_York:
//
//	0 */20 * * * ?     back, 2026-11-01      every 20 minutes, in both hours from 01:00
//	0 30 1 * * ?       back, 2026-11-01      once, at the first 01:30
//	0 30 2 * * ?       forward, 2026-03-08   once, at 03:00, the first moment after the gap
//	0 0,30 2 * * ?     forward, 2026-03-08   once, at 03:00
//	0 30 * * * ?       forward, 2026-03-08   01:30, then 03:30
//
// The rule does not depend on the size of the change. It covers the half hour
// of Lord Howe, zones that skip midnight, and the day that Samoa skipped in
// 2011, whose daily jobs fired at the first moment of the next day.
//
// # Limits
//
// A schedule has at most 256 bytes of printable ASCII. Cron expressions and @at
// fire at whole seconds, @every at whole milliseconds. Next and Prev accept any
// time and visit each month of 130 years at most once.
package cronexpr
