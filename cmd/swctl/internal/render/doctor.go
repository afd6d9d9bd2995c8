package render

import (
	"github.com/swjobs/singleworker/singleworker/admin/doctor"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
)

// Checks lists checks. Below one that is not fine stands what to do.
func (p Page) Checks(checks []doctor.Check) {
	for _, c := range checks {
		result := c.Severity.String()
		if c.Severity == reason.Fine {
			result = "ok"
		}
		p.linef("%-8s %s: %s", result, c.Name, c.Sentence)
		if c.Remedy != "" {
			p.linef("         try: %s", c.Remedy)
		}
	}
}
