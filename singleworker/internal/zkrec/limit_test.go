package zkrec

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/job"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	limits := ReadLimits{
		"api":     NewLimit(Limit{Max: 2}.Encode(), 7),
		"deleted": NewLimit(Limit{Max: 2, Deleted: true}.Encode(), 1),
		"spoiled": NewLimit([]byte(`{"max":`), 1),
		"empty":   NewLimit([]byte("{}"), 1),
		"newer":   NewLimit([]byte(`{"schema":999,"max":2}`), 1),
	}
	for name, want := range map[string]string{
		"api": "has 2 places, and the job needs 3", "deleted": "was deleted", "spoiled": "cannot be read", "empty": "cannot be read", "newer": "cannot be read",
		"missing": "is no limit of the group",
	} {
		if err := limits.Refuse(job.Job{Limits: map[string]int{name: 3}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a job that needs 3 places of %s: %v, want that it %s", name, err, want)
		}
	}
	for _, is := range []job.Job{{}, {Limits: map[string]int{"api": 2}}} {
		if err := limits.Refuse(is); err != nil {
			t.Error(err)
		}
	}
	tree := NewTree("apps/g")
	spec := Spec{Job: job.Job{Limits: map[string]int{"missing": 1, "api": 1}}}
	if got := maps.Collect(limits.Versions(tree, spec).Nodes()); len(got) != 1 || got[tree.Limit("api")] != 7 {
		t.Errorf("a decision rests on %v", got)
	}
	if kept := NewLimit([]byte(`{"max":2,"colour":"red"}`), 1); string(kept.Encode()) != `{"schema":1,"max":2,"colour":"red"}` {
		t.Errorf("written again as %s", kept.Encode())
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	all := PlacesOf(Place{"api", 3}, Place{"db", 0}, Place{"api", 0})
	needs := map[string]int{"api": 2, "db": 1}
	if err := all.check(); err != nil || !all.Meet(needs) || all.Meet(map[string]int{"api": 2}) || Places("").Meet(needs) || !Places("").Meet(nil) {
		t.Errorf("%q: %v", all, err)
	}
	if got := all.Without(PlacesOf(Place{"api", 0}, Place{"db", 1})); !slices.Equal(got, []Place{{"api", 3}, {"db", 0}}) {
		t.Errorf("without one: %v", got)
	}
	for _, text := range []Places{"api", "api/", "api/x", "api/-1", "api/1000", "/1", "a/b/1"} {
		if text.check() == nil {
			t.Errorf("%q are places", text)
		}
	}
	tree := NewTree("apps/g")
	if got, is := tree.HeldPlaceAt(tree.HeldPlace(Place{"api", 12})); !is || got != (Place{"api", 12}) {
		t.Errorf("a place's node is of %v, %v", got, is)
	}
	for _, path := range []string{tree.Limit("api"), tree.HeldPlaces("api"), tree.Waiter("api", "1"), tree.HeldPlaces("api") + "/x", tree.Job("job")} {
		if got, is := tree.HeldPlaceAt(path); is {
			t.Errorf("%s is the place %v", path, got)
		}
	}
}

func TestWaiters(t *testing.T) {
	t.Parallel()
	w := Waiter{Due: 1_800_000_000, Need: 2, SID: "app-1-x"}
	if got, err := ParseWaiter(w.Name()); err != nil || got != w {
		t.Errorf("%+v, %v", got, err)
	}
	younger := Waiter{Due: 1_800_000_001, Need: 1, SID: "a"}
	if younger.Name() < w.Name() {
		t.Error("a younger one is before an older one")
	}
	for _, name := range []string{"", "1-1-a", "001800000000-01-a", "001800000000-1", "x-1-a"} {
		if got, err := ParseWaiter(name); err == nil {
			t.Errorf("%q is of %+v", name, got)
		}
	}
}
