package render

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
)

// Instances is a table of those that run.
func (p Page) Instances(all []admin.Instance) {
	t := &output.Table{}
	t.Row("INSTANCE", "STATE", "OWNED", "WEIGHT", "HOST", "PID", "STARTED", "VERSION", "NOTE")
	for _, i := range all {
		pid, weight := "", ""
		if i.PID != 0 { // its record can be read
			pid, weight = strconv.Itoa(i.PID), strconv.Itoa(i.Weight)
		}
		state := i.State
		if i.Leader {
			state = "leader"
		}
		notes := slices.DeleteFunc([]string{i.Reason, p.orderNote(i), clockNote(i)}, func(s string) bool { return s == "" })
		t.Row(i.ID, state, owned(i), weight, i.Host, pid, output.Relative(i.StartedAt, p.Now), cmp.Or(i.Program, i.Version), strings.Join(notes, "; "))
	}
	t.Write(p.Out, "")
}

// owned is "3", or "3/20" if the instance may own 20.
func owned(i admin.Instance) string {
	if i.MaxSlots == 0 {
		return strconv.Itoa(i.Owned)
	}
	return fmt.Sprintf("%d/%d", i.Owned, i.MaxSlots)
}

// orderNote says why an instance takes no jobs.
func (p Page) orderNote(i admin.Instance) string {
	switch {
	case i.Order == nil && i.Withdrawn:
		return "drained by its own program"
	case i.Order == nil && len(i.JobOrders) > 0:
		return "disabled for " + jobsOf(i.JobOrders)
	case i.Order == nil:
		return ""
	case i.Order.Host != "":
		return "its host is disabled" + p.Order(*i.Order)
	case i.Order.Incarnation == "":
		return "disabled" + p.Order(*i.Order)
	}
	return "told to drain" + p.Order(*i.Order)
}

// clocksDiffer is more than clocks differ that are set by a network, and heartbeatTakes is longer than a heartbeat
// takes to reach ZooKeeper: by it, a clock of which its instance says nothing is judged.
const (
	clocksDiffer   = 300 * time.Millisecond
	heartbeatTakes = 5 * time.Second
)

// clockNote warns that the clock of an instance is wrong.
func clockNote(i admin.Instance) string {
	least := clocksDiffer
	if i.ClockBound == 0 {
		least = heartbeatTakes
	}
	switch off := i.ClockOffset; {
	case off == nil || off.Abs() < least:
		return ""
	case *off > 0:
		return "its clock is " + output.Span(*off) + " ahead of ZooKeeper's"
	default:
		return "its clock is " + output.Span(-*off) + " behind ZooKeeper's"
	}
}

// Order is who gave an order, when and why: " 3m ago by alice@host: disk". What is not known
// is left out.
func (p Page) Order(o admin.Order) string {
	text := ""
	if !o.At.IsZero() {
		text += " " + output.Relative(o.At, p.Now)
	}
	if o.By != "" {
		text += " by " + o.By
	}
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text
}

// Ordered says what became of an order to drain or disable an instance.
func (p Page) Ordered(target admin.Target, result admin.OrderResult) {
	head := string(result.Outcome)
	switch {
	case result.Outcome != admin.OutcomeOrdered:
	case result.Order.Incarnation == "":
		head = "disabled"
	default:
		head = "draining"
	}
	p.linef("%s %s%s", head, target, p.Order(*result.Order))
	p.bound(target, result)
	for _, id := range result.Deaf {
		p.linef("  %s is of an older version and does not follow this order: stop it, or swctl instances disable %s", id, id)
	}
}

// bound says how the instances are that an order is for.
func (p Page) bound(target admin.Target, result admin.OrderResult) {
	instance := result.Instance
	switch {
	case target.Host == "" && instance == nil:
		p.linef("  it is not running now")
	case target.Host == "":
		p.linef("  it is %s and owns %s", instance.State, Count(instance.Owned))
	case len(result.Bound) == 0:
		p.linef("  no instance runs there now")
	default:
		for _, i := range result.Bound {
			p.linef("  %s is %s and owns %s", i.ID, i.State, Count(i.Owned))
		}
	}
}

// OrderedJobs says what an order is for: "everything is", or "job report is".
func OrderedJobs(o admin.Order) string {
	if o.Job == "" {
		return "everything is"
	}
	return "job " + o.Job + " is"
}

// jobsOf names the jobs of some orders, and counts the rest.
func jobsOf(orders []admin.Order) string {
	const most = 3
	var names []string
	for n, o := range orders {
		if n == most {
			names = append(names, fmt.Sprintf("%d more", len(orders)-most))
			break
		}
		names = append(names, o.Job)
	}
	return strings.Join(names, ", ")
}

// Enabled says what became of the order that was taken back.
func (p Page) Enabled(target admin.Target, result admin.OrderResult) {
	if result.Order == nil {
		p.linef("%s %s: it was not draining or disabled", result.Outcome, target)
	} else {
		p.linef("%s %s; it was draining or disabled%s", result.Outcome, target, p.Order(*result.Order))
	}
	switch instance := result.Instance; {
	case target.Host != "":
		p.bound(target, result)
	case instance == nil:
		p.linef("  it is not running now")
	case instance.Withdrawn:
		p.linef("  it stays drained: its own program has called Manager.Drain")
	}
}

// Count is "1 job" or "2 jobs".
func Count(jobs int) string {
	if jobs == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", jobs)
}
