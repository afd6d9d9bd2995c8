package commands

import "testing"

// A job that runs on every instance is one row, and its parts go by the names of the instances.
func TestEverywhereGolden(t *testing.T) {
	t.Parallel()
	onGroup(t, func(t *testing.T, h *harness) {
		t.Helper()
		golden(t, "everywhere", h.script([][]string{
			{"submit", "flush", "@daily", "--handler", "report", "--everywhere"},
			{"list"},
			{"trigger", "flush", "--wait"},
			{"trigger", "flush/app-2", "--wait"},
			{"why", "flush/app-1"},
			{"set", "flush", "--shards", "2"},
			{"submit", "flush", "@daily", "--handler", "report", "--replace"},
			{"show", "flush/app-9"},
			{"cancel", "flush", "--yes"},
		}))
	})
}
