package words

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// Code is how programs name a Condition. That of a job that is not owned is its reason.Code.
type Code string

// The codes beside those of package reason.
const (
	Unlisted   Code = "unlisted"    // as reason.Nowhere, of a job that requires no label
	LongPaused Code = "long_paused" // Paused for more than a day
	Paused     Code = "paused"
	Late       Code = "late"
	Ahead      Code = "ahead"
	Hung       Code = "hung"
	Failing    Code = "failing"
	Overrun    Code = "overrun"
	Resizing   Code = "resizing"
)

// Severity is how urgently somebody should look at a job.
type Severity int

// The severities. Fine is a condition that is meant, or that passes.
const (
	Fine    Severity = iota
	Notice           // it may have been forgotten
	Warning          // the job is owned, and does not run as it should
	Broken           // nobody runs the job
)

// Meaning is what is to be said of a Code, of whatever job.
type Meaning struct {
	Code     Code
	State    string // the STATE of the job; "" leaves that to the conditions that follow
	Word     string // how a list of problems names it
	Title    string // of its line in a description
	Severity Severity
	Sentence string // what it means, without a period
	// Remedy is a command that mends it, or tells more. NAME in it is the job, and ID an instance. Other words in capitals are to be chosen.
	Remedy string
	// Notify is the kind of notification that tells of it, from its first moment to its last; "" if none does.
	Notify jobs.NotifyKind
}

// Condition is what is wrong with a job, or worth knowing of it.
type Condition struct {
	Meaning

	Since  time.Time // zero if the records do not tell
	Detail string    // of this job: one line

	lead string // the word before Detail, where no title says it
}

// String is Detail as it stands in a list.
func (c Condition) String() string { return c.lead + c.Detail }

// row is a condition of the table, and how it is told from the status.
type row struct {
	Meaning

	// holds reports whether a job has the condition. Nil: its State and its Reason tell.
	holds func(job *admin.JobStatus, now time.Time) bool
	tell  func(job admin.JobStatus, now time.Time) (since time.Time, detail string) // nil: the Reason
	lead  string
}

const (
	pausedLong = 24 * time.Hour // a pause of that length may have been forgotten
	clockSkew  = time.Minute    // how far in the future a claimed tick may be because clocks differ
)

// table has all conditions. The first that a job has says how it stands, because it explains or excuses those that follow: a job without an owner is late,
// and one that is paused is meant not to run.
var table = []row{
	{Meaning: invalid(reason.Unreadable, "one of its records is no record, and nobody runs the job", "swctl repair NAME")},
	{Meaning: invalid(reason.NewerVersion, "a newer version wrote one of its records", "swctl show NAME")},
	{Meaning: invalid(reason.Denied, "one of its records may not be read with these credentials", "swctl show NAME --auth-file FILE")},
	{Meaning: invalid(reason.BadName, "somebody created its node manually, with a name that no job can have", "swctl list")},
	{Meaning: invalid(reason.BadSpec, "its spec can never run", "swctl submit NAME SCHEDULE --replace")},
	{Meaning: unowned(reason.NoHandler, nobody, "no instance ever called Manager.Handle for it", "swctl set NAME --handler HANDLER")},
	{Meaning: unowned(reason.HandlerGone, nobody, "the instances that had its handler are gone", "swctl instances")},
	{Meaning: unowned(reason.AllClosed, nobody, "the instances with its handler take no jobs", "swctl instances enable ID")},
	{Meaning: unowned(reason.Nowhere, nobody, "each instance with its handler lacks a label that the job requires, is not one of its instances, or is disabled for it", "swctl set NAME --drop-require KEY")},
	{Meaning: unowned(reason.Code(Unlisted), nobody, "each instance with its handler is not one of its instances, or is disabled for it", "swctl set NAME --instance ID")},
	{Meaning: unowned(reason.AllFull, "full", "each instance with its handler owns as many slots as its MaxSlots allows", "swctl instances")},
	{Meaning: unowned(reason.OwnerGone, "unowned", "a takeover is in progress", "swctl why NAME")},
	{Meaning: unowned(reason.Offered, "unowned", "it is being handed over", "swctl why NAME")},
	{Meaning: unowned(reason.Waiting, "unowned", "it is free, and the instances named are expected to take it", "swctl why NAME")},
	{Meaning: Meaning{Code: Code(reason.Absent), State: "unowned", Word: "absent", Title: "Reason", Sentence: "an instance has left it of a job that runs on every instance", Remedy: "swctl instances"}},
	{Meaning: Meaning{Code: Code(reason.Canceling), State: "canceled", Word: "canceled", Title: "Reason", Sentence: "it is being deleted in several steps", Remedy: "swctl cancel NAME"}},
	{
		Meaning: Meaning{Code: Code(reason.Done), State: "done", Word: "done", Title: "Done", Sentence: "its only tick has run, or was skipped", Remedy: "swctl trigger NAME"},
		tell:    func(job admin.JobStatus, now time.Time) (time.Time, string) { return job.DoneAt, removed(job, now) },
	},
	{
		Meaning: Meaning{Code: LongPaused, State: "paused", Word: "long paused", Title: "Paused", Severity: Notice, Sentence: "somebody paused it more than a day ago", Remedy: "swctl resume NAME"},
		holds: func(job *admin.JobStatus, now time.Time) bool {
			return job.Paused != nil && now.Sub(job.Paused.Since) > pausedLong
		},
		tell: paused, lead: "paused ",
	},
	{
		Meaning: Meaning{Code: Paused, State: "paused", Word: "paused", Title: "Paused", Sentence: "somebody paused it", Remedy: "swctl resume NAME"},
		holds: func(job *admin.JobStatus, now time.Time) bool {
			return job.Paused != nil && now.Sub(job.Paused.Since) <= pausedLong
		},
		tell: paused, lead: "paused ",
	},
	{
		Meaning: Meaning{Code: Late, State: "late", Word: "late", Title: "Late", Severity: Warning, Sentence: "a tick is overdue by more than --alarm-after, and nobody ran or recorded it", Remedy: "swctl why NAME", Notify: jobs.NotifyLate},
		holds:   func(job *admin.JobStatus, _ time.Time) bool { return !job.Overdue.IsZero() },
		tell: func(job admin.JobStatus, now time.Time) (time.Time, string) {
			return job.Overdue, "since " + plain.Moment(job.Overdue, now, Zone(job.Job))
		}, lead: "late ",
	},
	{
		Meaning: Meaning{Code: Ahead, Word: "late", Title: "Ahead", Severity: Warning, Sentence: "a clock that was wrong claimed ticks up to a time that is yet to come", Remedy: "swctl why NAME"},
		holds:   func(job *admin.JobStatus, now time.Time) bool { return job.Watermark.Sub(now) > clockSkew },
		tell: func(job admin.JobStatus, now time.Time) (time.Time, string) {
			return time.Time{}, "nothing runs before " + plain.Moment(job.Watermark, now, Zone(job.Job)) + ": a clock was wrong, see swctl why " + plain.Quoted(job.Name)
		},
	},
	{
		Meaning: Meaning{Code: Hung, State: "hung", Word: "hung", Title: "Hung", Severity: Warning, Sentence: "a run takes so long that it seems to hang", Remedy: "swctl stop-run NAME", Notify: jobs.NotifyHung},
		holds:   func(job *admin.JobStatus, _ time.Time) bool { return job.Hung != nil },
		tell: func(job admin.JobStatus, now time.Time) (time.Time, string) {
			return job.Hung.Since, hangs(*job.Hung, now)
		},
	},
	{
		Meaning: Meaning{Code: Failing, Word: "failing", Title: "Failing", Severity: Warning, Sentence: "the handler returns errors, or its runs are lost", Remedy: "swctl history NAME --failed"},
		holds:   func(job *admin.JobStatus, _ time.Time) bool { return Fails(*job) },
		tell:    failed,
	},
	{
		Meaning: Meaning{Code: Overrun, Word: "running over", Title: "Overrun", Severity: Warning, Sentence: "a run takes longer than the schedule allows", Remedy: "swctl stop-run NAME"},
		holds:   func(job *admin.JobStatus, _ time.Time) bool { return !job.Overrun.IsZero() },
		tell:    func(job admin.JobStatus, now time.Time) (time.Time, string) { return job.Overrun, overrun(job, now) },
	},
	{
		Meaning: Meaning{Code: Resizing, State: "resizing", Word: "resizing", Title: "Resizing", Sentence: "the number of shards is changing, and a run of the old number is not done", Remedy: "swctl show NAME"},
		holds:   func(job *admin.JobStatus, _ time.Time) bool { return job.Resizing != nil },
		tell:    func(job admin.JobStatus, _ time.Time) (time.Time, string) { return time.Time{}, job.Resizing.String() }, lead: "resizing ",
	},
}

// nobody is the word for jobs whose handler no instance has that may run them.
const nobody = "nobody may run it"

func invalid(code reason.Code, sentence, remedy string) Meaning {
	return Meaning{
		Code: Code(code), State: string(admin.StateInvalid), Word: "invalid", Title: "Reason", Severity: Broken, Sentence: sentence, Remedy: remedy, Notify: jobs.NotifyLate,
	}
}

func unowned(code reason.Code, word, sentence, remedy string) Meaning {
	return Meaning{Code: Code(code), State: string(admin.StateUnowned), Word: word, Title: "Reason", Severity: Broken, Sentence: sentence, Remedy: remedy}
}

// Meanings lists all codes, in the order in which Conditions has them.
func Meanings() []Meaning {
	all := make([]Meaning, len(table))
	for i := range table {
		all[i] = table[i].Meaning
	}
	return all
}

// States lists all that State says.
func States() []string {
	all := []string{string(admin.StateOwned)}
	for i := range table {
		if state := table[i].State; state != "" && !slices.Contains(all, state) {
			all = append(all, state)
		}
	}
	return all
}

// Conditions lists what is wrong with a job or a shard, or worth knowing of it, at that time of the group. The first says how it stands. Nil if
// it is owned and runs as it should.
func Conditions(job admin.JobStatus, now time.Time) (all []Condition) {
	for r := range conditions(&job, now) {
		c := Condition{Meaning: r.Meaning, Detail: plain.FirstLine(job.Reason.String()), lead: r.lead}
		if r.tell != nil {
			c.Since, c.Detail = r.tell(job, now)
		}
		c.Remedy = remedy(r.Remedy, job)
		all = append(all, c)
	}
	return all
}

// conditions are the rows of the table that hold of a job.
func conditions(job *admin.JobStatus, now time.Time) iter.Seq[*row] {
	return func(yield func(*row) bool) {
		standing := unownedAs(job)
		for i := range table {
			r := &table[i]
			if holds := r.holds == nil && r.Code == standing || r.holds != nil && r.holds(job, now); holds && !yield(r) {
				return
			}
		}
	}
}

// unnamed are the codes of jobs whose Reason is not in the table.
var unnamed = map[admin.State]Code{
	admin.StateInvalid: Code(reason.Unreadable), admin.StateUnowned: Code(reason.Waiting),
	admin.StateCanceled: Code(reason.Canceling), admin.StateDone: Code(reason.Done),
}

// unownedAs is the code of a job that is not owned; "" of one that is. Programs that decoded the status from JSON do not have its facts.
func unownedAs(job *admin.JobStatus) Code {
	if job.State == admin.StateOwned {
		return ""
	}
	why := job.Reason
	if why.Code == reason.SomeShards && why.Why != nil {
		why = *why.Why
	}
	if why.Code == reason.Nowhere && len(job.Job.Require) == 0 {
		return Unlisted
	}
	for _, code := range []Code{Code(why.Code), unnamed[job.State]} {
		if slices.ContainsFunc(table, func(r row) bool { return r.Code == code && r.State == string(job.State) }) {
			return code
		}
	}
	return ""
}

// remedy fills in the job and the instance of a command.
func remedy(command string, job admin.JobStatus) string {
	why := job.Reason
	if why.Why != nil {
		why = *why.Why
	}
	names := []string{"NAME", plain.Quoted(job.Name)}
	if why.Code == reason.AllClosed && len(why.Instances) > 0 {
		names = append(names, "ID", plain.Quoted(why.Instances[0].ID))
	}
	return strings.NewReplacer(names...).Replace(command)
}

func paused(job admin.JobStatus, now time.Time) (since time.Time, detail string) {
	return job.Paused.Since, Pause(*job.Paused, Zone(job.Job), now)
}
