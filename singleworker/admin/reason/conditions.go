package reason

import (
	"encoding"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/job"
)

// Severity is how urgently somebody should look at a job, or an instance.
type Severity int

// The severities. Fine is a condition that is meant, or that passes.
const (
	Fine    Severity = iota
	Notice           // it may have been forgotten, or ends by itself
	Warning          // the job is owned, and does not run as it should; the instance needs somebody
	Broken           // nobody runs the job
)

// Forgotten is how long a pause, or an order to an instance, lasts that may have been forgotten.
const Forgotten = 24 * time.Hour

// ClocksDiffer is more than clocks differ that nobody has set wrong.
const ClocksDiffer = time.Minute

var severities = []string{"fine", "notice", "warning", "broken"}

var (
	_ encoding.TextMarshaler   = Fine
	_ encoding.TextUnmarshaler = (*Severity)(nil)
)

// String is "fine", "notice", "warning" or "broken".
func (s Severity) String() string { return severities[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Severity) UnmarshalText(text []byte) error {
	i := slices.Index(severities, string(text))
	if i < 0 {
		return fmt.Errorf("severity %q: unknown, want one of %q", text, severities)
	}
	*s = Severity(i)
	return nil
}

// Meaning is what is to be said of a Code, of whatever job, or instance.
type Meaning struct {
	Code     Code     `json:"code"`
	State    string   `json:"-"` // the STATE of the job for programs; "" is of an instance
	Word     string   `json:"-"` // the same for people, as lists name it
	Title    string   `json:"-"` // of its line in a description
	Severity Severity `json:"severity"`
	Sentence string   `json:"sentence"` // what it means, without a period
	// Remedy is a command that mends it, or tells more. NAME in it is the job, and ID an instance.
	// Other words in capitals are to be chosen.
	Remedy string `json:"remedy"`
	// Notify is the kind of notification that tells of it, from its first moment to its last; "" if
	// none does.
	Notify job.NotifyKind `json:"-"`
	// Alert is the rule of sample/monitoring that fires for it; "" if none does.
	Alert string `json:"-"`
	// Idle means that nobody will run the job as long as it has the condition: it has no next run.
	Idle bool `json:"-"`
}

// Condition is what is wrong with a job or an instance, or worth knowing of it. Its Remedy names
// it.
type Condition struct {
	Meaning

	Since  time.Time `json:"since,omitzero"` // zero if the records do not tell
	Detail string    `json:"detail"`         // of this one; may have several lines
}

// UnmarshalJSON knows of a code what JSON leaves out. Of one that this version does not know, that
// is "".
func (c *Condition) UnmarshalJSON(text []byte) error {
	type plain Condition
	var decoded plain
	if err := json.Unmarshal(text, &decoded); err != nil {
		return err
	}
	*c = Condition(decoded)
	if m, known := Means(c.Code); known {
		m.Severity, m.Sentence, m.Remedy = c.Severity, c.Sentence, c.Remedy
		c.Meaning = m
	}
	return nil
}

// table has all that can be wrong with a job. The first that a job has says how it stands, because
// it explains or excuses those that follow: a job without an owner is late, and one that is paused
// is meant not to run.
var table = []Meaning{
	invalid(Unreadable, "one of its records is no record, and nobody runs the job", "swctl repair NAME"),
	invalid(NewerVersion, "a newer version wrote one of its records", "swctl show NAME"),
	invalid(Denied, "one of its records may not be read with these credentials", "swctl show NAME --auth-file FILE"),
	invalid(BadName, "somebody created its node manually, with a name that no job can have", "swctl list"),
	invalid(BadSpec, "its spec can never run", "swctl submit NAME SCHEDULE --replace"),
	invalid(BadCalendar, "a calendar that it names is missing, or cannot be read", "swctl calendars set CALENDAR FILE"),
	invalid(BadLimit, "a limit that it names is missing, cannot be read, or has too few places", "swctl limits set LIMIT --max NUMBER"),
	invalid(BadParent, "a job after which it runs is missing, or cannot be one", "swctl set NAME --drop-after JOB"),
	unowned(NoHandler, "nobody", nobody, "no instance ever called Manager.Handle for it", "swctl set NAME --handler HANDLER"),
	unowned(HandlerGone, "nobody", nobody, "the instances that had its handler are gone", "swctl instances"),
	unowned(AllClosed, "nobody", nobody, "the instances with its handler take no jobs", "swctl instances enable ID"),
	unowned(Nowhere, "nobody", nobody, "each instance with its handler lacks a label that the job requires, is not one of its instances, or is disabled for it", "swctl set NAME --drop-require KEY"),
	unowned(Unlisted, "nobody", nobody, "each instance with its handler is not one of its instances, or is disabled for it", "swctl set NAME --instance ID"),
	unowned(AllFull, "full", "full", "each instance with its handler owns as many slots as its MaxSlots allows", "swctl instances"),
	unowned(OwnerGone, ownerless, ownerless, "a takeover is in progress", "swctl why NAME"),
	unowned(Offered, ownerless, ownerless, "it is being handed over", "swctl why NAME"),
	unowned(Waiting, ownerless, ownerless, "it is free, and the instances named are expected to take it", "swctl why NAME"),
	{Code: Absent, State: "absent", Word: "absent", Title: "Reason", Sentence: "an instance has left it of a job that runs on every instance", Remedy: "swctl instances", Idle: true},
	{Code: Canceling, State: "canceled", Word: "canceled", Title: "Reason", Sentence: "it is being deleted in several steps", Remedy: "swctl cancel NAME"},
	{Code: Done, State: "done", Word: "done", Title: "Done", Sentence: "its last tick has run, or was skipped", Remedy: "swctl trigger NAME"},
	{Code: LongPaused, State: "paused", Word: "long paused", Title: "Paused", Severity: Notice, Sentence: "somebody paused it more than a day ago", Remedy: "swctl resume NAME"},
	{Code: Paused, State: "paused", Word: "paused", Title: "Paused", Sentence: "somebody paused it", Remedy: "swctl resume NAME"},
	{Code: Frozen, State: "frozen", Word: "frozen", Title: "Frozen", Sentence: "somebody froze the group, and did not except it", Remedy: "swctl unfreeze"},
	{
		Code: Late, State: "late", Word: "late", Title: "Late", Severity: Warning, Notify: job.NotifyLate, Alert: "SingleworkerJobOverdue",
		Sentence: "a tick is overdue by more than --alarm-after, and nobody ran or recorded it", Remedy: "swctl why NAME",
	},
	{Code: OwnerClock, State: "wrong_clock", Word: "wrong clock", Title: "Clock", Severity: Warning, Sentence: "the clock of its owner differs from ZooKeeper's, so its ticks come too early or too late", Remedy: "swctl instances", Alert: "SingleworkerWrongClock"},
	{Code: Ahead, State: "wrong_clock", Word: "wrong clock", Title: "Ahead", Severity: Warning, Sentence: "a clock that was wrong claimed ticks up to a time that is yet to come", Remedy: "swctl why NAME", Alert: "SingleworkerJobAhead"},
	{Code: Hung, State: "hung", Word: "hung", Title: "Hung", Severity: Warning, Notify: job.NotifyHung, Sentence: "a run takes so long that it seems to hang", Remedy: "swctl stop-run NAME", Alert: "SingleworkerJobHung"},
	{Code: Failing, State: "failing", Word: "failing", Title: "Failing", Severity: Warning, Sentence: "the handler returns errors, or its runs are lost", Remedy: "swctl history NAME --failed", Alert: "SingleworkerJobFailing"},
	{Code: Overrun, State: "overrun", Word: "running over", Title: "Overrun", Severity: Warning, Sentence: "a run takes longer than the schedule allows", Remedy: "swctl stop-run NAME", Alert: "SingleworkerJobOverrun"},
	{Code: NoResolver, State: "no_resolver", Word: "no resolver", Title: "Resolver", Severity: Notice, Sentence: "its policy for interrupted runs asks, and its owner has no resolver: nobody knows whether the effects are there", Remedy: "swctl set NAME --interrupted rerun"},
	{Code: After, State: "waiting", Word: "waiting", Title: "Waiting", Sentence: "a tick is due, and a job after which it runs has not run it yet", Remedy: "swctl why NAME"},
	{Code: Limited, State: "limited", Word: "limited", Title: "Limited", Sentence: "a run is due, and the limits that the job names have too few places that are free", Remedy: "swctl limits"},
	{Code: Resizing, State: "resizing", Word: "resizing", Title: "Resizing", Sentence: "the number of shards is changing, and a run of the old number is not done", Remedy: "swctl show NAME"},
	{Code: Conflict, State: "conflict", Word: "in conflict", Title: "Declared", Severity: Warning, Sentence: "instances declare it differently, and their versions do not say which of them holds", Remedy: "swctl instances", Alert: "SingleworkerJobConflict"},
}

// instances has all that can be wrong with an instance, the worst first.
var instances = []Meaning{
	{Code: WrongClock, Word: "wrong clock", Title: "Clock", Severity: Warning, Sentence: "its clock differs from ZooKeeper's", Remedy: "swctl instances show ID", Alert: "SingleworkerWrongClock"},
	{Code: Silent, Word: "silent", Title: "Silent", Severity: Notice, Sentence: "it gives no sign of life: it was killed, hangs, is suspended or cut off, and its session has not ended yet", Remedy: "swctl instances show ID"},
	{Code: Gone, Word: "gone", Title: "Gone", Severity: Warning, Sentence: "it is not running, and jobs have it on record as their owner", Remedy: "swctl instances", Alert: "SingleworkerJobUnowned"},
	{Code: Unusable, Word: "no record", Title: "Record", Severity: Warning, Sentence: "its record cannot be read, or somebody created it manually", Remedy: "swctl instances show ID", Alert: "SingleworkerInstanceUnusable"},
	{Code: LongClosed, Word: "long disabled", Title: "Order", Severity: Notice, Sentence: "somebody told it more than a day ago to take no jobs", Remedy: "swctl instances enable ID"},
	{Code: Closed, Word: "disabled", Title: "Order", Sentence: "it was told to take no jobs", Remedy: "swctl instances enable ID"},
	{Code: JobsClosed, Word: "disabled for jobs", Title: "Order", Sentence: "it was told not to take some jobs", Remedy: "swctl instances enable ID --job NAME"},
}

// nobody is the word for jobs whose handler no instance has that may run them, and ownerless the
// state of those that somebody is about to take.
const (
	nobody    = "nobody may run it"
	ownerless = "unowned"
)

func invalid(code Code, sentence, remedy string) Meaning {
	return Meaning{Code: code, State: "invalid", Word: "invalid", Title: "Reason", Severity: Broken, Sentence: sentence, Remedy: remedy, Notify: job.NotifyLate, Alert: "SingleworkerJobInvalid", Idle: true}
}

func unowned(code Code, state, word, sentence, remedy string) Meaning {
	return Meaning{Code: code, State: state, Word: word, Title: "Reason", Severity: Broken, Sentence: sentence, Remedy: remedy, Alert: "SingleworkerJobUnowned", Idle: state != ownerless}
}

// Meanings lists what can be wrong with a job, in the order in which it has its conditions.
func Meanings() []Meaning { return slices.Clone(table) }

// InstanceMeanings lists what can be wrong with an instance, in the order in which it has its
// conditions.
func InstanceMeanings() []Meaning { return slices.Clone(instances) }

// Means is the Meaning of a code. Not all codes have one: that a job has shards without an owner
// means what the first of them lacks.
func Means(code Code) (m Meaning, known bool) {
	for _, all := range [][]Meaning{table, instances} {
		if i := slices.IndexFunc(all, func(m Meaning) bool { return m.Code == code }); i >= 0 {
			return all[i], true
		}
	}
	return Meaning{}, false
}
