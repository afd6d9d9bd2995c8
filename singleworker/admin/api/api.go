// Package api has the JSON documents with which tools for operators answer: swctl -o json,
// or an HTTP API of your own. Most of what is in them are types of package admin, which have
// their JSON names.
//
// Names are a contract: fields are added, never renamed or removed; codes are added, too. Times are
// RFC 3339 in UTC. Unknown values are absent or null. Items are never null.
package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Version is the apiVersion of all documents.
const Version = "swctl/v1"

// Document says what it is, and then has the fields of its parts, each of which must encode
// as a JSON object.
type Document struct {
	Kind  string
	Parts []any
	Stale *Stale // nil: the answer of a server that has a quorum
}

// Stale marks the answer of a server that had lost its quorum: it was true when that was lost.
type Stale struct {
	// LastSign is the last sign of life of an instance before that, on ZooKeeper's clock, if one was
	// read.
	LastSign time.Time `json:"last_sign,omitzero"`
}

// New makes a document of its parts.
func New(kind string, parts ...any) Document { return Document{Kind: kind, Parts: parts} }

// MarshalJSON implements json.Marshaler.
func (d Document) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Stale      *Stale `json:"stale,omitempty"`
	}{Version, d.Kind, d.Stale})
	for _, part := range d.Parts {
		more, failed := plain.Encode(part)
		switch {
		case failed != nil:
			return nil, failed
		case len(more) < 2 || more[0] != '{':
			return nil, fmt.Errorf("%s: %.20s is not a JSON object", d.Kind, more)
		case len(more) > 2:
			text = append(append(text[:len(text)-1], ','), more[1:]...)
		}
	}
	return text, err
}

// Items is the part of a document that lists something.
type Items[T any] struct {
	Items []T `json:"items"`
}

// MarshalJSON implements json.Marshaler.
func (l Items[T]) MarshalJSON() ([]byte, error) {
	text := []byte(`{"items":[`)
	for i, item := range l.Items {
		one, err := plain.Encode(item)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text = append(text, ',')
		}
		if text = append(text, one...); i == 0 { // the others are as long, or nearly
			text = slices.Grow(text, (len(one)+len(one)/8)*(len(l.Items)-1))
		}
	}
	return append(text, "]}"...), nil
}

// ItemsOf makes it of a list, of which nil is empty.
func ItemsOf[T any](items []T) Items[T] { return Items[T]{append([]T{}, items...)} }

// List is a document that lists something.
func List[T any](kind string, items []T) Document {
	return New(kind, ItemsOf(items))
}

// Job is a job, or a shard, with the requests that are pending.
func Job(status admin.JobStatus, requests []admin.Request) Document {
	return New("Job", status, struct {
		Requests []admin.Request `json:"requests"`
	}{append([]admin.Request{}, requests...)})
}

// Change is what became of a job that was submitted or edited.
type Change struct {
	Outcome admin.Outcome   `json:"outcome"`
	DryRun  bool            `json:"dry_run"`
	Job     admin.JobStatus `json:"job"`
	Before  *job.Job        `json:"before,omitempty"`
}

// ChangeOf tells of a change. The status is how the job is afterwards, or the zero JobStatus if
// that is not known: it is told as it was written, because somebody else may have changed it since.
func ChangeOf(done admin.Change, dryRun bool, status admin.JobStatus) Change {
	if status.Name == "" {
		status = admin.JobStatus{Name: done.Job.Name, State: admin.StateUnowned}
	}
	status.Job, status.NextRun, status.Version, status.Number = done.Job, done.NextRun, done.Version, done.Number
	return Change{Outcome: done.Outcome, DryRun: dryRun, Job: status, Before: done.Before}
}

// Paused is what became of a job that was paused or resumed.
type Paused struct {
	admin.PauseResult

	Job admin.JobStatus `json:"job"`
}

// Runs are the runs that were waited for: Run of a job without shards, or of one shard, and
// Runs of a job with shards, or of one that runs on several instances.
type Runs struct {
	Run  *history.Entry  `json:"run"`
	Runs []history.Entry `json:"runs,omitempty"`
}

// RunsOf sorts the runs of the job, or of the shard, of that name.
func RunsOf(name string, runs []history.Entry) Runs {
	_, _, isShard := job.SplitShard(name)
	if len(runs) == 1 && (isShard || runs[0].Shard == nil) {
		return Runs{Run: &runs[0]}
	}
	return Runs{Runs: runs}
}

// Named is the part of a document that says which job, or shard, it is about.
type Named struct {
	Name string `json:"name,omitempty"`
}

// Instances is an InstanceList: those that run, and the orders for those that do not.
func Instances(running []admin.Instance, absent []admin.Order) Document {
	return New("InstanceList", ItemsOf(running), struct {
		Absent []admin.Order `json:"orders_for_absent"`
	}{append([]admin.Order{}, absent...)})
}

// Instance is an instance, with its session, its handlers and what it owns. Handlers are null if it
// does not publish them.
func Instance(d admin.InstanceDetails) Document {
	return New("Instance", d.Instance, struct {
		SessionID      string            `json:"session_id"`
		SessionTimeout string            `json:"session_timeout,omitempty"`
		Handlers       []string          `json:"handlers"`
		Slots          []admin.OwnedSlot `json:"slots"`
	}{d.SessionID, unlessZero(d.SessionTimeout), d.Handlers, append([]admin.OwnedSlot{}, d.Slots...)})
}

func unlessZero(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// Event is something that happened in a group.
func Event(ev admin.Event) Document { return New("Event", ev) }

// Tick is a tick of a schedule.
type Tick struct {
	Tick  time.Time `json:"tick"`
	Local time.Time `json:"local"` // the same moment in the time zone of the schedule
	// Due is when it is due, later than that by the job's Jitter.
	Due time.Time `json:"due"`
}

// TicksOf are the first n ticks of a job after a time, or fewer if it has no more: as far as it may
// claim them. A job whose schedule cannot be read has none.
func TicksOf(of admin.JobStatus, after time.Time, n int) (ticks []Tick) {
	schedule, err := of.Job.ParseSchedule()
	if err != nil {
		return nil
	}
	if of.Job.MaxRuns > 0 {
		n = min(n, of.Job.MaxRuns-of.Runs)
	}
	for at := schedule.Next(after); !at.IsZero() && len(ticks) < n; at = schedule.Next(at) {
		ticks = append(ticks, Tick{Tick: at.UTC(), Local: at.In(schedule.Location()), Due: of.Due(at).UTC()})
	}
	return ticks
}

// LeftOut is a time of a schedule that a calendar leaves out, so that it is no tick.
type LeftOut struct {
	Tick     time.Time `json:"tick"`
	Local    time.Time `json:"local"`
	Calendar string    `json:"calendar"` // as the job names it: "-de-holidays"
}

// maxLeftOut is how many times of LeftOutOf there are at most.
const maxLeftOut = 20

// LeftOutOf are the first 20 times of a job's schedule that its calendars leave out, after a time
// and before the last of its ticks.
func LeftOutOf(of admin.JobStatus, after time.Time, ticks []Tick) (list []LeftOut) {
	schedule, err := of.Job.Uncalendared().ParseSchedule()
	if err != nil || len(of.Job.Calendars) == 0 || len(ticks) == 0 {
		return list
	}
	for at := schedule.Next(after); !at.IsZero() && at.Before(ticks[len(ticks)-1].Tick) && len(list) < maxLeftOut; at = schedule.Next(at) {
		if by := of.Job.LeftOutBy(at); by != "" {
			list = append(list, LeftOut{at.UTC(), at.In(schedule.Location()), by})
		}
	}
	return list
}

// TickList is the document of ticks of a job, and of the times between them that are none.
func TickList(of admin.JobStatus, ticks []Tick, out []LeftOut) Document {
	return New("TickList", Named{Name: of.Name}, ScheduleOf(of.Job), ItemsOf(ticks), struct {
		LeftOut []LeftOut `json:"left_out,omitempty"` // the first 20
	}{out})
}

// Schedule is the part of a TickList that says whose ticks they are.
type Schedule struct {
	Schedule string `json:"schedule"`
	TimeZone string `json:"time_zone"`
	Words    string `json:"words,omitempty"` // what it means, in English
}

// ScheduleOf is that of a job.
func ScheduleOf(j job.Job) Schedule {
	s := Schedule{Schedule: j.Schedule, TimeZone: j.TimeZone}
	if schedule, err := j.Uncalendared().ParseSchedule(); err == nil {
		s.Words = schedule.Words()
	}
	return s
}

// Error is the document of a failed call.
type Error struct {
	Error ErrorBody `json:"error"`
}

// ErrorBody says what failed. Code is one of those that swctl help exit-codes lists.
type ErrorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// RolesOf tells who has which role in a group, and the permissions of each.
func RolesOf(roles admin.Roles, table []admin.RoleRow) Document {
	return New("Roles", struct {
		Roles map[string][]string `json:"roles"` // identities by role, with the beginnings of hashes
		Table []admin.RoleRow     `json:"table"`
	}{roles, table})
}
