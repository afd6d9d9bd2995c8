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

// Whom a job tells about itself, and when its run counts as hung, is set and removed like anything
// else.
func TestNotifyFieldGolden(t *testing.T) {
	t.Parallel()
	onGroup(t, func(t *testing.T, h *harness) {
		t.Helper()
		golden(t, "notify-field", h.script([][]string{
			{"submit", "load", "@daily", "--handler", "report", "--notify", "ops"},
			{"submit", "load", "@daily", "--handler", "report", "--notify", "ops=broken"},
			{"submit", "load", "@daily", "--handler", "report", "--notify", "https://example.com/hook=all"},
			{"submit", "load", "@always", "--handler", "report", "--hung-after", "1h"},
			{"submit", "load", "@daily", "--handler", "report", "--hung-after", "0"},
			{"submit", "load", "@daily", "--handler", "report", "--notify", "ops=all", "--notify", "dev=failed,recovered", "--hung-after", "90m", "--dry-run"},
			{"submit", "load", "@daily", "--handler", "report", "--notify", "ops=all", "--notify", "dev=failed,recovered", "--hung-after", "90m"},
			{"show", "load"},
			{"set", "load", "--notify", "dev=hung", "--hung-after", "none", "--dry-run"},
			{"set", "load", "--drop-notify", "ops", "--drop-hung-after", "--dry-run"},
			{"cancel", "load", "--yes"},
		}))
	})
}
