package simkit

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Scenario is one simulation, drawn from a seed: the same seed gives the same run.
type Scenario interface {
	Run()
	// Failure is the first violation that Run found, or "".
	Failure() string
	// Record makes Run keep events, for Tell.
	Record()
	// Tell returns the profile that was drawn, and the last events that were recorded.
	Tell(lines int) string
}

// Test runs n scenarios, or the number or seeds that the flags ask for, and fails the test with the
// story of the first one that fails. It calls passed, which may be nil, for each of the others, one
// at a time. With a single seed it logs the story of a success, too. It returns how many scenarios
// ran.
func Test[S Scenario](t *testing.T, n int, scenario func(seed uint64) S, passed func(S)) int {
	t.Helper()
	n = Seeds(n)
	var mu sync.Mutex
	seed, failed := Search(n, func(seed uint64) bool {
		s := scenario(seed)
		s.Run()
		if s.Failure() != "" {
			return true
		}
		if passed != nil {
			mu.Lock()
			defer mu.Unlock()
			passed(s)
		}
		return false
	})
	if failed {
		t.Fatalf("%s\nreplay with -run '^%s$' -sim.base=%d -sim.seeds=1", replay(scenario(seed), seed), t.Name(), seed)
	}
	if n == 1 {
		t.Log(replay(scenario(Base()), Base()))
	}
	return n
}

// replay runs a scenario again and returns its failure, with the events before it.
func replay(s Scenario, seed uint64) string {
	s.Record()
	s.Run()
	failure := s.Failure()
	if failure == "" {
		failure = "no violation"
	}
	return fmt.Sprintf("seed %d: %s\n%s", seed, failure, s.Tell(Lines()))
}

// Caught fails the test unless one of the first seeds violates a property, and the first violation
// is of one of the wanted properties, such as "(1)".
func Caught[S Scenario](t *testing.T, within int, scenario func(seed uint64) S, properties ...string) {
	t.Helper()
	seed, failed := Search(within, func(seed uint64) bool {
		s := scenario(seed)
		s.Run()
		return s.Failure() != ""
	})
	if !failed {
		t.Fatalf("not caught within %d seeds", within)
	}
	s := scenario(seed)
	s.Run()
	violates := func(property string) bool { return strings.Contains(s.Failure(), property) }
	if !slices.ContainsFunc(properties, violates) {
		t.Fatalf("seed %d: %s, want a violation of %q", seed, s.Failure(), properties)
	}
	t.Logf("seed %d: %s", seed, s.Failure())
}

// Story is the part of a [Scenario] that tells its events. Its zero value records nothing.
type Story struct {
	// Profile is the scenario's drawn settings; the report of a failure shows it.
	Profile any

	recording bool
	failure   string
	subject   string // of the failure
	events    []event
}

type event struct{ subject, text string }

// Record makes Note keep events.
func (s *Story) Record() { s.recording = true }

// Recording reports whether events are kept.
func (s *Story) Recording() bool { return s.recording }

// Note keeps an event that concerns a subject, or all if that is "".
func (s *Story) Note(subject, text string) {
	if s.recording {
		s.events = append(s.events, event{subject, text})
	}
}

// Fail keeps the first violation, and its subject.
func (s *Story) Fail(subject, text string) {
	if s.failure == "" {
		s.failure, s.subject = text, subject
	}
}

// Failure is the first violation, or "".
func (s *Story) Failure() string { return s.failure }

// Tell returns the profile and the newest events, without events of subjects other than the one
// that failed.
func (s *Story) Tell(lines int) string {
	var told []string
	for _, e := range slices.Backward(s.events) {
		if len(told) < lines && (e.subject == "" || s.subject == "" || e.subject == s.subject) {
			told = append(told, e.text)
		}
	}
	slices.Reverse(told)
	return fmt.Sprintf("%+v\n%s", s.Profile, strings.Join(told, "\n"))
}
