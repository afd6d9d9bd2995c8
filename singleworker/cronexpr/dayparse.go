package cronexpr

import (
	"strings"
	"time"
)

// quartzDays parses the two day fields in Quartz syntax, one of which must be ?
// unless both are *.
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

// quartzMonthDay parses a list of dates, or one of L, L-3, LW, L-3W and 15W.
func (p *parser) quartzMonthDay(w word) dayRule {
	r := p.reader(&monthDayField, w)
	if !strings.ContainsAny(w.text, "LW") {
		return dates(r.list())
	}
	defer r.end()
	r.alone("LW")
	if !r.accept('L') {
		day := r.value()
		r.expect('W', "W right after the day, like 15W")
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

// quartzWeekDay parses a list of weekdays, or one of L, 6L and 6#3.
func (p *parser) quartzWeekDay(w word) dayRule {
	r := p.reader(&quartzWeekdayField, w)
	switch {
	case w.text == "L":
		// The last day of the week, not of the month: every Saturday.
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
	r.expect('#', "# right after the weekday, like 6#3")
	return nthOn{weekday, r.number("number of the week", 1, 5, "1-5")}
}

// weekday parses one value that an L may follow: in FRIL the name ends before
// the L.
func (r *reader) weekday() int {
	whole := r.word.text
	if i := strings.IndexAny(whole, "L#"); i > 0 {
		r.word.text = whole[:i]
	}
	v := r.value()
	r.word.text = whole
	return v
}

// alone rejects a list that contains one of the signs. Quartz accepts some of
// these lists and then ignores a part of them.
func (r *reader) alone(signs string) {
	if i := strings.IndexAny(r.word.text, signs); strings.Contains(r.word.text, ",") {
		sign := r.word.text[i : i+1]
		r.fail(i, sign+" in a list", sign+" as the only entry of the field")
	}
}

// crontabDays parses the two day fields in crontab syntax. If both are
// restricted, a day has to match only one of them. A field that begins with *
// does not count as restricted, but the days of */2 still have to match.
func (p *parser) crontabDays(monthDay, weekDay word) dayRule {
	d := dates(p.crontabDay(&monthDayField, monthDay, "LW"))
	w := weekdays(p.crontabDay(&crontabWeekdayField, weekDay, "L#"))
	if strings.ContainsAny(monthDay.text[:1]+weekDay.text[:1], "*?") {
		return both{d, w}
	}
	return either{d, w}
}

// crontabDay parses one of them. ? means *, as in other programs. Signs that
// only Quartz has get an error that says so.
func (p *parser) crontabDay(f *field, w word, quartzSigns string) set {
	if w.text == "?" {
		w.text = "*"
	}
	r := p.reader(f, w)
	if i := strings.IndexAny(w.text, quartzSigns); i >= 0 {
		r.fail(i, w.text[i:i+1]+" in an expression of five fields", "six fields (Quartz), starting with the second")
	}
	return r.list()
}
