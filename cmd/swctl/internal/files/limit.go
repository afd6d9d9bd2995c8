package files

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// kindLimit is the kind of a document that has a limit.
const kindLimit = "Limit"

// Limit is a limit as a document has it.
type Limit struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	Max  int    `json:"max"`
}

// LimitOf is the document of a limit of a group.
func LimitOf(of admin.Limit) Limit { return Limit{kindLimit, of.Name, of.Max} }

// LimitEntry is a limit as a file has it.
type LimitEntry struct {
	Place
	Limit
}

// besideLimit are the keys that swctl prints beside a limit.
var besideLimit = namesOf(reflect.TypeFor[admin.Limit]())

// limit takes in a limit.
func (r *reader) limit(n *yaml.Node) {
	e, before := LimitEntry{Place: r.at(n)}, len(r.problems)
	at := e.Place
	for key, value := range pairs(n) {
		switch {
		case key.Value == keyVersion || key.Value == keyKind:
			r.heading(key, value, kindLimit)
		case key.Value == "name" && value.Kind == yaml.ScalarNode:
			e.Name = value.Value
		case key.Value == "max":
			if at = r.at(value); json.Unmarshal(asJSON(nil, value), &e.Max) != nil {
				r.problemf(at, "max: want a number of places")
			}
		case !slices.Contains(besideLimit, key.Value):
			r.problemf(r.at(key), "%s is not a key of a %s: want name and max", key.Value, kindLimit)
		}
	}
	if err := job.CheckNodeName(e.Name); err != nil {
		r.problemf(e.Place, "name %q: %v", e.Name, err)
	}
	if err := job.CheckMax(e.Max); err != nil && len(r.problems) == before {
		r.problemf(at, "max: %v", err)
	}
	if r.once(kindLimit, e.Name, e.Place); len(r.problems) == before {
		r.found.Limits = append(r.found.Limits, e)
	}
}

// planLimits says which limits to set, and which to delete afterwards.
func (opts Options) planLimits(entries []LimitEntry, have []admin.Limit) (set, prune []Step) {
	for _, e := range entries {
		set = append(set, Step{Name: e.Name, Place: e.String(), Max: e.Max})
	}
	left := map[string]known[admin.Limit]{}
	for _, was := range have {
		left[was.Name] = known[admin.Limit]{was, was.Set, was.Error}
	}
	return planNamed(opts, kindLimit, set, left, func(s *Step, was admin.Limit) {
		if was.Max != s.Max {
			s.differs("max", strconv.Itoa(was.Max), strconv.Itoa(s.Max))
		}
	})
}
