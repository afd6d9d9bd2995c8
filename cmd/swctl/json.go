package main

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// The types of this file are the contract of -o json: fields are added, never
// changed or removed. Times are RFC 3339 in UTC, durations are in seconds; what
// is absent is null.

const apiVersion = "swctl/v1"

// jsonHead begins every document.
type jsonHead struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

type jsonList[T any] struct {
	jsonHead
	Items []T `json:"items"`
}

type jsonDevServer struct {
	jsonHead
	ZK string `json:"zk"` // connect string
}

type jsonJobDocument struct {
	jsonHead
	jsonJob
	Requests []jsonRequest `json:"requests"`
}

// jsonRequest is what the owner of a job, or of a shard, was asked for and has
// not done.
type jsonRequest struct {
	ID     string     `json:"id"`
	Name   string     `json:"name"` // of the job, or of the shard
	Kind   string     `json:"kind"` // run or stop; empty: unreadable
	At     *time.Time `json:"at"`
	By     string     `json:"by"`
	Reason string     `json:"reason"`
	RunID  *string    `json:"run_id"` // the run to stop, or that goes on; null: it waits
}

type jsonJob struct {
	Name       string     `json:"name"` // of the job, or of the shard
	Spec       *job.Job   `json:"spec"` // with its defaults; null: its record cannot be read
	Version    int32      `json:"version"`
	State      string     `json:"state"`
	Reason     string     `json:"reason,omitempty"`
	Declared   bool       `json:"declared"`
	Owner      *jsonOwner `json:"owner"`
	Registered []string   `json:"registered"`
	NextRunAt  *time.Time `json:"next_run_at"`
	LastRun    *jsonRun   `json:"last_run"`
	Watermark  *time.Time `json:"accounted_through"`
	Overdue    *time.Time `json:"overdue_tick"`
	Alarm      *jsonAlarm `json:"alarm"`
	Paused     *jsonPause `json:"paused"`
	jsonShards
}

type jsonPause struct {
	Since  *time.Time `json:"since"`
	Until  *time.Time `json:"until"` // null: until it is resumed
	By     string     `json:"by"`
	Reason string     `json:"reason"`
	Missed string     `json:"missed"`
}

type jsonAlarm struct {
	Tick       *time.Time `json:"tick"`
	InstanceID string     `json:"instance_id"`
	At         *time.Time `json:"at"`
}

type jsonHistory struct {
	jsonHead
	Name  string      `json:"name"`
	Items []jsonEntry `json:"items"`
}

// jsonEntry is a run, or a row of ticks from tick to last_tick that were not
// run.
type jsonEntry struct {
	jsonRun
	LastTick *time.Time `json:"last_tick"`
	Count    int        `json:"count"`
	Reason   string     `json:"reason,omitempty"`
	Shard    *int       `json:"shard,omitempty"`
}

type jsonExplanation struct {
	jsonHead
	Name          string      `json:"name"`
	Asked         *time.Time  `json:"asked"`
	Tick          *time.Time  `json:"tick"`
	Fate          string      `json:"fate"`
	Reason        string      `json:"reason,omitempty"`
	Unreadable    string      `json:"unreadable,omitempty"` // why the records do not tell
	Pause         *jsonPause  `json:"pause,omitempty"`      // that covers the tick, in force or over
	ScheduleSince *time.Time  `json:"schedule_since"`
	Items         []jsonEntry `json:"items"`
	Job           jsonJob     `json:"job"`
}

type jsonTriggerResult struct {
	jsonHead
	Request string     `json:"request"`
	Job     jsonJob    `json:"job"`
	Run     *jsonEntry `json:"run"` // null unless it was waited for
	// Runs has what was waited for of a job with shards, and Run nothing.
	Runs []jsonEntry `json:"runs,omitempty"`
}

type jsonStopResult struct {
	jsonHead
	Name string      `json:"name"`
	Run  *jsonEntry  `json:"run"`            // null if it is of a job with shards
	Runs []jsonEntry `json:"runs,omitempty"` // by shard
}

type jsonPauseResult struct {
	Outcome string     `json:"outcome"`
	Missed  int        `json:"missed"`
	Pause   *jsonPause `json:"pause"`
	Job     jsonJob    `json:"job"`
}

type jsonOwner struct {
	InstanceID string    `json:"instance_id"`
	Token      int64     `json:"token"`
	Since      time.Time `json:"since"`
}

type jsonRun struct {
	Tick          *time.Time `json:"tick"`
	State         string     `json:"state"`
	InstanceID    string     `json:"instance_id"`
	Token         int64      `json:"token"`
	RunID         string     `json:"run_id"`
	Attempt       int        `json:"attempt"`
	StartedAt     *time.Time `json:"started_at"`
	EndedAt       *time.Time `json:"ended_at"`
	Error         string     `json:"error,omitempty"`
	Failures      int        `json:"failures,omitempty"`
	Manual        string     `json:"manual,omitempty"`       // the request of swctl trigger
	NextAttempt   string     `json:"next_attempt,omitempty"` // retry or rerun, if the tick is to be run once more
	NextAttemptAt *time.Time `json:"next_attempt_at,omitempty"`
}

type jsonSubmitResult struct {
	jsonHead
	Outcome string   `json:"outcome"`
	DryRun  bool     `json:"dry_run"`
	Job     jsonJob  `json:"job"`
	Before  *job.Job `json:"before,omitempty"`
}

type jsonInstance struct {
	InstanceID string     `json:"instance_id"`
	Host       string     `json:"host"`
	PID        int        `json:"pid"`
	StartedAt  *time.Time `json:"started_at"`
	Version    string     `json:"version"`
	Owned      int        `json:"owned"`
	MaxSlots   int        `json:"max_slots"` // 0: no limit
	Weight     int        `json:"weight"`
	State      string     `json:"state"`
	Mode       string     `json:"mode"`   // lease or latch
	Leader     bool       `json:"leader"` // of a group in latch mode
	Withdrawn  bool       `json:"withdrawn"`
	Order      *jsonOrder `json:"order"`
	// ClockOffset is positive if its clock is ahead of ZooKeeper's; null: not known.
	ClockOffset *float64 `json:"clock_offset_seconds"`
}

type jsonInstanceList struct {
	jsonList[jsonInstance]
	Absent []jsonOrder `json:"orders_for_absent"` // for instances that do not run
}

// jsonOrder is an operator's order that an instance own nothing.
type jsonOrder struct {
	InstanceID  string     `json:"instance_id"`
	Incarnation *string    `json:"incarnation"` // null: every start of it
	By          string     `json:"by"`
	Reason      string     `json:"reason"`
	At          *time.Time `json:"at"`
}

type jsonOrderResult struct {
	jsonHead
	Outcome  string        `json:"outcome"`
	Order    *jsonOrder    `json:"order"`
	Instance *jsonInstance `json:"instance"` // null: none of that id runs
}

type jsonTickList struct {
	jsonHead
	Name     string     `json:"name,omitempty"`
	Schedule string     `json:"schedule"`
	TimeZone string     `json:"time_zone"`
	Items    []jsonTick `json:"items"`
}

type jsonTick struct {
	Tick  time.Time `json:"tick"`
	Local string    `json:"local"` // the same moment in time_zone
}

type jsonVersion struct {
	jsonHead
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
}

func head(kind string) jsonHead { return jsonHead{APIVersion: apiVersion, Kind: kind} }

// listOf makes a list whose items are never null.
func listOf[In, Out any](kind string, in []In, convert func(In) Out) jsonList[Out] {
	list := jsonList[Out]{jsonHead: head(kind), Items: make([]Out, 0, len(in))}
	for _, item := range in {
		list.Items = append(list.Items, convert(item))
	}
	return list
}

func jobToJSON(job admin.JobStatus) jsonJob {
	out := jsonJob{
		Name: job.Name, Version: job.Version,
		State: string(job.State), Reason: job.Reason, Declared: job.Declared,
		Registered: append([]string{}, job.Registered...),
		NextRunAt:  utc(job.NextRun), jsonShards: shardsToJSON(job),
	}
	if readable(job.Job) {
		out.Spec = &job.Job
	}
	if o := job.Owner; o != nil {
		out.Owner = &jsonOwner{InstanceID: o.InstanceID, Token: o.Token, Since: o.Since.UTC()}
	}
	if job.LastRun != nil {
		run := runToJSON(*job.LastRun)
		out.LastRun = &run
	}
	out.Watermark, out.Overdue, out.Paused = utc(job.Watermark), utc(job.Overdue), pauseToJSON(job.Paused)
	if a := job.Alarm; a != nil {
		out.Alarm = &jsonAlarm{Tick: utc(a.Tick), InstanceID: a.InstanceID, At: utc(a.At)}
	}
	return out
}

func runToJSON(r admin.Run) jsonRun {
	return jsonRun{
		Tick: utc(r.Tick), State: r.State, InstanceID: r.InstanceID, Token: r.Token,
		RunID: r.RunID, Attempt: r.Attempt, StartedAt: utc(r.Started), EndedAt: utc(r.Ended), Error: r.Error,
		Failures: r.Failures, Manual: r.Manual, NextAttempt: r.NextAttempt, NextAttemptAt: utc(r.NextAttemptAt),
	}
}

func entryToJSON(e admin.Entry) jsonEntry {
	return jsonEntry{jsonRun: runToJSON(e.Run), LastTick: utc(e.To), Count: e.Count, Reason: string(e.Reason), Shard: e.Shard}
}

func pauseToJSON(p *admin.Pause) *jsonPause {
	if p == nil {
		return nil
	}
	return &jsonPause{Since: utc(p.Since), Until: utc(p.Until), By: p.By, Reason: p.Reason, Missed: string(p.Missed)}
}

func instanceToJSON(i admin.Instance) jsonInstance {
	return jsonInstance{
		InstanceID: i.ID, Host: i.Host, PID: i.PID, StartedAt: utc(i.StartedAt),
		Version: i.Version, Owned: i.Owned, MaxSlots: i.MaxSlots, Weight: i.Weight, State: i.State, Mode: i.Mode, Leader: i.Leader, Withdrawn: i.Withdrawn,
		Order: optional(i.Order, orderToJSON), ClockOffset: optional(i.ClockOffset, time.Duration.Seconds),
	}
}

func requestToJSON(r admin.Request) jsonRequest {
	out := jsonRequest{ID: r.ID, Name: r.Slot, Kind: r.Kind, At: utc(r.At), By: r.By, Reason: r.Reason}
	if r.RunID != "" {
		out.RunID = &r.RunID
	}
	return out
}

func orderToJSON(o admin.Order) jsonOrder {
	out := jsonOrder{InstanceID: o.InstanceID, By: o.By, Reason: o.Reason, At: utc(o.At)}
	if o.Incarnation != "" {
		out.Incarnation = &o.Incarnation
	}
	return out
}

func orderResultToJSON(r admin.OrderResult) jsonOrderResult {
	return jsonOrderResult{
		jsonHead: head("InstanceOrderResult"), Outcome: string(r.Outcome),
		Order: optional(r.Order, orderToJSON), Instance: optional(r.Instance, instanceToJSON),
	}
}

// optional converts what need not be there.
func optional[In, Out any](in *In, convert func(In) Out) *Out {
	if in == nil {
		return nil
	}
	out := convert(*in)
	return &out
}

// utc is nil for the zero time, and for one that JSON has no form for, which
// only a record has that somebody tampered with.
func utc(t time.Time) *time.Time {
	const lastYear = 9999
	t = t.UTC()
	if t.IsZero() || t.Year() < 0 || t.Year() > lastYear {
		return nil
	}
	return &t
}
