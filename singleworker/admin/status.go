package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// records is what the tree says of one job, as it was read.
type records struct {
	spec       []byte
	stat       zkconn.Stat // of the spec
	registered []string
	owner      zkrec.Owner
	ownerStat  zkconn.Stat
	tick       zkrec.Tick
	tickErr    error // why the tick record cannot be read
	alarm      *zkrec.Alarm
}

// status reads one job's records.
func (c *Client) status(ctx context.Context, name string, live map[string]Instance) (JobStatus, error) {
	r, err := c.read(ctx, name)
	if err != nil {
		return JobStatus{}, err
	}
	return r.status(name, live, time.Now()), nil
}

func (c *Client) read(ctx context.Context, name string) (r records, err error) {
	r.spec, r.stat, err = c.conn.Get(ctx, c.tree.Job(name))
	if errors.Is(err, zkconn.ErrNoNode) {
		return r, ErrNotFound
	}
	if err != nil {
		return r, err
	}
	r.registered, _, err = c.conn.Children(ctx, c.tree.Register(name))
	if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
		return r, err
	}
	slices.Sort(r.registered)
	if err := c.readRun(ctx, name, &r); err != nil {
		return r, err
	}
	data, _, err := c.optional(ctx, c.tree.Alarm(name))
	if err != nil {
		return r, err
	}
	if alarm, err := zkrec.ParseAlarm(data); err == nil { // garbage is no alarm
		r.alarm = &alarm
	}
	return r, nil
}

// readRun reads the tick record and the owner record, which are two nodes: an
// open run that does not belong to the owner may have ended between the two
// readings, so it is believed only when the tick record has not moved.
func (c *Client) readRun(ctx context.Context, name string, r *records) error {
	for version := int32(-1); ; {
		data, stat, err := c.optional(ctx, c.tree.Tick(name))
		if err != nil {
			return err
		}
		r.tick, r.tickErr = zkrec.ParseTick(data)
		if stat.Version == version {
			return nil
		}
		version = stat.Version
		if data, r.ownerStat, err = c.optional(ctx, c.tree.Alive(name)); err != nil {
			return err
		}
		r.owner, _ = zkrec.ParseOwner(data) // what is no record names nobody
		if !r.tick.Open() || r.tick.Token == r.ownerStat.Mzxid {
			return nil
		}
	}
}

// optional reads a node that need not be there.
func (c *Client) optional(ctx context.Context, path string) ([]byte, zkconn.Stat, error) {
	data, stat, err := c.conn.Get(ctx, path)
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil, zkconn.Stat{}, nil
	}
	return data, stat, err
}

// status says what the records mean at a time.
func (r records) status(name string, live map[string]Instance, now time.Time) JobStatus {
	s := JobStatus{
		Job: Job{Name: name}, Version: r.stat.Version, State: Unowned, Registered: r.registered,
		Through: milli(r.tick.Through),
	}
	if r.owner.SID != "" {
		s.Owner = &Owner{InstanceID: r.owner.SID, Token: r.ownerStat.Mzxid, Since: r.ownerStat.Mtime}
	}
	if r.alarm != nil {
		s.Alarm = &Alarm{Tick: milli(r.alarm.Tick), InstanceID: r.alarm.SID, At: r.alarm.At}
	}
	lives := r.ownerLives(live)
	s.LastRun = r.lastRun(lives)
	spec, schedule, err := r.parsed(name)
	if errors.As(err, new(*InvalidError)) || err == nil {
		s.Job = jobOf(name, spec)
		s.Declared = spec.Declared != "" && spec.Declared == spec.Fingerprint(name)
	}
	if p := spec.Paused; pausedAt(p, now) {
		s.Paused = pauseOf(*p)
	}
	if err == nil {
		s.NextRun = nextRun(schedule, s.Paused, now)
	}
	if err == nil && r.tickErr == nil {
		running := lives && r.tick.Open() && r.tick.Token == r.ownerStat.Mzxid
		s.Overdue = overdue(spec, schedule, spec.SinceOr(r.stat.Mtime), r.tick.Through, running, now)
	}
	s.judge(err, r.owner.Offer, lives, able(r.registered, live), closed(r.registered, live))
	return s
}

// parsed is the spec and its schedule. An *InvalidError means that the
// record can be read, and never run.
func (r records) parsed(name string) (zkrec.Spec, *cronexpr.Schedule, error) {
	spec, err := zkrec.ParseSpec(r.spec)
	if err != nil {
		return zkrec.Spec{}, nil, err
	}
	if err := checkSpec(spec); err != nil {
		return spec, nil, err
	}
	schedule, err := parseSchedule(Job{Name: name, Schedule: spec.Schedule, TimeZone: spec.TimeZone})
	return spec, schedule, err
}

// ownerLives reports whether the instance that the owner record names runs:
// that start of it, as far as both records say which.
func (r records) ownerLives(live map[string]Instance) bool {
	instance, ok := live[r.owner.SID]
	return ok && (r.owner.Incarnation == "" || instance.Incarnation == "" || r.owner.Incarnation == instance.Incarnation)
}

// lastRun is the run of the tick record. Nobody will write the result of an
// open one that does not belong to the owner, or whose owner is dead.
func (r records) lastRun(ownerLives bool) *Run {
	switch {
	case r.tickErr != nil:
		return &Run{State: RunUnreadable, Error: r.tickErr.Error()}
	case r.tick.Tick == 0:
		return nil
	}
	run := runOf(r.tick.Run)
	run.Again, run.AgainAt = r.tick.Again, milli(r.tick.AgainAt)
	if r.tick.Open() && (!ownerLives || r.tick.Token != r.ownerStat.Mzxid) {
		run.State = RunUnknown
	}
	return &run
}

// able lists those of the instances that live and take jobs.
func able(registered []string, live map[string]Instance) []string {
	var able []string
	for _, sid := range registered {
		if instance, ok := live[sid]; ok && !instance.closed() {
			able = append(able, sid)
		}
	}
	return able
}

// closed lists those that live and take none, with what they are.
func closed(registered []string, live map[string]Instance) []string {
	var closed []string
	for _, sid := range registered {
		if instance, ok := live[sid]; ok && instance.closed() {
			closed = append(closed, fmt.Sprintf("%s is %s", sid, instance.State))
		}
	}
	return closed
}

// nextRun is the first tick after now that a pause does not stop.
func nextRun(schedule *cronexpr.Schedule, pause *Pause, now time.Time) time.Time {
	switch {
	case pause == nil:
		return schedule.Next(now)
	case pause.Until.IsZero():
		return time.Time{}
	}
	return schedule.Next(pause.Until.Add(-time.Millisecond))
}

func pauseOf(p zkrec.Pause) *Pause {
	pause := &Pause{Since: milli(p.Since), Until: milli(p.Until), By: p.By, Reason: p.Reason, Missed: p.Missed}
	if pause.Missed == "" {
		pause.Missed = zkrec.MisfireSkip
	}
	return pause
}

// judge says what state the job is in, and why. err is why its record cannot
// be used.
func (s *JobStatus) judge(err error, offer string, ownerLives bool, able, closed []string) {
	switch {
	case errors.As(err, new(*zkrec.SchemaError)):
		s.State, s.Reason = Invalid, err.Error()
	case err != nil:
		s.State, s.Reason = Invalid, err.Error()+"; submit it again with Replace, or cancel it"
	case ownerLives:
		s.State = Owned
	case len(able) == 0 && len(closed) > 0:
		s.Reason = fmt.Sprintf("every instance with handler %q is closed: %s", s.Handler, strings.Join(closed, ", "))
	case s.Owner != nil:
		s.Reason = fmt.Sprintf("its owner %s is gone; waiting for %s to take over", s.Owner.InstanceID, orNobody(able))
	case len(able) == 0 && len(s.Registered) == 0:
		s.Reason = fmt.Sprintf("no instance has registered handler %q", s.Handler)
	case len(able) == 0:
		s.Reason = fmt.Sprintf("no live instance has handler %q (last seen on %s)",
			s.Handler, strings.Join(s.Registered, ", "))
	case offer != "":
		s.Reason = fmt.Sprintf("handed over to %s, which has not taken it yet", offer)
	default:
		s.Reason = fmt.Sprintf("waiting for %s to adopt it", orNobody(able))
	}
}

func orNobody(able []string) string {
	if len(able) == 0 {
		return "an instance with its handler"
	}
	return strings.Join(able, " or ")
}
