package admin

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// SetConditions computes Conditions, also of its Slots, from the other fields, at that time of
// the group. A status that was read has them. It is for a status that a program has kept for long,
// or made itself.
func (s *JobStatus) SetConditions(now time.Time) {
	for i := range s.Slots {
		s.Slots[i].SetConditions(now)
	}
	s.Conditions = s.conditions(now)
}

// conditions lists what is wrong, in the order of reason.Meanings.
func (s *JobStatus) conditions(now time.Time) (all []reason.Condition) {
	add := func(code reason.Code, since time.Time, detail string) {
		if m, known := reason.Means(code); known {
			m.Remedy = s.remedy(m.Remedy)
			all = append(all, reason.Condition{Meaning: m, Since: zkrec.UTC(since), Detail: detail})
		}
	}
	switch standing := s.standing(); standing.Code {
	case "":
	case reason.Done:
		add(reason.Done, s.DoneAt, s.removed(now))
	default:
		add(standing.Code, time.Time{}, s.Reason.String())
	}
	switch p := s.Paused; {
	case p != nil && now.Sub(p.Since) > reason.Forgotten:
		add(reason.LongPaused, p.Since, "paused "+p.Words(s.Job.Zone(), now))
	case p != nil:
		add(reason.Paused, p.Since, "paused "+p.Words(s.Job.Zone(), now))
	}
	if p := s.Frozen; p != nil {
		add(reason.Frozen, p.Since, "group frozen "+p.words("unfrozen", s.Job.Zone(), now))
	}
	if !s.Overdue.IsZero() {
		add(reason.Late, s.Overdue, "late since "+plain.Moment(s.Overdue, now, s.Job.Zone()))
	}
	if owner := s.wrongClock(); owner != "" {
		add(reason.OwnerClock, time.Time{}, "the clock of its owner "+owner+" is wrong")
	}
	if s.Watermark.Sub(now) > reason.ClocksDiffer {
		add(reason.Ahead, time.Time{}, "nothing runs before "+plain.Moment(s.Watermark, now, s.Job.Zone())+": a clock was wrong, see swctl why "+plain.Quoted(s.Name))
	}
	if s.Hung != nil {
		add(reason.Hung, s.Hung.Since, s.Hung.words(now))
	}
	if worst, fail := s.failing(); fail > 0 {
		add(reason.Failing, worst.Failing.Since, s.failed(worst, fail, now))
	}
	if !s.Overrun.IsZero() {
		add(reason.Overrun, s.Overrun, s.overrun(now))
	}
	if lacks := s.resolverless(); lacks != "" {
		add(reason.NoResolver, time.Time{}, lacks)
	}
	if len(s.WaitsFor) > 0 {
		add(reason.After, s.Waiting, "waiting for "+s.waitsFor())
	}
	if limits := s.limited(); limits != "" {
		add(reason.Limited, s.Limited[0].Since, limits)
	}
	if s.Resizing != nil {
		add(reason.Resizing, time.Time{}, "resizing "+s.Resizing.String())
	}
	if conflict := s.conflict(); conflict != "" {
		add(reason.Conflict, time.Time{}, conflict)
	}
	return all
}

// wrongClock is an owner of the job, or of a slot, whose clock is wrong.
func (s *JobStatus) wrongClock() string {
	for _, slot := range append([]JobStatus{*s}, s.Slots...) {
		if slot.Owner != nil && slot.Owner.WrongClock {
			return slot.Owner.InstanceID
		}
	}
	return ""
}

// waitsFor lists the jobs that a tick waits for.
func (s *JobStatus) waitsFor() string {
	names := make([]string, len(s.WaitsFor))
	for i, parent := range s.WaitsFor {
		names[i] = plain.Quoted(parent.Name)
	}
	return strings.Join(names, ", ")
}

// resolverless says which owner of the job, or of a slot, lacks the resolver that the policy wants.
func (s *JobStatus) resolverless() string {
	for _, slot := range append([]JobStatus{*s}, s.Slots...) {
		if s.Job.Interrupted.Asks() && slot.State == StateOwned && slot.Owner != nil && !slot.Owner.Resolver {
			return fmt.Sprintf("its owner %s has no Config.Resolve, which is to be asked about interrupted runs (%s)", slot.Owner.InstanceID, s.Job.Interrupted)
		}
	}
	return ""
}

// Condition is the one of Conditions with that code.
func (s *JobStatus) Condition(code reason.Code) (c reason.Condition, holds bool) {
	for _, c := range s.Conditions {
		if c.Code == code {
			return c, true
		}
	}
	return c, false
}

// Health is how the job stands, in a word: the State of the first of its Conditions, "ok" if it has
// none. It is the "state" in JSON. Without Conditions, of a job that has no owner, it is the State.
func (s JobStatus) Health() string {
	switch {
	case len(s.Conditions) > 0:
		return cmp.Or(s.Conditions[0].State, string(s.State)) // a newer version has other codes
	case s.State == StateOwned:
		return HealthOK
	}
	return string(s.State)
}

// HealthOK is the Health of a job that has an owner and runs as it should.
const HealthOK = "ok"

// standing is why the job has no owner, or the first of its shards that has none.
func (s *JobStatus) standing() reason.Reason {
	if s.Reason.Code == reason.SomeShards {
		return *s.Reason.Why
	}
	return s.Reason
}

// remedy fills in the job and the instance of a command. Most are about the whole job, also if it
// is a shard that lacks something.
func (s *JobStatus) remedy(command string) string {
	name := zkrec.JobOfSlot(s.Name)
	for _, verb := range []string{"why", "show", "history", "stop-run", "trigger"} {
		if strings.HasPrefix(command, "swctl "+verb+" ") {
			name = s.Name
		}
	}
	names := []string{"NAME", plain.Quoted(name)}
	if why := s.standing(); why.Code == reason.AllClosed && len(why.Instances) > 0 {
		names = append(names, "ID", plain.Quoted(why.Instances[0].ID))
	}
	return strings.NewReplacer(names...).Replace(command)
}

// removed is "done 3h ago, removed in 21h".
func (s *JobStatus) removed(now time.Time) string {
	text := "done " + plain.Relative(s.DoneAt, now)
	switch {
	case s.Job.MaxRuns > 0 && s.Runs >= s.Job.MaxRuns:
		text += fmt.Sprintf(": %d of %d runs were claimed", s.Runs, s.Job.MaxRuns)
	case !s.Job.NotAfter.IsZero():
		text += ": no tick is after " + plain.Moment(s.Job.NotAfter, now, s.Job.Zone())
	}
	if schedule, err := s.Job.ParseSchedule(); s.Job.KeepDone == job.KeepForever || err == nil && !schedule.Once() {
		return text + ", kept until it is canceled"
	}
	return text + ", removed " + plain.Relative(s.DoneAt.Add(s.Job.KeepDone), now)
}

// overrun is "still running after 12m; ticks since 03:00:10 UTC are skipped"; of a run that hangs,
// the latter.
func (s *JobStatus) overrun(now time.Time) string {
	what, fate := "", "are skipped"
	switch {
	case s.Hung != nil:
	case s.LastRun != nil:
		what = "still running after " + plain.Span(now.Sub(s.LastRun.Started)) + "; "
	default:
		what = "still running; "
	}
	if s.Job.Overlap == job.OverlapQueue {
		fate = "wait"
	}
	return fmt.Sprintf("%sticks since %s %s", what, plain.Absolute(s.Overrun, s.Job.Zone()), fate)
}

// words is "hangs: it has been running for 3h, and 95% of its runs took at most 2m".
func (h Hung) words(now time.Time) string {
	text := "hangs: it has been running for " + plain.Span(now.Sub(h.Since))
	if h.UsualMillis > 0 {
		text += ", and 95% of its runs took at most " + plain.Span(time.Duration(h.UsualMillis)*time.Millisecond)
	}
	return text
}

// failing is what has the most failures in a row, the job or one of its slots, and how many of them
// fail.
func (s *JobStatus) failing() (worst *JobStatus, fail int) {
	if s.Failing != nil {
		return s, 1
	}
	for i := range s.Slots {
		if slot := &s.Slots[i]; slot.Failing != nil {
			fail++
			if worst == nil || slot.Failing.Runs > worst.Failing.Runs {
				worst = slot
			}
		}
	}
	return worst, fail
}

// failed is "failed 7 times in a row, last success 3h ago", "failed at least 20 times in a row, no
// success on record", or "2 of 4 shards fail; import[1] failed 7 times ...".
func (s *JobStatus) failed(worst *JobStatus, fail int, now time.Time) string {
	times, success := "once", "no success on record"
	if n := worst.Failing.Runs; n > 1 {
		times = fmt.Sprintf("%d times in a row", n)
	}
	if worst.Failing.More {
		times = "at least " + times
	}
	if ok := worst.Failing.OK; !ok.IsZero() {
		success = "last success " + plain.Relative(ok, now)
	}
	text := "failed " + times + ", " + success
	if len(s.Slots) > 0 {
		text = fmt.Sprintf("%d of %d %s fail; %s %s", fail, len(s.Slots), partsName(worst.Name), worst.Name, text)
	}
	return text
}

// Words is "until 2026-11-22 09:00:00 CET (in 1d), by alice@host: why".
func (p Pause) Words(zone *time.Location, now time.Time) string { return p.words("resumed", zone, now) }

func (p Pause) words(ended string, zone *time.Location, now time.Time) string {
	text := "until it is " + ended
	if !p.Until.IsZero() {
		text = "until " + plain.Moment(p.Until, now, zone)
	}
	if p.By != "" {
		text += ", by " + p.By
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}
