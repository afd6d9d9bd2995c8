package words

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
)

// Owned is "3", or "3/20" if the instance may own 20.
func Owned(i admin.Instance) string {
	if i.MaxSlots == 0 {
		return strconv.Itoa(i.Owned)
	}
	return fmt.Sprintf("%d/%d", i.Owned, i.MaxSlots)
}

// OfInstance lists what is wrong with an instance, or worth knowing of it, at that time of the
// group, the worst first.
func OfInstance(i admin.Instance, now time.Time) (all []reason.Condition) {
	add := func(code reason.Code, since time.Time, detail, target string) {
		m, _ := reason.Means(code)
		m.Remedy = strings.Replace(m.Remedy, "ID", target, 1)
		all = append(all, reason.Condition{Meaning: m, Since: since, Detail: detail})
	}
	id := plain.Quoted(i.ID)
	if note := clockNote(i); note != "" || i.State == admin.InstanceWrongClock {
		add(reason.WrongClock, time.Time{}, cmp.Or(note, "its clock is wrong"), id)
	}
	if i.Silent > 0 {
		add(reason.Silent, now.Add(-i.Silent), "silent for "+plain.Span(i.Silent), id)
	}
	if i.State == admin.InstanceNone || i.State == admin.InstanceUnreadable {
		add(reason.Unusable, time.Time{}, cmp.Or(i.Reason, "it is "+i.State), id)
	}
	switch o := i.Order; {
	case o == nil && i.Withdrawn:
		add(reason.Closed, time.Time{}, "drained by its own program", id)
	case o != nil:
		code, order, target := reason.Closed, "disabled", id
		if !o.At.IsZero() && now.Sub(o.At) > reason.Forgotten {
			code = reason.LongClosed
		}
		switch {
		case o.Host != "":
			order, target = "its host is disabled", "--host "+plain.Quoted(o.Host)
		case o.Incarnation != "":
			order = "told to drain"
		}
		add(code, o.At, order+Order(*o, now), target)
	}
	if len(i.JobOrders) > 0 {
		add(reason.JobsClosed, time.Time{}, "disabled for "+jobsOf(i.JobOrders), id)
	}
	return all
}

// clocksDiffer is more than clocks differ that are set by a network, and heartbeatTakes is longer
// than a heartbeat takes to reach ZooKeeper: by it, a clock of which its instance says nothing is
// judged.
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
		return "its clock is " + plain.Span(*off) + " ahead of ZooKeeper's"
	default:
		return "its clock is " + plain.Span(-*off) + " behind ZooKeeper's"
	}
}

// Clock says of the clock that is named that it is so far ahead of the group's time, by which
// everything is judged, or that it is its own judge; "" if it is right, or about right. The rest is
// as admin.Client.Clock returns it.
func Clock(name string, ahead time.Duration, own bool) string {
	const shown = 2 * time.Second
	switch {
	case own:
		return "no signs of life of instances tell the group's time; times are by " + name
	case ahead >= shown:
		return name + " is " + plain.Span(ahead) + " ahead of the group's; times are the group's"
	case ahead <= -shown:
		return name + " is " + plain.Span(-ahead) + " behind the group's; times are the group's"
	}
	return ""
}

// HowGone says how an instance went.
func HowGone(g admin.GoneInstance) string {
	switch g.How {
	case admin.GoneStopped:
		return "it was stopped"
	case admin.GoneClosed:
		return "its session was closed, or its node deleted, " + plain.Span(g.At.Sub(g.LastSign)) + " after its last sign of life: its process ended, and was not stopped in order"
	case admin.GoneHung:
		return "it hung: it gave no sign of life for " + plain.Span(g.At.Sub(g.LastSign)) + ", and then its session ended"
	}
	return "its session ended: it was killed, suspended or cut off"
}

// Order is who gave an order, when and why: " 3m ago by alice@host: disk". What is not known
// is left out.
func Order(o admin.Order, now time.Time) string {
	text := ""
	if !o.At.IsZero() {
		text += " " + plain.Relative(o.At, now)
	}
	return text + By(o.By, o.Reason)
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
