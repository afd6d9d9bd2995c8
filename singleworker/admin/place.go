package admin

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// place is where an instance is, and what is excluded from where.
type place struct {
	record   zkrec.Instance
	excluded zkrec.Exclusions
}

// setPlace takes in what an instance says of itself, and the orders for one job, or for its host.
func (i *Instance) setPlace(record zkrec.Instance, excluded zkrec.Exclusions) {
	i.place = place{record, excluded}
	i.Labels, i.Address = record.Labels, record.Address
	if i.State == InstanceNone {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(excluded)) {
		x := excluded.Of(name, i.ID, i.Host)
		switch {
		case x == nil:
		case name != "":
			i.JobOrders = append(i.JobOrders, orderOfExclusion(*x))
		case i.Order == nil:
			order := orderOfExclusion(*x)
			i.Order = &order
			if i.State == InstanceActive {
				i.State = InstanceDraining // it will say so in a moment
			}
		}
	}
}

// obstacle says why an instance that has the handler of a job may not run it, or "".
func (i Instance) obstacle(j job.Job) string {
	if i.State == InstanceUnreadable { // nothing is known of it
		return ""
	}
	excluded := new(zkrec.ExcludedError)
	switch err := zkrec.MayRun(&j, i.ID, &i.place.record, i.place.excluded); {
	case err == nil:
		return ""
	case errors.Is(err, zkrec.ErrLabels):
		return "lacks " + reason.Labels(missing(j.Require, i.Labels))
	case errors.Is(err, zkrec.ErrUnlisted):
		return "is not one of the job's instances"
	case errors.Is(err, zkrec.ErrOldReader):
		return "is of an older version, which cannot tell where the job may run"
	case errors.As(err, &excluded) && excluded.Exclusion.Host != "":
		return "is on host " + excluded.Exclusion.Host + ", where the job is disabled"
	default:
		return "is disabled for the job"
	}
}

// missing is those of the labels that others lack.
func missing(labels, others map[string]string) map[string]string {
	lacking := maps.Clone(labels)
	maps.DeleteFunc(lacking, func(key, value string) bool { has, found := others[key]; return found && has == value })
	return lacking
}

// exclusionsIn parses the orders for one job, or for a host. A record that is no such order binds
// nobody, and is left out.
func exclusionsIn(nodes []child) zkrec.Exclusions {
	excluded := zkrec.Exclusions{}
	for _, node := range nodes {
		if x, err := zkrec.ParseExclusion(node.name, node.data); err == nil && node.err == nil {
			excluded[x.Job] = append(excluded[x.Job], x)
		}
	}
	for _, of := range excluded {
		slices.SortFunc(of, func(a, b zkrec.Exclusion) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.SID, b.SID)) })
	}
	return excluded
}

func ordersOf(excluded zkrec.Exclusions) (orders []Order) {
	for _, name := range slices.Sorted(maps.Keys(excluded)) {
		for _, x := range excluded[name] {
			orders = append(orders, orderOfExclusion(x))
		}
	}
	return orders
}

func orderOfExclusion(x zkrec.Exclusion) Order {
	return Order{InstanceID: x.SID, Host: x.Host, Job: x.Job, By: x.By, Reason: x.Reason, At: zkrec.UTC(x.At)}
}
