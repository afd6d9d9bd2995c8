package words

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// Owned is "3", or "3/20" if the instance may own 20.
func Owned(i admin.Instance) string {
	if i.MaxSlots == 0 {
		return strconv.Itoa(i.Owned)
	}
	return fmt.Sprintf("%d/%d", i.Owned, i.MaxSlots)
}

// Notes say what there is to say of an instance: why its record is no good, why it takes no jobs, and that its clock is wrong.
func Notes(i admin.Instance, now time.Time) []string {
	return slices.DeleteFunc([]string{i.Reason, OrderNote(i, now), ClockNote(i)}, func(s string) bool { return s == "" })
}

// OrderNote says why an instance takes no jobs.
func OrderNote(i admin.Instance, now time.Time) string {
	switch {
	case i.Order == nil && i.Withdrawn:
		return "drained by its own program"
	case i.Order == nil && len(i.JobOrders) > 0:
		return "disabled for " + jobsOf(i.JobOrders)
	case i.Order == nil:
		return ""
	case i.Order.Host != "":
		return "its host is disabled" + Order(*i.Order, now)
	case i.Order.Incarnation == "":
		return "disabled" + Order(*i.Order, now)
	}
	return "told to drain" + Order(*i.Order, now)
}

// clocksDiffer is more than clocks differ that are set by a network, and heartbeatTakes is longer than a heartbeat
// takes to reach ZooKeeper: by it, a clock of which its instance says nothing is judged.
const (
	clocksDiffer   = 300 * time.Millisecond
	heartbeatTakes = 5 * time.Second
)

// ClockNote warns that the clock of an instance is wrong.
func ClockNote(i admin.Instance) string {
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

// Clock says of the clock that is named that it is so far ahead of the group's time, by which everything is judged, or that it is its own
// judge; "" if it is right, or about right. The rest is as admin.Client.Clock returns it.
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

// Order is who gave an order, when and why: " 3m ago by alice@host: disk". What is not known
// is left out.
func Order(o admin.Order, now time.Time) string {
	text := ""
	if !o.At.IsZero() {
		text += " " + plain.Relative(o.At, now)
	}
	if o.By != "" {
		text += " by " + o.By
	}
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text
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
