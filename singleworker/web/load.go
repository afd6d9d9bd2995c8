package web

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/cronexpr"
)

const (
	// loadMinutes is how far the picture of the load reaches.
	loadMinutes = 6 * 60
	loadHeight  = 72
	// maxDelayed bounds how many runs with jitter are counted: each delay is a hash of its own.
	maxDelayed = 100_000
)

// load is how many runs begin in each of the coming minutes, of schedules alone, and with jitter. A
// shard has a run of its own.
type load struct {
	from          time.Time // the beginning of a minute
	plain, spread [loadMinutes]int
	delayed       int // runs with jitter that are counted
	left          int // jobs that are not counted
}

// count counts a run at a time in one of the two.
func (l *load) count(in *[loadMinutes]int, at time.Time, runs int) {
	if minute := int(at.Sub(l.from) / time.Minute); !at.Before(l.from) && minute < loadMinutes {
		in[minute] += runs
	}
}

// add counts the runs of jobs with one schedule.
func (l *load) add(schedule *cronexpr.Schedule, jobs []admin.JobStatus) {
	end := l.from.Add(loadMinutes * time.Minute)
	alike := 0 // slots of jobs without jitter
	for _, job := range jobs {
		slots := words.Slots(job)
		switch {
		case job.Job.Jitter == 0:
			alike += len(slots)
			continue
		case l.delayed > maxDelayed:
			l.left++
			continue
		}
		for at := schedule.Next(l.from.Add(-job.Job.Jitter)); !at.IsZero() && at.Before(end); at = schedule.Next(at) {
			l.count(&l.plain, at, len(slots))
			for i := range slots {
				l.count(&l.spread, slots[i].Due(at), 1)
			}
			l.delayed += len(slots)
		}
	}
	for at := schedule.Next(l.from.Add(-time.Millisecond)); alike > 0 && !at.IsZero() && at.Before(end); at = schedule.Next(at) {
		l.count(&l.plain, at, alike)
		l.count(&l.spread, at, alike)
	}
}

// loadPicture draws the starts of each minute, as high as they are many.
type loadPicture struct {
	Title, Text string // the text is for those who do not see it
	D           string // a path
}

// picture draws one of the two. most is the highest that there is in both.
func (l *load) picture(title string, of *[loadMinutes]int, most int, zone *time.Location) loadPicture {
	p, peak := loadPicture{Title: title}, 0
	var path strings.Builder
	for minute, n := range of {
		if n > of[peak] {
			peak = minute
		}
		if n > 0 {
			tall := max(1, n*loadHeight/most)
			fmt.Fprintf(&path, "M%d %dh2v%dh-2z", minute*timeWidth/loadMinutes, loadHeight-tall, tall)
		}
	}
	at := l.from.Add(time.Duration(peak) * time.Minute).In(zone)
	p.Text, p.D = fmt.Sprintf("at most %s a minute, first at %s", counted(of[peak], "start"), at.Format("15:04 MST")), path.String()
	return p
}

// loadBody is the picture of the load before and after jitter, or of the load if no job has it.
type loadBody struct {
	timeBody

	Most     int // starts in a minute
	Left     int // jobs that are not counted
	Pictures []loadPicture
}

func (l *load) body(zone *time.Location) (b loadBody) {
	for minute := range loadMinutes {
		b.Most = max(b.Most, l.plain[minute], l.spread[minute])
	}
	b.Left, b.Width, b.Height, b.window = l.left, timeWidth, loadHeight, window{Begin: l.from, End: l.from.Add(loadMinutes * time.Minute)}
	b.marks(zone)
	scale := cmp.Or(b.Most, 1)
	if l.delayed == 0 {
		b.Pictures = []loadPicture{l.picture("No job has jitter", &l.plain, scale, zone)}
		return b
	}
	b.Pictures = []loadPicture{l.picture("Without jitter", &l.plain, scale, zone), l.picture("With jitter", &l.spread, scale, zone)}
	return b
}
