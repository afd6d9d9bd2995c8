package catalog

import (
	"fmt"
	"testing"
)

// A calendar that was read takes a step for each job that names it, and none for the others: 100
// calendars beside 10,000 jobs would take a million at a start.
func TestNamedIndex(t *testing.T) {
	t.Parallel()
	const jobs, calendars, each = 10_000, 100, 3
	s := newNamed(nil)
	name := func(k int) string { return fmt.Sprintf("calendar%d", k%calendars) }
	var all []*Job
	for k := range jobs {
		j := &Job{Name: fmt.Sprintf("job%05d", k)}
		all = append(all, j)
		if s.index(j, nil); k < calendars*each {
			s.index(j, []string{name(k)})
			s.index(j, []string{name(k), name(k + 1)}) // another spec
		}
	}
	steps := func() (n int) {
		for _, one := range s.all {
			n += len(one.users())
		}
		return n
	}
	if n := steps(); n != 2*calendars*each || len(s.paths) != calendars*each {
		t.Errorf("all calendars take %d steps, and %d jobs are known, want %d and %d", n, len(s.paths), 2*calendars*each, calendars*each)
	}
	if users := s.all[name(7)].users(); len(users) != 2*each || users[0].Name != "job00006" || users[1].Name != "job00007" {
		t.Errorf("the calendar of the jobs 6 and 7 has %d users, the first ones %s and %s", len(users), users[0].Name, users[1].Name)
	}
	for _, j := range all {
		s.index(j, nil) // it has gone, or names none any more
	}
	if n := steps(); n != 0 || len(s.paths) != 0 {
		t.Errorf("without jobs: %d steps, %d jobs are known", n, len(s.paths))
	}
}
