// Package doctor judges a group as a whole: its ZooKeeper servers, clocks, instances, sizes, rights
// and jobs. swctl doctor prints its checks, and the pages of package web answer with them.
//
// A job or an instance has the conditions of package reason. The checks here say which of them
// there are, and how often. Others are about the group as a whole.
package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/internal/listing"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Check is the result of one check.
type Check struct {
	// Name is the check's, such as "quorum", or the code of a condition that jobs or instances have.
	Name     string          `json:"name"`
	Severity reason.Severity `json:"severity"`
	Sentence string          `json:"sentence"`         // the finding, without a period
	Remedy   string          `json:"remedy,omitempty"` // a command, or another remedy
	Of       []string        `json:"of,omitempty"`     // the servers, instances or jobs that it is about, sorted
}

// IsWrong reports whether one of the checks is a warning, or worse.
func IsWrong(checks []Check) bool {
	return slices.ContainsFunc(checks, func(c Check) bool { return c.Severity >= reason.Warning })
}

// Limits from which on a check is no longer fine.
const (
	slow        = 20 * time.Millisecond // a server's average latency
	slowest     = 100 * time.Millisecond
	outstanding = 100         // requests that a server has not answered
	clockLimit  = time.Second // by how much ZooKeeper's clock may differ from those of all instances
	nearly      = 0.9         // of a limit
)

// Checks judges a group, the worst first.
func Checks(e admin.Examination) []Check {
	x := &examiner{Examination: e}
	x.quorum(true)
	x.serversClock()
	x.ownClock()
	x.live()
	x.versions()
	x.sessions()
	x.slots()
	x.registrations()
	x.sizes()
	x.access()
	x.freeze()
	x.limits()
	x.jobs()
	return x.sorted()
}

// Unreachable judges the servers of a group that none of them let in, the worst first.
func Unreachable(e *admin.ServersError) []Check {
	x := &examiner{Examination: admin.Examination{Servers: e.Servers}}
	x.quorum(false)
	return x.sorted()
}

type examiner struct {
	admin.Examination

	checks []Check
	worded []worded
}

func (x *examiner) add(name string, severity reason.Severity, of []string, remedy, sentence string, args ...any) {
	if severity == reason.Fine {
		remedy = ""
	}
	slices.Sort(of)
	x.checks = append(x.checks, Check{name, severity, fmt.Sprintf(sentence, args...), remedy, of})
}

func (x *examiner) sorted() []Check {
	slices.SortStableFunc(x.checks, func(a, b Check) int { return cmp.Compare(b.Severity, a.Severity) })
	return x.checks
}

func (x *examiner) ownClock() {
	text := words.Clock("the clock of the machine that looks", x.Ahead, x.Own)
	if text == "" {
		x.add("own_clock", reason.Fine, nil, "", "the clock of the machine that looks agrees with the group's time")
		return
	}
	x.add("own_clock", reason.Notice, nil, "set it, unless no instance is meant to run", "%s", text)
}

// live judges each instance by its conditions.
func (x *examiner) live() {
	if len(x.Instances) == 0 {
		x.add("instances", reason.Broken, nil, "start the application, or correct --server-type and --zk", "no instance runs")
		return
	}
	x.add("instances", reason.Fine, nil, "", "%s", counted(len(x.Instances), "instance"))
	for _, i := range x.Instances {
		for _, c := range words.OfInstance(i, x.Now) {
			x.has(i.ID, c)
		}
	}
	x.tell("instance")
}

// versions judges whether all instances have the same library and, if so, the same time zone
// database: the fingerprints of different libraries cannot be compared.
func (x *examiner) versions() {
	if !x.differ("versions", reason.Notice, "library version", "finish the deploy: until then new features wait for the oldest", func(i admin.Instance) string { return i.Version }) {
		x.differ("zones", reason.Warning, "time zone database", "deploy the same image everywhere: schedules have different ticks", func(i admin.Instance) string { return i.Zones })
	}
}

// differ tells whether instances have different values of something.
func (x *examiner) differ(name string, severity reason.Severity, what, remedy string, of func(admin.Instance) string) bool {
	have := make(map[string][]string)
	for _, i := range x.Instances {
		if value := of(i); value != "" {
			have[value] = append(have[value], i.ID)
		}
	}
	switch values := slices.Sorted(maps.Keys(have)); len(values) {
	case 0:
	case 1:
		x.add(name, reason.Fine, nil, "", "all instances have the same %s", what)
		return false
	default:
		var texts, ids []string
		for _, value := range values {
			texts, ids = append(texts, value+" ("+plain.Some(have[value])+")"), append(ids, have[value]...)
		}
		x.add(name, severity, ids, remedy, "%s: %s", counted(len(values), what), strings.Join(texts, ", "))
		return true
	}
	return false
}

func (x *examiner) sessions() {
	var short, ids []string
	for _, i := range x.Instances {
		if i.SessionAsked > i.SessionTimeout {
			ids = append(ids, i.ID)
			short = append(short, fmt.Sprintf("%s has %v in place of %v", i.ID, i.SessionTimeout, i.SessionAsked))
		}
	}
	if len(ids) > 0 {
		x.add("sessions", reason.Notice, ids, "raise maxSessionTimeout in the servers' configuration, or ask for less",
			"ZooKeeper grants shorter sessions than were asked for: %s", plain.Some(short))
	} else if len(x.Instances) > 0 {
		x.add("sessions", reason.Fine, nil, "", "no session is shorter than its instance has asked for")
	}
}

// slots tells how much room the instances have for further jobs.
func (x *examiner) slots() {
	room, limited := 0, 0
	var open []string
	for _, i := range x.Instances {
		if i.State != admin.InstanceActive {
			continue
		}
		if open = append(open, i.ID); i.MaxSlots > 0 {
			limited++
			room += max(0, i.MaxSlots-i.Owned)
		}
	}
	switch {
	case len(open) == 0: // the conditions of instances, or jobs, say so
	case limited < len(open):
		x.add("slots", reason.Fine, nil, "", "there is no limit to how many jobs and shards the instances own")
	case room == 0:
		x.add("slots", reason.Notice, open, "start another instance, or raise MaxSlots", "each instance that takes jobs owns as many as its MaxSlots allows")
	default:
		x.add("slots", reason.Fine, nil, "", "the instances have room for %d more jobs and shards", room)
	}
}

// registrations finds instances that are registered and do not run.
func (x *examiner) registrations() {
	live, old := make(map[string]bool), make(map[string]bool)
	for _, i := range x.Instances {
		live[i.ID] = true
	}
	jobs := 0
	for _, j := range x.Jobs {
		found := false
		for _, id := range j.Registered {
			if !live[id] {
				old[id], found = true, true
			}
		}
		if found {
			jobs++
		}
	}
	ids := slices.Sorted(maps.Keys(old))
	switch {
	case len(ids) > 0:
		x.add("registrations", reason.Notice, ids, "nothing, if they went a moment ago; otherwise look at the log of an instance that runs",
			"%s are registered for %s and do not run; the others remove that ten session timeouts after an instance has gone: %s",
			counted(len(ids), "instance"), counted(jobs, "job"), plain.Some(ids))
	case len(x.Jobs) > 0:
		x.add("registrations", reason.Fine, nil, "", "no instance is registered for a job that does not run")
	}
}

// sizes compares lists and records with their limits.
func (x *examiner) sizes() {
	x.add("listing", sizeOf(x.NamesBytes, listing.Max), nil, "another server type, or a chroot, for part of the jobs",
		"the names of all jobs have %s of at most %s", kib(x.NamesBytes), kib(listing.Max))
	largest, name := 0, ""
	for _, j := range x.Jobs {
		if j.SpecBytes > largest {
			largest, name = j.SpecBytes, j.Name
		}
	}
	if name != "" {
		x.add("records", sizeOf(largest, job.MaxBytes), []string{name}, "swctl show "+plain.Quoted(name)+": shorten its arguments, or keep them elsewhere",
			"the largest spec, of job %s, has %s of at most %s", name, kib(largest), kib(job.MaxBytes))
	}
}

func sizeOf(n, limit int) reason.Severity {
	switch share := float64(n) / float64(limit); {
	case share >= nearly:
		return reason.Warning
	case share >= nearly/2:
		return reason.Notice
	}
	return reason.Fine
}

func kib(n int) string { return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10)) }

// limits finds places that no run has: nobody gives them back.
func (x *examiner) limits() {
	leaks := false
	for _, of := range x.Limits {
		var slots []string
		for _, place := range of.Held {
			if place.Leaked {
				slots = append(slots, place.Slot)
			}
		}
		if len(slots) > 0 {
			leaks = true
			x.add("limits", reason.Warning, slots, "swctl limits free "+plain.Quoted(of.Name), "limit %s: %s of %d held for runs that are gone: %s",
				of.Name, counted(len(slots), "place"), of.Max, plain.Some(slots))
		}
	}
	if len(x.Limits) > 0 && !leaks {
		x.add("limits", reason.Fine, nil, "", "each place of a limit that is held is a run's in progress")
	}
}

func (x *examiner) access() {
	open := new(zkconn.OpenACLError)
	if !errors.As(x.Open, &open) {
		x.add("acl", reason.Fine, nil, "", "who has no credentials may not change the group, or none are used")
		return
	}
	x.add("acl", reason.Warning, nil, fmt.Sprintf("look at its nodes, then in ZooKeeper's shell, as the application's user: setAcl -R %s %s", open.Path, open.Want),
		"%s may change %s, although credentials are used", open.Who, open.Path)
}

// list is "report", or "7 jobs (a, b, c, d, e and 2 more)".
func list(names []string, what string) string {
	if len(names) == 1 {
		return names[0]
	}
	return counted(len(names), what) + " (" + plain.Some(names) + ")"
}

// counted is "1 job" or "2 jobs".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
