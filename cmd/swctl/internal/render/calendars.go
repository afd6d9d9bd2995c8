package render

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// Calendars is a table of calendars.
func (p Page) Calendars(list []admin.Calendar) {
	t := p.table([]string{"NAME", "SINCE", "JOBS", "CALENDAR"})
	for _, of := range list {
		is := words.Calendar(of.Is)
		if of.Error != "" {
			is = of.Error
		}
		t.Row(of.Name, p.at(of.Since, time.UTC), strconv.Itoa(len(of.Jobs)), is)
	}
	t.Write(p.Out, "")
}

// Calendar is a calendar as a file, with the rest in comments.
func (p Page) Calendar(of admin.Calendar) {
	if p.linef("# %s, since %s", of.Name, p.at(of.Since, time.UTC)); of.Error != "" {
		p.linef("# cannot be read: %s", of.Error)
	}
	if len(of.Jobs) > 0 {
		p.linef("# jobs: %s", strings.Join(of.Jobs, ", "))
	}
	for _, was := range of.Former {
		p.linef("# since %s: %s", p.at(was.Since, time.UTC), words.Calendar(was.Is))
	}
	if of.Is.TimeZone != "" {
		p.linef("time_zone: %q", of.Is.TimeZone)
	}
	for _, part := range []struct {
		name string
		of   []string
	}{{"dates", of.Is.Dates}, {"yearly", of.Is.Yearly}, {"weekdays", of.Is.Weekdays}, {"hours", of.Is.Hours}} {
		if list, err := json.Marshal(part.of); err == nil && len(part.of) > 0 { // which is YAML, too
			p.linef("%s: %s", part.name, list)
		}
	}
}
