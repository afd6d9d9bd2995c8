// Package cronexpr turns the text of a schedule into the times at which it
// fires. It knows the grammar, time zones and daylight saving; it knows no
// clock and no jobs. Whoever knows the present passes it in, and the same
// text, zone and time give the same answer on every machine that has the same
// time zone database.
//
// # Texts
//
// The number of fields tells the kind of a text. Fields are separated by
// blanks and tabs, and names may be written in any case.
//
//	6 or 7 fields     Quartz: second minute hour day-of-month month day-of-week [year]
//	5 fields          crontab: minute hour day-of-month month day-of-week
//	@yearly           also @annually: 1 January, 00:00
//	@monthly          the 1st, 00:00
//	@weekly           Sunday, 00:00
//	@daily            also @midnight: 00:00
//	@hourly           minute 0 of every hour
//	@every 1h30m      each multiple of the period since the Unix epoch, from 1s up
//	@at TIME          once, at an RFC 3339 time in whole seconds
//
// A field is a list of values (1,15), ranges (9-17) and steps (*/5, 10/5,
// 9-17/2); 10/5 goes on to the end of the field. A range may wrap around:
// NOV-FEB, FRI-MON, 22-4.
//
// In a Quartz text the weekdays are 1-7 for SUN-SAT, and one of the two day
// fields is ?, unless both are *. A day of month may also be L (the last day),
// L-3 (three days before it), LW (the last Monday to Friday), L-3W or 15W (the
// Monday to Friday nearest to that day in the same month); a day of week may
// be 6L (the last Friday) or 6#3 (the third Friday). L alone in the day of
// week is SAT.
//
// In a crontab text the weekdays are 0-7 for SUN-SAT and SUN again. When both
// day fields are restricted, a day need match only one. As in Vixie cron a
// field that begins with * does not count as restricted, so that
// "0 0 */2 * MON" fires on the Mondays with an odd date. ? means *.
//
// # Differences from Quartz
//
// Texts mean what they mean to Quartz 2.3.2, except on days when clocks
// change and as follows. Where Quartz ignores a part of a text, this package
// honours it (the step of MON-FRI/2) or refuses it (15W,20 and 6#3,2 and a
// step of 0). A month without the day of 31W or L-30 is passed over. Years are
// 1970 to 2099 whatever the present year, for texts without a year field too.
// A text that fires at no time in those years, in its zone, is refused.
//
// # Daylight saving
//
// When the hour field is *, or lists all hours, a schedule goes by elapsed
// time: it fires whenever the clock on the wall shows a time that matches, in
// a repeated hour both times. In any other case it goes by the wall clock: for
// each matching time it fires once, at the first moment at which the clock
// shows that time or a later one. In America/New_York:
//
//	0 */20 * * * ?     back, 2026-11-01      every 20 minutes, in both hours from 01:00
//	0 30 1 * * ?       back, 2026-11-01      once, at the first 01:30
//	0 30 2 * * ?       forward, 2026-03-08   once, at 03:00, the first moment after the gap
//	0 0,30 2 * * ?     forward, 2026-03-08   once, at 03:00
//	0 30 * * * ?       forward, 2026-03-08   01:30, then 03:30
//
// The rule does not depend on the size of the change. It holds for the half
// hour of Lord Howe, for zones that skip midnight, and for the day that Samoa
// skipped in 2011, whose daily jobs fired at the first moment of the next.
//
// # Limits
//
// A text is at most 256 bytes of printable ASCII. Cron texts and @at fire at
// whole seconds, @every at whole milliseconds. Next and Prev take any time, and
// at worst look once at each month of 130 years.
package cronexpr
