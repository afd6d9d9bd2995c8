package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Limit is a limit of a group, with the runs that hold its places: see job.Job.Limits.
type Limit struct {
	Name string `json:"name"`
	// Max is how many places there are. Runs may hold more if it was lowered: none of them is ended.
	Max int `json:"max"`
	// Set names the files that have the limit, if some have.
	Set string `json:"set,omitempty"`
	// Jobs are those that name it, by name.
	Jobs []string `json:"jobs,omitempty"`
	// Held are the places that are taken, by number.
	Held []HeldPlace `json:"held,omitempty"`
	// Waiting are the instances of which runs wait for places, those that come next first.
	Waiting []WaitingInstance `json:"waiting,omitempty"`
	// Error is why the record cannot be read. Jobs that name the limit do not run.
	Error string `json:"error,omitempty"`
}

// HeldPlace is a place of a limit that is taken.
type HeldPlace struct {
	Place int       `json:"place"` // from 0
	Slot  string    `json:"job"`   // whose run holds it: a job, or a shard, such as "report[3]"
	Since time.Time `json:"since,omitzero"`
	// Leaked means that no open run has the place, so nobody gives it back: see Client.FreePlaces.
	// Client.Limits and Client.LimitsOf tell.
	Leaked bool `json:"leaked,omitempty"`

	czxid int64 // of the place
	tick  int32 // the version of the slot's tick record, of a place that is leaked; -1 if there is none
}

// WaitingInstance is an instance of which runs wait for places of a limit.
type WaitingInstance struct {
	InstanceID string    `json:"instance_id"`
	Since      time.Time `json:"since,omitzero"` // when the oldest of them was due, to the second
}

// LimitWait is a limit of which a run that is due waits for places.
type LimitWait struct {
	Limit string `json:"limit"`
	Needs int    `json:"needs"` // places that the run needs
	Max   int    `json:"max"`   // places that there are
	// Held are the places that are taken, by number.
	Held  []HeldPlace `json:"held,omitempty"`
	Since time.Time   `json:"since,omitzero"` // when the run was due
}

// Words is "limit crm-api: 2 of 2 held", or "2 places of limit crm-api: ...".
func (w LimitWait) Words() string {
	text := fmt.Sprintf("limit %s: %d of %d held", w.Limit, len(w.Held), w.Max)
	if w.Needs > 1 {
		text = fmt.Sprintf("%d places of %s", w.Needs, text)
	}
	return text
}

// Holders names the slots that hold places, each once: the first three, and how many others.
func Holders(held []HeldPlace) string {
	const most = 3
	var slots []string
	for _, place := range held {
		if !slices.Contains(slots, place.Slot) {
			slots = append(slots, place.Slot)
		}
	}
	if n := len(slots); n > most+1 {
		slots = append(slots[:most:most], fmt.Sprintf("%d more", n-most))
	}
	return strings.Join(slots, ", ")
}

// limits reads limits of those names but for their Jobs, sorted. Those that were deleted are left
// out, unless runs still hold places.
func (rd reader) limits(ctx context.Context, names []string) (list []Limit, err error) {
	slices.Sort(names)
	places, err := rd.places(ctx, names)
	if err != nil {
		return nil, err
	}
	err = rd.eachOf(ctx, rd.tree.Limits(), names, func(node child) {
		read, of := node.limit(), places[node.name]
		if read.Deleted && len(of.Held) == 0 {
			return
		}
		of.Name, of.Max, of.Set = node.name, read.Max, read.Set
		if read.Err != nil {
			of.Error = read.Err.Error()
		}
		list = append(list, of)
	})
	if err != nil {
		return nil, err
	}
	return list, rd.findLeaks(ctx, list)
}

// limit takes in the node of a limit.
func (c child) limit() zkrec.ReadLimit {
	if c.err != nil {
		return zkrec.ReadLimit{Version: c.stat.Version, Err: c.err}
	}
	return zkrec.NewLimit(c.data, c.stat.Version)
}

// places reads which places of limits are held, and who waits for some, by the limit's name.
func (rd reader) places(ctx context.Context, names []string) (map[string]Limit, error) {
	parents := make([]string, 0, 2*len(names))
	for _, name := range names {
		parents = append(parents, rd.tree.HeldPlaces(name), rd.tree.Waiting(name))
	}
	families, err := rd.below(ctx, parents...)
	if err != nil {
		return nil, err
	}
	all := make(map[string]Limit, len(names))
	for i, name := range names {
		held, waiting := families[2*i], families[2*i+1]
		if err := errors.Join(held.denied, waiting.denied); err != nil {
			return nil, err
		}
		var of Limit
		for _, node := range held.nodes {
			if p, ok := rd.tree.HeldPlaceAt(rd.tree.HeldPlaces(name) + "/" + node.name); ok { // others were made manually
				of.Held = append(of.Held, HeldPlace{Place: p.Number, Slot: string(node.data), Since: zkrec.UTC(node.stat.Ctime), czxid: node.stat.Czxid})
			}
		}
		slices.SortFunc(of.Held, func(a, b HeldPlace) int { return cmp.Compare(a.Place, b.Place) })
		slices.SortFunc(waiting.nodes, func(a, b child) int { return cmp.Compare(a.name, b.name) })
		for _, node := range waiting.nodes {
			if w, err := zkrec.ParseWaiter(node.name); err == nil {
				of.Waiting = append(of.Waiting, WaitingInstance{w.SID, time.Unix(w.Due, 0).UTC()})
			}
		}
		all[name] = of
	}
	return all, nil
}

// findLeaks finds the places that no open run has. A place and the record of its run are written
// together: a record that lacks the place while its node is the same before and after is no run's.
func (rd reader) findLeaks(ctx context.Context, list []Limit) error {
	var paths []string
	var held []*HeldPlace
	var limits []string
	for i := range list {
		for k := range list[i].Held {
			place := &list[i].Held[k]
			paths = append(paths, rd.tree.Tick(place.Slot))
			held, limits = append(held, place), append(limits, list[i].Name)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	results, err := rd.readMany(ctx, zkconn.ReadsOf(paths...))
	if err != nil {
		return err
	}
	var suspects []int
	for i, r := range results {
		of := zkrec.Place{Limit: limits[i], Number: held[i].Place}
		switch {
		case errors.Is(r.Err, zkconn.ErrNoNode):
			held[i].tick = -1
		case r.Err != nil || hasPlace(r, of):
			continue
		default:
			held[i].tick = r.Stat.Version
		}
		suspects = append(suspects, i)
	}
	if len(suspects) == 0 {
		return nil
	}
	paths = paths[:0]
	for _, i := range suspects {
		paths = append(paths, rd.tree.HeldPlace(zkrec.Place{Limit: limits[i], Number: held[i].Place}))
	}
	if results, err = rd.readMany(ctx, zkconn.ReadsOf(paths...)); err != nil {
		return err
	}
	for k, i := range suspects {
		held[i].Leaked = results[k].Err == nil && results[k].Stat.Czxid == held[i].czxid
	}
	return nil
}

// hasPlace reports whether the open run of a tick record has a place. One that cannot be read may.
func hasPlace(r zkconn.ReadResult, of zkrec.Place) bool {
	tick, err := zkrec.ParseTick(r.Data, r.Stat.Mtime)
	return err != nil || tick.Open() && slices.Contains(tick.Places.List(), of)
}
