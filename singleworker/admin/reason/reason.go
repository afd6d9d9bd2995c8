// Package reason says why a job does not run as it should: of one that has no owner, or cannot run,
// a code and facts for programs, and a sentence for people; and of all that can be wrong with a
// job, what it means, how urgent it is, and which command mends it.
package reason

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Code is the kind of a Reason, or of a Condition. Programs may meet codes that they do not know:
// more are added.
type Code string

// The codes of a Reason, with the fields that each has.
const (
	Canceling    Code = "canceling"     // the job is being deleted in several steps
	NewerVersion Code = "newer_version" // a newer version wrote one of its records: Error
	Unreadable   Code = "unreadable"    // one of its records cannot be read: Error
	Denied       Code = "denied"        // one of its records may not be read by who asks: Error
	BadName      Code = "bad_name"      // its node was created manually, with a name that no job can have: Error
	BadSpec      Code = "bad_spec"      // its description cannot be read, or can never run: Error
	BadCalendar  Code = "bad_calendar"  // a calendar that it names is missing, or cannot be read: Error
	BadLimit     Code = "bad_limit"     // a limit that it names is missing, cannot be read, or has too few places: Error
	BadParent    Code = "bad_parent"    // a job after which it runs is missing, or cannot be one: Error
	NoHandler    Code = "no_handler"    // no instance ever registered its handler: Handler
	HandlerGone  Code = "handler_gone"  // no live instance has its handler: Handler, Instances that had it
	AllClosed    Code = "all_closed"    // the live instances with its handler take no jobs: Handler, Instances
	Nowhere      Code = "nowhere"       // the live instances with its handler may not run it: Handler, Instances, each with its Why
	Unlisted     Code = "unlisted"      // as Nowhere, of a job that requires no label
	AllFull      Code = "all_full"      // those that take jobs own as many as they may: Handler, Instances
	OwnerGone    Code = "owner_gone"    // its owner has died: Owner, Instances that can take over
	Offered      Code = "offered"       // it was offered to an instance: Instances
	Waiting      Code = "waiting"       // it is free: Instances that can adopt it
	Done         Code = "done"          // its only tick is accounted for
	Absent       Code = "absent"        // of a job that runs on every instance: this one does not live, or may not run it: Instances
	SomeShards   Code = "some_shards"   // of a job with shards, some have no owner: Shards, Of, First, Why
	Sentence     Code = "sentence"      // decoded from JSON, which has no facts: Error
)

// The codes of conditions that are no Reason.
const (
	LongPaused Code = "long_paused" // Paused for more than a day
	Paused     Code = "paused"
	Frozen     Code = "frozen" // of the group: Client.Freeze
	Late       Code = "late"
	OwnerClock Code = "owner_clock"
	Ahead      Code = "ahead"
	Hung       Code = "hung"
	Failing    Code = "failing"
	Overrun    Code = "overrun"
	NoResolver Code = "no_resolver" // its policy for interrupted runs asks, and its owner cannot
	After      Code = "after"       // a tick is due, and a job after which it runs has not run it
	Limited    Code = "limited"     // a run is due, and waits for places of a limit
	Resizing   Code = "resizing"
	Conflict   Code = "conflict" // instances declare it differently, and their versions do not say which holds
)

// The codes of conditions of an instance.
const (
	WrongClock Code = "wrong_clock"
	Silent     Code = "silent"      // it gives no sign of life
	Gone       Code = "gone"        // jobs have it on record as their owner, and it does not run
	Unusable   Code = "unusable"    // its record cannot be read, or no session holds it
	LongClosed Code = "long_closed" // Closed for more than a day
	Closed     Code = "closed"      // it was told to take no jobs
	JobsClosed Code = "jobs_closed" // it was told not to take some jobs
)

// Reason is why a job, or a shard, is not owned. The zero value says that it is.
type Reason struct {
	Code      Code
	Handler   string
	Before    string // the handler of the job's BeforeTick; "" if it has none
	Owner     string // the instance on record
	Instances []Instance
	Error     string // may have several lines

	Shards int     // how many of the job's shards have no owner
	Of     int     // how many shards the job has
	First  string  // the first of those without an owner, such as "report[3]"
	Why    *Reason // of First
}

// Instance is one that would own the job, but for its State or because it is full.
type Instance struct {
	ID       string
	State    string // of package admin; empty if it is not running
	Owned    int    // slots it owns
	MaxSlots int    // slots it may own; 0 means no limit
	Why      string // it may not run the job: "lacks zone=a"
}

// Full reports whether the instance owns as many slots as it may.
func (i Instance) Full() bool { return i.MaxSlots > 0 && i.Owned >= i.MaxSlots }

// IsZero reports whether there is no reason: the job is owned.
func (r Reason) IsZero() bool { return r.Code == "" }

// MarshalText is String: in JSON, a reason is its sentence.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText keeps the sentence, which is all that JSON has.
func (r *Reason) UnmarshalText(sentence []byte) error {
	*r = Reason{Code: Sentence, Error: string(sentence)}
	return nil
}

// String is a sentence without a period, which says what to do if that is known.
func (r Reason) String() string {
	switch r.Code {
	case "":
		return ""
	case Canceling:
		return "it is being canceled; if that was interrupted, cancel it again"
	case NewerVersion, Denied, BadName, BadCalendar, BadLimit, BadParent, Sentence:
		return r.Error
	case Unreadable:
		return r.Error + "; repair the job"
	case BadSpec:
		return r.Error + "; submit it again with Replace, or cancel it"
	case NoHandler:
		return "no instance has registered " + r.handler()
	case HandlerGone:
		return fmt.Sprintf("no live instance has %s (last seen on %s)", r.handler(), list(r.Instances, Instance.id, ", "))
	case AllClosed:
		return fmt.Sprintf("every instance with %s is closed: %s", r.handler(), list(r.Instances, Instance.obstacle, ", "))
	case Nowhere, Unlisted:
		return fmt.Sprintf("no instance with %s may run it: %s", r.handler(), list(r.Instances, Instance.obstacle, ", "))
	case AllFull:
		text := fmt.Sprintf("every instance with %s is full: %s; start another, or raise MaxSlots",
			r.handler(), list(r.Instances, Instance.obstacle, ", "))
		if r.Owner != "" {
			text = "its owner " + r.Owner + " is gone; " + text
		}
		return text
	case OwnerGone:
		return fmt.Sprintf("its owner %s is gone; waiting for %s to take over", r.Owner, r.takers())
	case Offered:
		return fmt.Sprintf("handed over to %s, which has not taken it yet", r.takers())
	case Waiting:
		return fmt.Sprintf("waiting for %s to adopt it", r.takers())
	case Done:
		return "it is done: its schedule has no further time"
	case Absent:
		return list(r.Instances, Instance.absence, ", ")
	case SomeShards:
		if r.Shards == 1 {
			return fmt.Sprintf("nobody owns %s: %s", r.First, r.Why)
		}
		return fmt.Sprintf("nobody owns %d of its %d shards, the first of them %s: %s", r.Shards, r.Of, r.First, r.Why)
	case LongPaused, Paused, Frozen, Late, OwnerClock, Ahead, Hung, Failing, Overrun, NoResolver, After, Limited, Resizing, Conflict: // whoever owns the job
	case WrongClock, Silent, Gone, Unusable, LongClosed, Closed, JobsClosed: // of an instance
	}
	return string(r.Code)
}

// handler names what an instance needs to run the job.
func (r Reason) handler() string {
	if r.Before != "" {
		return fmt.Sprintf("handlers %q and %q", r.Handler, r.Before)
	}
	return fmt.Sprintf("handler %q", r.Handler)
}

func (r Reason) takers() string {
	if len(r.Instances) == 0 {
		return "an instance with its handler"
	}
	return list(r.Instances, Instance.id, " or ")
}

func (i Instance) id() string { return i.ID }

// obstacle is why an instance does not own the job.
func (i Instance) obstacle() string {
	if i.Why != "" {
		return i.ID + " " + i.Why
	}
	if i.State == "" || i.State == "active" {
		return fmt.Sprintf("%s owns %d of at most %d slots", i.ID, i.Owned, i.MaxSlots)
	}
	if i.State == "wrong_clock" {
		return "the clock of " + i.ID + " is wrong"
	}
	return i.ID + " is " + i.State
}

// absence is why a job that runs on every instance does not run on this one.
func (i Instance) absence() string {
	switch {
	case i.State == "":
		return i.ID + " is not running"
	case i.Why == "" && i.State == "active":
		return i.ID + " does not have its handler"
	}
	return i.obstacle()
}

// Labels names labels: "disk=ssd, zone=a".
func Labels(labels map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return strings.Join(pairs, ", ")
}

// list names some instances, and counts the rest.
func list(instances []Instance, name func(Instance) string, separator string) string {
	const most = 5
	var names []string
	for n, i := range instances {
		if n == most && len(instances) > most+1 {
			names = append(names, fmt.Sprintf("%d more", len(instances)-most))
			break
		}
		names = append(names, name(i))
	}
	return strings.Join(names, separator)
}
