package once

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
)

// With real databases, the package is tested by cmd/swctl/swctl-sql, which has their drivers.

func TestKeys(t *testing.T) {
	t.Parallel()
	run := singleworker.Run{Group: "billing", Job: "daily", Slot: "daily[3]", Tick: time.UnixMilli(86_400_000), Token: 7}
	before, asked, alone := run, run, run
	before.BeforeTick = true
	asked.Request = "q1"
	alone.Group, alone.Slot = "", ""
	for _, test := range []struct {
		run  singleworker.Run
		step string
		want key
		text string
	}{
		{run, "", key{"billing", "daily[3]", 86_400_000, "", ""}, "daily[3] of 1970-01-02T00:00:00Z"},
		{run, "/page-3", key{"billing", "daily[3]", 86_400_000, "", "/page-3"}, "daily[3] of 1970-01-02T00:00:00Z, step page-3"},
		{before, "", key{"billing", "daily[3]", 86_400_000, "", "before"}, "daily[3] of 1970-01-02T00:00:00Z, BeforeTick"},
		{before, "/page-3", key{"billing", "daily[3]", 86_400_000, "", "before/page-3"}, "daily[3] of 1970-01-02T00:00:00Z, BeforeTick, step page-3"},
		{asked, "", key{"billing", "daily[3]", 86_400_000, "q1", ""}, "daily[3] of 1970-01-02T00:00:00Z, request q1"},
		{alone, "", key{"", "daily", 86_400_000, "", ""}, "daily of 1970-01-02T00:00:00Z"},
	} {
		got, err := keyOf(&test.run, test.step)
		if err != nil || got != test.want || got.String() != test.text {
			t.Errorf("%+v, %q: %v; want %+v, %q", got, got.String(), err, test.want, test.text)
		}
	}
	for _, change := range []func(*singleworker.Run){
		func(r *singleworker.Run) { r.Job = "" }, func(r *singleworker.Run) { r.Tick = time.Time{} }, func(r *singleworker.Run) { r.Token = 0 },
	} {
		broken := run
		change(&broken)
		if _, err := keyOf(&broken, ""); err == nil {
			t.Errorf("%+v has a key", broken)
		}
	}
}

func TestDialects(t *testing.T) {
	t.Parallel()
	for d, want := range map[Dialect]string{
		Postgres: "INSERT INTO once_fences (group_name, slot, token, pruned_ms) VALUES ($1,$2,$3,0) " +
			"ON CONFLICT (group_name, slot) DO UPDATE SET token=GREATEST(once_fences.token,$4)",
		MySQL:  "INSERT INTO once_fences (group_name, slot, token, pruned_ms) VALUES (?,?,?,0) ON DUPLICATE KEY UPDATE token=GREATEST(token,?)",
		SQLite: "INSERT INTO once_fences (group_name, slot, token, pruned_ms) VALUES (?,?,?,0) ON CONFLICT (group_name, slot) DO UPDATE SET token=MAX(token,?)",
	} {
		if got := d.raise(); got != want {
			t.Errorf("%v: %s\nwant %s", d, got, want)
		}
		if d.String() == "" || len(d.Schema()) != 4 || strings.Contains(strings.Join(d.Schema(), " "), "%!") {
			t.Errorf("%v: %q", d, d.Schema())
		}
	}
	// What InnoDB has for a key, with the lengths of its five texts.
	if bytes := 4*(nameSize+slotSize) + 2*wordSize + 8 + 5*2; bytes > 3072 {
		t.Errorf("the key of a marker may have %d bytes", bytes)
	}
	if size := len("before/") + maxStep; size > wordSize {
		t.Errorf("a step may have %d bytes", size)
	}
	for _, d := range []Dialect{0, SQLite + 1} {
		if _, err := New(nil, d); err == nil {
			t.Errorf("%v is taken", d)
		}
	}
}

func TestDoneError(t *testing.T) {
	t.Parallel()
	err := error(&DoneError{Work: "daily of 1970-01-02T00:00:00Z", RunID: "r1", InstanceID: "app-2", At: time.UnixMilli(86_400_500).UTC()})
	const want = "once: daily of 1970-01-02T00:00:00Z was done by run r1 on app-2 at 1970-01-02T00:00:00Z"
	if err.Error() != want || !errors.Is(err, ErrDone) || errors.Is(err, ErrFenced) {
		t.Errorf("%v, want %s, which is ErrDone", err, want)
	}
}

// A name that cannot be kept is refused before anything else.
func TestStepNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "page 3", "ä", "\x7f", strings.Repeat("x", maxStep+1)} {
		err := Step(t.Context(), nil, &singleworker.Run{Job: "daily"}, name, func(*sql.Tx) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "of daily is called") {
			t.Errorf("a step %q: %v", name, err)
		}
	}
}
