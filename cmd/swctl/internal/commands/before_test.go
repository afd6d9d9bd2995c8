package commands

import "testing"

// A job whose shards wait for BeforeTick says so, and how it is set and removed.
func TestBeforeTickGolden(t *testing.T) {
	t.Parallel()
	onGroup(t, func(t *testing.T, h *harness) {
		t.Helper()
		golden(t, "before-tick", h.script([][]string{
			{"submit", "load", "@daily", "--handler", "report", "--before-tick", "empty"},
			{"submit", "load", "@manually", "--handler", "report", "--shards", "2", "--before-tick", "empty"},
			{"submit", "load", "@daily", "--handler", "report", "--shards", "2", "--before-tick", "_empty"},
			{"submit", "load", "@daily", "--handler", "report", "--shards", "2", "--before-tick", "empty", "--dry-run"},
			{"submit", "load", "@daily", "--handler", "report", "--shards", "2", "--before-tick", "report"},
			{"list"},
			{"set", "load", "--before-tick", "empty", "--dry-run"},
			{"set", "load", "--drop-before-tick", "--dry-run"},
			{"cancel", "load", "--yes"},
		}))
	})
}
