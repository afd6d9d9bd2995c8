package commands

import "testing"

// A need of places is given as a name, or with a number, and is refused if it is none.
func TestLimitFieldGolden(t *testing.T) {
	t.Parallel()
	onGroup(t, func(t *testing.T, h *harness) {
		t.Helper()
		golden(t, "limit-field", h.script([][]string{
			{"submit", "load", "@daily", "--handler", "report", "--limit", "crm-api=none"},
			{"submit", "load", "@daily", "--handler", "report", "--limit", "crm-api=0"},
			{"submit", "load", "@daily", "--handler", "report", "--limit", "crm-api=1001"},
			{"submit", "load", "@daily", "--handler", "report", "--limit", "_crm=1"},
			{"submit", "load", "@daily", "--handler", "report", "--limit", "crm-api", "--limit", "crm-api=2"},
		}))
	})
}
