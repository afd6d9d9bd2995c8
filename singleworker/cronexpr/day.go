package cronexpr

import "time"

// A month describes one month of one year, for day rules.
type month struct {
	length int          // 28 to 31
	first  time.Weekday // the weekday of the 1st
}

func monthOf(year int, m time.Month) month {
	last := time.Date(year, m+1, 0, 0, 0, 0, 0, time.UTC)
	first := time.Date(year, m, 1, 0, 0, 0, 0, time.UTC)
	return month{length: last.Day(), first: first.Weekday()}
}

func (m month) weekday(day int) time.Weekday {
	return (m.first + time.Weekday(day-1)) % 7
}

// on returns the first day of the month that falls on weekday wd.
func (m month) on(wd time.Weekday) int {
	return int(wd-m.first+7)%7 + 1
}

// workday returns the Monday to Friday nearest to day without leaving the
// month, which is why a Saturday the 1st moves forward to Monday the 3rd and a
// Sunday at the end of the month moves back to Friday.
func (m month) workday(day int) int {
	switch m.weekday(day) {
	case time.Saturday:
		if day == 1 {
			return day + 2
		}
		return day - 1
	case time.Sunday:
		if day == m.length {
			return day - 2
		}
		return day + 1
	}
	return day
}

// A dayRule computes the days of a given month on which a schedule fires. The
// set may be empty and contains only days that the month has.
type dayRule interface {
	days(m month) set
}

// The day rules, each with an example.
type (
	dates    set // 1,15
	weekdays set // MON-FRI, as a set of time.Weekday

	lastDay     struct{ back int } // L-3
	lastWorkday struct{ back int } // LW
	workdayNear struct{ day int }  // 15W

	lastOn struct{ weekday time.Weekday } // 6L
	nthOn  struct {                       // 6#3
		weekday time.Weekday
		n       int
	}

	either struct{ monthDay, weekDay dayRule } // crontab: 13 and FRI
	both   struct{ monthDay, weekDay dayRule } // crontab: */2 and FRI
)

func (r dates) days(m month) set {
	return set(r).intersection(run(1, m.length))
}

func (r weekdays) days(m month) set {
	var s set
	for day := 1; day <= m.length; day++ {
		if set(r).has(int(m.weekday(day))) {
			s.add(day)
		}
	}
	return s
}

func (r lastDay) days(m month) set {
	return only(m.length-r.back, m)
}

func (r lastWorkday) days(m month) set {
	day := m.length - r.back
	if day < 1 {
		return set{}
	}
	return only(m.workday(day), m)
}

func (r workdayNear) days(m month) set {
	if r.day > m.length {
		return set{}
	}
	return only(m.workday(r.day), m)
}

func (r lastOn) days(m month) set {
	return only(m.on(r.weekday)+(m.length-m.on(r.weekday))/7*7, m)
}

func (r nthOn) days(m month) set {
	return only(m.on(r.weekday)+(r.n-1)*7, m)
}

func (r either) days(m month) set {
	return r.monthDay.days(m).union(r.weekDay.days(m))
}

func (r both) days(m month) set {
	return r.monthDay.days(m).intersection(r.weekDay.days(m))
}

// only returns the set of one day, or the empty set if m does not have it.
func only(day int, m month) set {
	var s set
	if day >= 1 && day <= m.length {
		s.add(day)
	}
	return s
}
