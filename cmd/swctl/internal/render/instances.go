package render

import (
	"cmp"
	"strconv"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// Instances is a table of those that run.
func (p Page) Instances(all []admin.Instance) {
	t := p.table([]string{"INSTANCE", "STATE", "OWNED", "WEIGHT", "HOST", "PID", "STARTED", "VERSION", "NOTE"}, "WEIGHT", "PID", "VERSION")
	for _, i := range all {
		pid, weight := "", ""
		if i.PID != 0 { // its record can be read
			pid, weight = strconv.Itoa(i.PID), strconv.Itoa(i.Weight)
		}
		state := i.State
		if i.Leader {
			state = "leader"
		}
		found := words.OfInstance(i, p.Now)
		t.Row(i.ID, state, words.Owned(i), weight, i.Host, pid, p.ago(i.StartedAt), cmp.Or(i.Program, i.Version), words.Line(found))
		t.Paint("STATE", color(found))
	}
	t.Write(p.Out, "")
}

// Gone is a table of instances that have left.
func (p Page) Gone(all []admin.GoneInstance) {
	t := p.table([]string{"INSTANCE", "GONE", "LAST SIGN", "HOST", "PID", "STARTED", "VERSION", "HOW"}, "PID", "VERSION")
	for _, g := range all {
		t.Row(g.ID, p.moment(g.At, time.UTC), p.at(g.LastSign, time.UTC), g.Host, strconv.Itoa(g.PID), p.ago(g.StartedAt), g.Version, words.HowGone(g))
	}
	t.Write(p.Out, "")
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
	p.linef("%s %s%s", head, target, words.Order(*result.Order, p.Now))
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

// OrderedJobs names the target of an order: "everything is", or "job report is".
func OrderedJobs(o admin.Order) string {
	if o.Job == "" {
		return "everything is"
	}
	return "job " + o.Job + " is"
}

// Enabled says what became of the order that was taken back.
func (p Page) Enabled(target admin.Target, result admin.OrderResult) {
	if result.Order == nil {
		p.linef("%s %s: it was not draining or disabled", result.Outcome, target)
	} else {
		p.linef("%s %s; it was draining or disabled%s", result.Outcome, target, words.Order(*result.Order, p.Now))
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
