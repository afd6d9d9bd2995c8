package zkrec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/swjobs/singleworker/singleworker/job"
)

// Limit is how many places there are for runs of the jobs that name it, the data of a node. Below
// that is a node for each place that is taken: two runs that take different ones do not compete for
// a node, and ZooKeeper's log has how many were taken at each moment.
type Limit struct {
	Schema int `json:"schema"`
	// Max is the number of places. Runs that hold places beyond it, because it was more, keep them
	// until they end.
	Max int `json:"max"`
	// Set names the files that have the limit, as of a job.
	Set string `json:"set,omitempty"`
	// Deleted: no job can use it. Its node stays, so that runs in progress can give back what they
	// hold, and so that its versions go on when it is made again.
	Deleted bool `json:"deleted,omitempty"`

	unknown Unknown
}

// Encode returns the node's data.
func (l Limit) Encode() []byte {
	l.Schema = Schema
	return l.unknown.Encode(l)
}

func parseLimit(data []byte) (l Limit, err error) {
	if err := parsed("limit", data, l.unknown.Decode(data, &l), &l.Schema); err != nil {
		return Limit{}, err
	}
	return l, job.CheckMax(l.Max)
}

// Limits is the parent of the group's limits.
func (t Tree) Limits() string { return t.root + "/" + limitsNode }

// Limit is the node of one.
func (t Tree) Limit(name string) string { return t.Limits() + "/" + name }

// LimitAt is the name of the limit whose node a path is.
func (t Tree) LimitAt(path string) (name string, ok bool) {
	name, below := strings.CutPrefix(path, t.Limits()+"/")
	return name, below && !strings.Contains(name, "/")
}

// IsNamed reports whether a path is of a node that jobs name: a calendar or a limit.
func (t Tree) IsNamed(path string) bool {
	_, calendar := t.CalendarAt(path)
	_, limit := t.LimitAt(path)
	return calendar || limit
}

// Named are the paths of the nodes that the spec names: calendars and limits.
func (s Spec) Named(tree Tree) (paths []string) {
	for _, name := range s.CalendarNames() {
		paths = append(paths, tree.Calendar(name))
	}
	for _, name := range s.Job.LimitNames() {
		paths = append(paths, tree.Limit(name))
	}
	return paths
}

// ReadLimit is a limit as it was read.
type ReadLimit struct {
	Limit

	Version int32
	Err     error // why it cannot be used
}

// ReadLimits are limits of a group by name, as they were read. A job may name others.
type ReadLimits map[string]ReadLimit

// NewLimit takes in the data of a limit's node.
func NewLimit(data []byte, version int32) (read ReadLimit) {
	read.Version = version
	read.Limit, read.Err = parseLimit(data)
	return read
}

// Why a job that names a limit is invalid.
var (
	errNoLimit      = errors.New("is no limit of the group: swctl limits set makes it")
	errDeletedLimit = errors.New("is a limit that was deleted: swctl limits set makes it again")
)

// Refuse says why a job cannot run with these limits, as an *invalid.FieldError. A limit that is
// missing never means that there is none.
func (l ReadLimits) Refuse(j job.Job) error {
	for _, name := range j.LimitNames() {
		read, found := l[name]
		switch need := j.Limits[name]; {
		case !found:
			return job.Invalid("Limits", name, errNoLimit)
		case read.Err != nil:
			return job.Invalid("Limits", name, fmt.Errorf("cannot be read: %w", read.Err))
		case read.Deleted:
			return job.Invalid("Limits", name, errDeletedLimit)
		case need > read.Max:
			return job.Invalid("Limits", name, fmt.Errorf("has %d places, and the job needs %d", read.Max, need))
		}
	}
	return nil
}

// Versions are the versions of the limits that a spec names, if they are there.
func (l ReadLimits) Versions(tree Tree, s Spec) (all NodeVersions) {
	for _, name := range s.Job.LimitNames() {
		if read, found := l[name]; found {
			all = all.With(tree.Limit(name), read.Version, 0, 0)
		}
	}
	return all
}

const (
	heldNode    = "held"
	waitingNode = "waiting"
)

// HeldPlaces is the parent of the places of a limit that are taken.
func (t Tree) HeldPlaces(limit string) string { return t.Limit(limit) + "/" + heldNode }

// HeldPlace is the node of a place that is taken. Its data names the slot whose run holds it.
func (t Tree) HeldPlace(p Place) string {
	return t.HeldPlaces(p.Limit) + "/" + strconv.Itoa(p.Number)
}

// Waiting is the parent of the nodes of the instances that wait for places.
func (t Tree) Waiting(limit string) string { return t.Limit(limit) + "/" + waitingNode }

// Waiter is the node of an instance that waits for places.
func (t Tree) Waiter(limit, name string) string { return t.Waiting(limit) + "/" + name }

// BelowLimit is the name of the limit below whose node a path is.
func (t Tree) BelowLimit(path string) (name string, ok bool) {
	name, below := strings.CutPrefix(path, t.Limits()+"/")
	name, _, deeper := strings.Cut(name, "/")
	return name, below && deeper
}

// Waiter is an instance with slots that wait for a limit's places. Its node, which is ephemeral,
// has a name that says it all, so that a list of names is the line.
type Waiter struct {
	Due  int64 // since when a run of its oldest slot is due, in Unix seconds
	Need int   // places that this run needs
	SID  string
}

// Name is the name of the node. Names sort as instances wait.
func (w Waiter) Name() string { return fmt.Sprintf("%012d-%d-%s", w.Due, w.Need, w.SID) }

// ParseWaiter is the inverse of Name.
func ParseWaiter(name string) (w Waiter, err error) {
	parts := strings.SplitN(name, "-", 3)
	if len(parts) == 3 {
		due, noDue := strconv.ParseInt(parts[0], 10, 64)
		need, noNeed := strconv.Atoi(parts[1])
		w = Waiter{due, need, parts[2]}
		if noDue == nil && noNeed == nil && w.Name() == name {
			return w, nil
		}
	}
	return Waiter{}, fmt.Errorf("node %q is of no instance that waits for a limit", excerpt([]byte(name)))
}

// HeldPlaceAt is the place whose node a path is.
func (t Tree) HeldPlaceAt(path string) (p Place, ok bool) {
	name, ok := t.BelowLimit(path)
	number, below := strings.CutPrefix(path, t.HeldPlaces(name)+"/")
	if !ok || !below {
		return Place{}, false
	}
	p, err := parsePlace(name + "/" + number)
	return p, err == nil
}

// Place is one of a limit's places, from 0.
type Place struct {
	Limit  string
	Number int
}

// Places are the places that an open run holds, each a line. They can be compared. Most runs hold
// none.
type Places string

// PlacesOf has the places in that order.
func PlacesOf(places ...Place) Places {
	var text strings.Builder
	for _, p := range places {
		fmt.Fprintf(&text, "%s/%d\n", p.Limit, p.Number)
	}
	return Places(text.String())
}

// List is the places.
func (p Places) List() (places []Place) {
	for line := range strings.Lines(string(p)) {
		if place, err := parsePlace(line); err == nil {
			places = append(places, place)
		}
	}
	return places
}

// Meet reports whether the places are those that a run needs.
func (p Places) Meet(needs map[string]int) bool {
	if p == "" {
		return len(needs) == 0
	}
	count := make(map[string]int, len(needs))
	for _, place := range p.List() {
		count[place.Limit]++
	}
	return maps.Equal(count, needs)
}

// Without are the places that are not among others.
func (p Places) Without(others Places) (places []Place) {
	if p == others {
		return nil
	}
	are := others.List()
	return slices.DeleteFunc(p.List(), func(place Place) bool { return slices.Contains(are, place) })
}

func (p Places) check() error {
	for line := range strings.Lines(string(p)) {
		if _, err := parsePlace(line); err != nil {
			return fmt.Errorf("place %q: %w", excerpt([]byte(line)), err)
		}
	}
	return nil
}

func parsePlace(line string) (p Place, err error) {
	name, number, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "/")
	if err := job.CheckNodeName(name); err != nil {
		return Place{}, err
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= job.MaxPlaces {
		return Place{}, fmt.Errorf("want a number from 0 to %d", job.MaxPlaces-1)
	}
	return Place{name, n}, nil
}
