package web

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// instanceRow is an instance in a table.
type instanceRow struct {
	ID, Link, Owned, Host, Version, Weight, Address, Labels string
	State                                                   state
	PID                                                     int
	Started                                                 stamp
	Clock                                                   string // how far it is from ZooKeeper's
	Handlers                                                string // those that jobs need
	Conditions                                              []reason.Condition
}

func instanceRowOf(i admin.Instance, l look) instanceRow {
	row := instanceRow{
		ID: i.ID, Link: instanceLink(i.ID), Owned: words.Owned(i), Host: i.Host, PID: i.PID, Version: cmp.Or(i.Program, i.Version), Labels: reason.Labels(i.Labels),
		Weight: strconv.Itoa(i.Weight), Address: i.Address, Started: l.stamp(i.StartedAt), Conditions: words.OfInstance(i, l.now),
	}
	row.State = instanceState(i, row.Conditions)
	if off := i.ClockOffset; off != nil {
		sign := "+"
		if *off < 0 {
			sign = "−"
		}
		row.Clock = sign + plain.Span(off.Abs())
	}
	return row
}

// goneRow is an instance that has left.
type goneRow struct {
	ID, Host, How         string
	Gone, Started, Signed stamp
}

func (p *pages) instances(r *http.Request, s *snapshot) (view, error) {
	l := p.look(r)
	gone, err := p.group.gone(r.Context())
	if err != nil {
		return view{}, err
	}
	type body struct {
		Rows   []instanceRow
		Gone   []goneRow
		Orders []string
	}
	var b body
	for _, g := range gone {
		b.Gone = append(b.Gone, goneRow{g.ID, g.Host, words.HowGone(g), l.stamp(g.At), l.stamp(g.StartedAt), l.stamp(g.LastSign)})
	}
	has := make(map[string]map[string]bool) // handlers of instances
	for _, job := range s.jobs {
		for _, id := range job.Registered {
			if has[id] == nil {
				has[id] = make(map[string]bool)
			}
			has[id][job.Job.Handler] = true
		}
	}
	for _, i := range s.instances {
		row := instanceRowOf(i, l)
		row.Handlers = clip(strings.Join(slices.Sorted(maps.Keys(has[i.ID])), ", "))
		b.Rows = append(b.Rows, row)
	}
	for _, o := range s.orders {
		of := o.InstanceID
		if o.Host != "" {
			of = "host " + o.Host
		}
		b.Orders = append(b.Orders, of+" is disabled"+words.Order(o, l.now))
	}
	return view{Template: "instances", Title: "Instances", look: l, Body: b}, nil
}

func (p *pages) instance(r *http.Request, _ *snapshot) (view, error) {
	d, err := p.group.instance(r.Context(), r.FormValue("id"))
	if err != nil {
		return view{}, err
	}
	l := p.look(r)
	type slot struct {
		Name, Link, Run string
		Since           stamp
	}
	type body struct {
		instanceRow

		Session, Timeout string
		Handlers         []string
		Slots            []slot
		More             int
		Actions          *offered
	}
	var verbs []string
	switch o := d.Instance.Order; {
	case o == nil:
		verbs = append(verbs, "drain")
	case o.Host == "":
		verbs = append(verbs, "enable")
	}
	b := body{
		instanceRow: instanceRowOf(d.Instance, l), Session: d.SessionID, Timeout: plain.Exact(d.SessionTimeout), Handlers: d.Handlers,
		More: max(0, len(d.Slots)-perPage), Actions: p.rights.offers(r, "instances", d.Instance.ID, verbs...),
	}
	for _, o := range d.Slots[:min(len(d.Slots), perPage)] {
		one := slot{Name: o.Name, Link: jobLink(o.Name), Run: o.Error, Since: l.stamp(o.Since)}
		if o.Run != nil {
			one.Run = words.LastRun(o.Run, l.now)
		}
		b.Slots = append(b.Slots, one)
	}
	return view{Template: "instance", Title: d.Instance.ID, look: l, Body: b}, nil
}
