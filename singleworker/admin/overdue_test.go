package admin

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// at is a time on 2026-11-21, UTC, in Unix milliseconds.
func at(clock string) int64 {
	day, err := time.Parse("2006-01-02 15:04:05", "2026-11-21 "+clock)
	if err != nil {
		panic(err)
	}
	return day.UnixMilli()
}

func TestOverdue(t *testing.T) {
	t.Parallel()
	// A job that runs on the hour, and that was submitted at 04:30.
	for what, row := range map[string]struct {
		through string // "": nothing was accounted for
		pause   *zkrec.Pause
		alarm   time.Duration
		running bool
		now     string
		want    string // "": nothing is overdue
	}{
		"its first tick is to come":       {now: "04:59:59"},
		"not late enough":                 {now: "05:00:59"},
		"late":                            {now: "05:01:00", want: "05:00:00"},
		"the first of many":               {now: "09:30:00", want: "05:00:00"},
		"accounted for":                   {through: "05:00:00", now: "06:00:30"},
		"the next is late":                {through: "05:00:00", now: "06:01:00", want: "06:00:00"},
		"another alarm":                   {through: "05:00:00", alarm: 10 * time.Minute, now: "06:09:59"},
		"another alarm, late":             {through: "05:00:00", alarm: 10 * time.Minute, now: "06:10:00", want: "06:00:00"},
		"a run is in progress":            {through: "05:00:00", running: true, now: "09:30:00"},
		"accounted for before it was":     {through: "03:00:00", now: "05:01:00", want: "05:00:00"},
		"paused":                          {pause: &zkrec.Pause{Since: at("04:45:00")}, now: "09:30:00"},
		"paused until later":              {pause: &zkrec.Pause{Since: at("04:45:00"), Until: at("10:00:00")}, now: "09:30:00"},
		"the pause is hardly over":        {pause: &zkrec.Pause{Since: at("04:45:00"), Until: at("09:30:00")}, now: "09:30:59"},
		"the pause is over for long":      {pause: &zkrec.Pause{Since: at("04:45:00"), Until: at("09:30:00")}, now: "09:31:00", want: "05:00:00"},
		"the pause came after it":         {pause: &zkrec.Pause{Since: at("05:30:00"), Until: at("09:30:00")}, now: "09:30:30", want: "05:00:00"},
		"overdue when it was paused":      {pause: &zkrec.Pause{Since: at("05:30:00")}, now: "09:30:00", want: "05:00:00"},
		"paused before it was overdue":    {pause: &zkrec.Pause{Since: at("05:00:30")}, now: "09:30:00"},
		"the pause has yet to begin":      {pause: &zkrec.Pause{Since: at("10:00:00")}, now: "09:30:00", want: "05:00:00"},
		"the pause is accounted for":      {through: "09:00:00", pause: &zkrec.Pause{Since: at("04:45:00"), Until: at("09:30:00")}, now: "09:45:00"},
		"after a pause, the next is late": {through: "09:00:00", pause: &zkrec.Pause{Since: at("04:45:00"), Until: at("09:30:00")}, now: "10:01:00", want: "10:00:00"},
	} {
		schedule, err := cronexpr.Parse("@hourly", nil)
		if err != nil {
			t.Fatal(err)
		}
		through, want := int64(0), ""
		if row.through != "" {
			through = at(row.through)
		}
		spec := zkrec.Spec{Switch: zkrec.Switch{Paused: row.pause}, Job: job.Job{AlarmAfter: row.alarm}}
		got := overdue(ticksOf(spec, schedule, at("04:30:00")), zkrec.Tick{Watermark: through}, row.running, time.UnixMilli(at(row.now)))
		if !got.IsZero() {
			want = got.UTC().Format(time.TimeOnly)
		}
		if want != row.want {
			t.Errorf("%s: %q, want %q", what, want, row.want)
		}
	}
}

// For any records: an overdue tick is a tick of the schedule that is
// not accounted for, and the first such; it is late, and it stays
// overdue for as long as nothing changes.
func TestOverdueHolds(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	base := time.Date(2026, 11, 21, 8, 24, 5, 0, time.UTC).UnixMilli()
	moment := func() int64 { return base + random.Int64N(3_600_000) }
	for range 10_000 {
		schedule, err := cronexpr.Parse([]string{"@every 90s", "*/7 * * * *", "@hourly", "@at 2026-11-21T08:40:00Z"}[random.IntN(4)], nil)
		if err != nil {
			t.Fatal(err)
		}
		spec := zkrec.Spec{Job: job.Job{AlarmAfter: time.Duration(random.Int64N(int64(10 * time.Minute)))}}
		if random.IntN(2) == 0 {
			spec.Switch.Paused = &zkrec.Pause{Since: moment()}
			spec.Switch.Paused.Until = spec.Switch.Paused.Since + random.Int64N(600_000)
		}
		since, through, now := moment(), moment(), time.UnixMilli(moment())
		tick := overdue(ticksOf(spec, schedule, since), zkrec.Tick{Watermark: through}, false, now)
		if tick.IsZero() {
			continue
		}
		later := now.Add(time.Duration(random.Int64N(int64(time.Hour))))
		switch again := overdue(ticksOf(spec, schedule, since), zkrec.Tick{Watermark: through}, false, later); {
		case !schedule.Next(tick.Add(-1)).Equal(tick) || tick.UnixMilli() <= max(since, through) ||
			!schedule.Prev(tick).Before(time.UnixMilli(max(since, through)+1)):
			t.Fatalf("seed %d: %v is not the first tick of %v after %d, %d", seed, tick, schedule, since, through)
		case now.Sub(tick) < spec.Job.WithDefaults().AlarmAfter:
			t.Fatalf("seed %d: at %v, %v is not late by %v", seed, now, tick, spec.Job.WithDefaults().AlarmAfter)
		case overdue(ticksOf(spec, schedule, since), zkrec.Tick{Watermark: tick.UnixMilli()}, false, now).Equal(tick):
			t.Fatalf("seed %d: %v is overdue though it is accounted for", seed, tick)
		case !again.Equal(tick):
			t.Fatalf("seed %d: %v was overdue at %v and is not at %v", seed, tick, now, later)
		}
	}
}
