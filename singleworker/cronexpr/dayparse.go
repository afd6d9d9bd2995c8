package cronexpr

import (
	"strings"
	"time"
)

// quartzDays reads the two day fields of a Quartz text, of which one must be
// left open.
func (p *parser) quartzDays(monthDay, weekDay word) dayRule {
	switch {
	case monthDay.text == "?" && weekDay.text == "?":
		p.fail(quartzWeekdayField.name, weekDay.column,
			"day-of-month and day-of-week are both ?", "? in only one of them")
	case weekDay.text == "?", monthDay.text == "*" && weekDay.text == "*":
		return p.quartzMonthDay(monthDay)
	case monthDay.text == "?":
		return p.quartzWeekDay(weekDay)
	default:
		p.fail(quartzWeekdayField.name, weekDay.column,
			"day-of-month and day-of-week are both given", "? in one of them")
	}
	return dates{}
}

// quartzMonthDay reads a list of dates, or one of L, L-3, LW, L-3W and 15W.
func (p *parser) quartzMonthDay(w word) dayRule {
	r := p.reader(&monthDayField, w)
	if !strings.ContainsAny(w.text, "LW") {
		return dates(r.list())
	}
	defer r.end()
	r.alone("LW")
	if !r.accept('L') {
		day := r.value()
		r.expect('W', "it right after the day, like 15W")
		return workdayNear{day}
	}
	back := 0
	if r.accept('-') {
		back = r.number("number of days", 0, 30, "0-30")
	}
	if r.accept('W') {
		return lastWorkday{back}
	}
	return lastDay{back}
}

// quartzWeekDay reads a list of weekdays, or one of L, 6L and 6#3.
func (p *parser) quartzWeekDay(w word) dayRule {
	r := p.reader(&quartzWeekdayField, w)
	switch {
	case w.text == "L":
		// The last day of the week, and not of the month: every Saturday.
		return weekdays(run(int(time.Saturday), int(time.Saturday)))
	case !strings.ContainsAny(w.text, "L#"):
		return weekdays(r.list())
	}
	defer r.end()
	r.alone("L#")
	weekday := time.Weekday(r.weekday() - r.base)
	if r.accept('L') {
		return lastOn{weekday}
	}
	r.expect('#', "it right after the weekday, like 6#3")
	return nthOn{weekday, r.number("number of the week", 1, 5, "1-5")}
}

// weekday reads one value, from which a following L is to be told apart: in
// FRIL the name ends before it.
func (r *reader) weekday() int {
	whole := r.word.text
	if i := strings.IndexAny(whole, "L#"); i > 0 {
		r.word.text = whole[:i]
	}
	v := r.value()
	r.word.text = whole
	return v
}

// alone refuses a list that contains one of the signs. Quartz accepts some of
// these lists and then ignores a part of them.
func (r *reader) alone(signs string) {
	if i := strings.IndexAny(r.word.text, signs); strings.Contains(r.word.text, ",") {
		r.fail(i, r.word.text[i:i+1]+" in a list", "it alone in the field")
	}
}

// crontabDays reads the two day fields of a crontab text. When both are
// restricted a day has to match only one of them. A field that begins with *
// does not count as restricted; yet the days of */2 have to match.
func (p *parser) crontabDays(monthDay, weekDay word) dayRule {
	d := dates(p.crontabDay(&monthDayField, monthDay, "LW"))
	w := weekdays(p.crontabDay(&crontabWeekdayField, weekDay, "L#"))
	if strings.ContainsAny(monthDay.text[:1]+weekDay.text[:1], "*?") {
		return both{d, w}
	}
	return either{d, w}
}

// crontabDay reads one of them. ? stands for *, as it does in other programs,
// and the signs that only Quartz has get a fault that says so.
func (p *parser) crontabDay(f *field, w word, quartzSigns string) set {
	if w.text == "?" {
		w.text = "*"
	}
	r := p.reader(f, w)
	if i := strings.IndexAny(w.text, quartzSigns); i >= 0 {
		r.fail(i, w.text[i:i+1]+" in a text of five fields", "it in six fields, of which the first is the second")
	}
	return r.list()
}
