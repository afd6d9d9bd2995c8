package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/cronexpr"
)

const (
	hours = 7 * 24
	// manyTicks in an hour set a job apart: it ticks every minute or more often, all the time, and
	// would drown the others.
	manyTicks = 60
	// maxSteps bounds the work for groups of thousands of different schedules.
	maxSteps = 400_000
)

// week is how many ticks come in each hour of the coming week.
type week struct {
	now, from time.Time // from is the beginning of the hour
	ticks     [hours]int
	often     int     // jobs that are set apart
	rate      float64 // their ticks an hour
	left      int     // jobs that were not counted
	load      load    // without those that are set apart
}

// coming counts the ticks of jobs, paused or not. Jobs with the same schedule are counted together.
func coming(ctx context.Context, jobs []admin.JobStatus, now, from time.Time) week {
	type key struct {
		schedule, zone, calendars, after string
		notBefore, notAfter              int64
	}
	alike := make(map[key][]admin.JobStatus)
	for _, job := range jobs {
		if job.State != admin.StateInvalid {
			of := key{
				job.Job.Schedule, job.Job.TimeZone, strings.Join(job.Job.Calendars, "\n"), strings.Join(job.Job.After, "\n"),
				job.Job.NotBefore.UnixMilli(), job.Job.NotAfter.UnixMilli(),
			}
			alike[of] = append(alike[of], job)
		}
	}
	w := week{now: now, from: from, load: load{from: now.Truncate(time.Minute)}}
	steps := 0
	for _, group := range alike {
		schedule, err := group[0].Job.ParseSchedule()
		if err != nil {
			continue
		}
		if steps > maxSteps || ctx.Err() != nil {
			w.left += len(group)
			continue
		}
		steps += w.add(schedule, group)
	}
	return w
}

// add counts the ticks of jobs with one schedule, and returns how many steps that took.
func (w *week) add(schedule *cronexpr.Schedule, jobs []admin.JobStatus) (steps int) {
	var ticks [hours]int
	var first time.Time // in its hour
	end := w.from.Add(hours * time.Hour)
	for at := schedule.Next(w.now.Add(-time.Millisecond)); !at.IsZero() && at.Before(end); at = schedule.Next(at) {
		hour := int(at.Sub(w.from) / time.Hour)
		if ticks[hour] == 0 {
			first = at
		}
		if ticks[hour]++; ticks[hour] == manyTicks {
			w.often += len(jobs)
			w.rate += float64(len(jobs)) * (manyTicks - 1) / at.Sub(first).Hours()
			return steps
		}
		steps++
	}
	for hour, n := range ticks {
		w.ticks[hour] += n * len(jobs)
	}
	w.load.add(schedule, jobs)
	return steps
}

// hourCell is an hour of the calendar.
type hourCell struct {
	Heat  int // 0 to 5
	Text  string
	Shown bool // it is in the coming week
	ticks int
}

type calendarDay struct {
	Name  string
	Cells [24]hourCell // twice the same hour, when clocks are set back, is one
}

func (p *pages) calendar(r *http.Request, s *snapshot) (view, error) {
	l := p.look(r)
	_, east := l.now.In(l.zone).Zone()
	shift := time.Duration(east) * time.Second
	from := l.now.Add(shift).Truncate(time.Hour).Add(-shift)
	w, err := shared(r.Context(), p.group.readings, "calendar "+from.UTC().String(), func(ctx context.Context) (week, error) {
		return coming(ctx, s.jobs, l.now, from), nil
	})
	if err != nil {
		return view{}, err
	}
	type body struct {
		Zone    string
		Steps   []hourCell
		Days    []*calendarDay
		Busiest []string
		Left    int
		Often   string // jobs that are set apart
		Load    loadBody
	}
	b := body{Zone: l.zone.String(), Left: w.left, Load: w.load.body(l.zone)}
	for i, n := range heats {
		b.Steps = append(b.Steps, hourCell{Heat: i + 1, Text: brief(n)})
	}
	if w.often > 0 {
		b.Often = fmt.Sprintf("Not in the table: %s with a tick every minute or more often, together up to %s an hour.", counted(w.often, "job"), brief(int(w.rate)))
	}
	order := make([]int, hours)
	for i := range hours {
		order[i] = i
		at := w.from.Add(time.Duration(i) * time.Hour).In(l.zone)
		name := at.Format("Mon 2 Jan")
		if len(b.Days) == 0 || b.Days[len(b.Days)-1].Name != name {
			b.Days = append(b.Days, &calendarDay{Name: name})
		}
		cell := &b.Days[len(b.Days)-1].Cells[at.Hour()]
		cell.ticks += w.ticks[i]
		cell.Heat, cell.Text, cell.Shown = heat(cell.ticks), brief(cell.ticks), true
	}
	slices.SortStableFunc(order, func(a, b int) int { return w.ticks[b] - w.ticks[a] })
	const top = 5
	for _, i := range order[:top] {
		if w.ticks[i] > 0 {
			at := w.from.Add(time.Duration(i) * time.Hour).In(l.zone)
			b.Busiest = append(b.Busiest, fmt.Sprintf("%s: %s", at.Format("Monday 15:04 MST"), counted(w.ticks[i], "tick")))
		}
	}
	return view{Template: "calendar", Title: "Calendar", look: l, Body: b}, nil
}

// heats are from how many ticks in an hour on it has a heat of 1, 2 ...: the same in all groups.
var heats = []int{1, 30, 100, 300, 1000}

func heat(ticks int) int {
	i, exact := slices.BinarySearch(heats, ticks)
	if exact {
		i++
	}
	return i
}

// brief is a number in few letters: 950, 1.2k, 36k.
func brief(n int) string {
	const k = 1000
	switch {
	case n == 0:
		return ""
	case n >= 10*k:
		return fmt.Sprintf("%dk", n/k)
	case n >= k:
		return fmt.Sprintf("%.1fk", float64(n)/k)
	}
	return strconv.Itoa(n)
}
