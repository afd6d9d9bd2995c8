package render

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// Instance describes one that runs, and its slots.
func (p Page) Instance(d admin.InstanceDetails) {
	i := d.Instance
	p.field("Instance", i.ID)
	state := i.State
	if i.Leader {
		state = "leader"
	}
	p.field("State", state)
	for _, c := range words.OfInstance(i, p.Now) {
		if c.Code != reason.JobsClosed { // each of them is below
			p.condition(c, "swctl instances show "+plain.Quoted(i.ID), time.UTC)
		}
	}
	for _, o := range i.JobOrders {
		p.field("Disabled", "job "+o.Job+words.Order(o, p.Now))
	}
	p.field("Host", i.Host)
	if i.PID != 0 {
		p.field("PID", strconv.Itoa(i.PID))
	}
	p.field("Address", i.Address)
	p.field("Labels", reason.Labels(i.Labels))
	p.field("Started", p.moment(i.StartedAt, time.UTC))
	p.field("Version", i.Program)
	p.field("Library", i.Version)
	session := d.SessionID
	if d.SessionTimeout != 0 {
		session += ", timeout " + plain.Exact(d.SessionTimeout)
	}
	p.field("Session", session)
	p.field("Handlers", strings.Join(d.Handlers, ", "))
	p.field("Slots", fmt.Sprintf("%s, weight %d", words.Owned(i), i.Weight))
	if i.MaxRunning > 0 {
		p.field("Runs", fmt.Sprintf("%d at once at most", i.MaxRunning))
	}
	if len(d.Slots) == 0 {
		return
	}
	t := p.table([]string{"NAME", "SINCE", "TOKEN", "RUN"})
	for _, slot := range d.Slots {
		run := slot.Error
		if slot.Run != nil {
			run = fmt.Sprintf("began %s, tick %s, attempt %d", p.ago(slot.Run.Started), p.moment(slot.Run.Tick, time.UTC), slot.Run.Attempt)
		}
		t.Row(slot.Name, p.ago(slot.Since), strconv.FormatInt(slot.Token, 10), run)
	}
	t.Write(p.Out, "  ")
}
