package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/cronexpr"
)

const (
	hours = 7 * 24
	// exactTicks of an hour are counted. If it has more, its minutes are.
	exactTicks = 60
	// maxSteps bounds the work for groups of thousands of different schedules.
	maxSteps = 400_000
)

// week is how many ticks come in each hour of the coming week.
type week struct {
	from    time.Time
	ticks   [hours]float64
	left    int  // jobs that were not counted
	guessed bool // some hours are not exact
}

// coming counts the ticks of jobs, paused or not. Jobs with the same schedule are counted together.
func coming(ctx context.Context, jobs []admin.JobStatus, from time.Time) week {
	type key struct{ schedule, zone string }
	alike := make(map[key][]admin.JobStatus)
	for _, job := range jobs {
		if job.State != admin.StateInvalid {
			of := key{job.Job.Schedule, job.Job.TimeZone}
			alike[of] = append(alike[of], job)
		}
	}
	w := week{from: from}
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
		steps += w.add(schedule, float64(len(group)))
	}
	return w
}

// add counts the ticks of one schedule, and returns how many steps that took.
func (w *week) add(schedule *cronexpr.Schedule, weight float64) (steps int) {
	end := w.from.Add(hours * time.Hour)
	at := schedule.Next(w.from.Add(-time.Millisecond))
	for !at.IsZero() && at.Before(end) {
		hour := int(at.Sub(w.from) / time.Hour)
		next := w.from.Add(time.Duration(hour+1) * time.Hour)
		first, n := at, 0
		for !at.IsZero() && at.Before(next) && n < exactTicks {
			at, n, steps = schedule.Next(at), n+1, steps+1
		}
		if !at.IsZero() && at.Before(next) {
			var more int
			n, more = dense(schedule, first, next)
			w.guessed, steps = true, steps+more
			at = schedule.Next(next.Add(-time.Millisecond))
		}
		w.ticks[hour] += float64(n) * weight
	}
	return steps
}

// dense counts the ticks from the first one to the end of its hour, if all minutes that have ticks
// have as many as the first such minute. So it is with cron, where the seconds do not depend on the
// minute. With others it is nearly so.
func dense(schedule *cronexpr.Schedule, first, end time.Time) (n, steps int) {
	perMinute, minutes := 0, 0
	minute := first.Truncate(time.Minute).Add(time.Minute)
	for at := first; !at.IsZero() && at.Before(minute); at = schedule.Next(at) {
		perMinute++
	}
	for at := first; !at.IsZero() && at.Before(end); at = schedule.Next(at.Truncate(time.Minute).Add(time.Minute - time.Millisecond)) {
		minutes++
	}
	return perMinute * minutes, perMinute + minutes
}

// hourCell is an hour of the calendar.
type hourCell struct {
	Heat int // 0 to 5
	Text string
	Name string // day and hour
}

type calendarDay struct {
	Name  string
	Cells []hourCell
}

func (p *pages) calendar(r *http.Request, s *snapshot) (view, error) {
	now := p.group.now()
	from := now.UTC().Truncate(24 * time.Hour)
	w, err := shared(r.Context(), p.group.readings, "calendar", func(ctx context.Context) (week, error) { return coming(ctx, s.jobs, from), nil })
	if err != nil {
		return view{}, err
	}
	type body struct {
		Hours   []string
		Days    []calendarDay
		Busiest []string
		Left    int
		Guessed bool
	}
	b := body{Left: w.left, Guessed: w.guessed}
	least, most := slices.Min(w.ticks[:]), slices.Max(w.ticks[:])
	order := make([]int, hours)
	for i := range hours {
		at := w.from.Add(time.Duration(i) * time.Hour)
		order[i] = i
		if i < 24 {
			b.Hours = append(b.Hours, at.Format("15"))
		}
		if i%24 == 0 {
			b.Days = append(b.Days, calendarDay{Name: at.Format("Mon 2 Jan")})
		}
		day := &b.Days[len(b.Days)-1]
		day.Cells = append(day.Cells, hourCell{Heat: heat(w.ticks[i], least, most), Text: brief(w.ticks[i]), Name: at.Format("Monday 15:04")})
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(w.ticks[b]) - int(w.ticks[a]) })
	const top = 5
	for _, i := range order[:top] {
		if w.ticks[i] > 0 {
			at := w.from.Add(time.Duration(i) * time.Hour)
			b.Busiest = append(b.Busiest, fmt.Sprintf("%s UTC: %s ticks", at.Format("Monday 15:04"), brief(w.ticks[i])))
		}
	}
	return view{Template: "calendar", Title: "Calendar", Now: now, Body: b}, nil
}

// heat is how close a number is to the largest: 0 for no ticks, 1 the least, 5 the largest.
func heat(n, least, most float64) int {
	const steps = 5
	switch {
	case n == 0:
		return 0
	case most == least:
		return 1
	}
	return min(steps, 1+int((n-least)/(most-least)*steps))
}

// brief is a number in few letters: 950, 1.2k, 36k.
func brief(n float64) string {
	const k = 1000
	switch {
	case n == 0:
		return ""
	case n >= 10*k:
		return fmt.Sprintf("%.0fk", n/k)
	case n >= k:
		return fmt.Sprintf("%.1fk", n/k)
	}
	return fmt.Sprintf("%.0f", n)
}
