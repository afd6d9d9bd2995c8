package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

func (f *fakeClient) Calendars(ctx context.Context) ([]admin.Calendar, error) {
	return []admin.Calendar{
		{
			Name: "de-holidays", Is: job.Calendar{TimeZone: "Europe/Berlin", Yearly: []string{"12-25..12-26"}, Dates: []string{"2026-12-24"}},
			Since: testNow.Add(-time.Hour), Jobs: []string{"nightly"},
			Former: []admin.FormerCalendar{{Is: job.Calendar{Yearly: []string{"12-25..12-26"}}, Since: testNow.AddDate(0, -1, 0)}},
		},
		{Name: "spoilt", Error: "calendar \"x\": not JSON", Jobs: []string{}},
	}, f.begin(ctx, "Calendars")
}

func (f *fakeClient) SetCalendar(ctx context.Context, name string, is job.Calendar, opts admin.NamedOptions) (admin.NamedChange, error) {
	return admin.NamedChange{Outcome: admin.OutcomeReplaced, Name: name, Jobs: []string{"nightly"}},
		errors.Join(is.Validate(), f.begin(ctx, fmt.Sprintf("SetCalendar %s %v %v", name, is, opts.DryRun)))
}

func (f *fakeClient) DeleteCalendar(ctx context.Context, name string, opts admin.NamedOptions) (admin.NamedChange, error) {
	return admin.NamedChange{Outcome: admin.OutcomeDeleted, Name: name, Jobs: []string{}}, f.begin(ctx, fmt.Sprintf("DeleteCalendar %s %v", name, opts.DryRun))
}

func TestCalendarsGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	texts := []string{
		h.transcript("calendars"), h.transcript("calendars", "-o", "json"), h.transcript("calendars", "show", "de-holidays"), h.transcript("calendars", "show", "spoilt"),
		h.transcript("calendars", "show", "de-holidays", "-o", "json"), h.transcript("calendars", "show", "none"), h.transcript("calendars", "show"),
		h.transcript("calendars", "delete", "old"), h.transcript("calendars", "delete", "old", "--dry-run", "-o", "json"), h.transcript("calendars", "set", "old"),
	}
	h.fake.fail["DeleteCalendar de-holidays false"] = fmt.Errorf("calendar de-holidays: %w: nightly", admin.ErrInUse)
	texts = append(texts, h.transcript("calendars", "delete", "de-holidays"))
	for _, input := range []string{
		"time_zone: Europe/Berlin\ndates: [2026-12-24, 2026-12-27..2027-01-02]\nyearly: [\"12-25\"]\nweekdays: [sat..sun]\nhours: [\"09:00..17:30\"]\n",
		`{"weekdays": ["sat", "sun"]}`, "weekdays: [someday]\n", "weekday: [sat]\n", "{}", "dates: [2026-12-24]\n---\ndates: [2026-12-25]\n",
	} {
		h.Stdin = strings.NewReader(input)
		texts = append(texts, input+"\n"+h.transcript("calendars", "set", "de-holidays", "-", "--dry-run"))
	}
	golden(t, "calendars", strings.Join(texts, "\n"))
}

// Set reads the text that show prints.
func TestCalendarShowIsAFile(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	if code := h.exec("calendars", "show", "de-holidays"); code != 0 {
		t.Fatal(h.errs.String())
	}
	path := filepath.Join(t.TempDir(), "holidays.yaml")
	if err := os.WriteFile(path, h.out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := h.fake.Calendars(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("SetCalendar de-holidays %v false", list[0].Is)
	if code := h.exec("calendars", "set", "de-holidays", path); code != 0 || !slices.Contains(h.fake.calls, want) {
		t.Errorf("exit %d, calls %q, want %q: %s", code, h.fake.calls, want, h.errs.String())
	}
}

// Next shows the times that are left out, and by which calendar.
func TestNextLeftOutGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	is, err := job.CalendarTimes{}.Add(testNow, job.Calendar{TimeZone: "Europe/Berlin", Dates: []string{"2026-11-23..2026-11-24"}})
	if err != nil {
		t.Fatal(err)
	}
	work, err := job.CalendarTimes{}.Add(testNow, job.Calendar{Weekdays: []string{"mon..fri"}})
	if err != nil {
		t.Fatal(err)
	}
	j := job.Job{Name: "nightly", Schedule: "30 2 * * *", TimeZone: "Europe/Berlin", Calendars: []string{"-de-holidays", "workdays"}}.WithDefaults()
	h.fake.jobs["nightly"] = admin.JobStatus{Name: "nightly", Job: j.WithCalendars(map[string]job.CalendarTimes{"de-holidays": is, "workdays": work})}
	golden(t, "next-left-out", h.transcript("next", "nightly", "-n", "3")+"\n"+h.transcript("next", "nightly", "-n", "1", "-o", "json"))
}

// Files with calendars: they are there before the jobs that name them, and go after these.
func TestApplyCalendarsGolden(t *testing.T) {
	t.Parallel()
	onGroup(t, func(t *testing.T, h *harness) {
		t.Helper()
		calendar := "kind: Calendar\nname: %s\ncalendar:\n  time_zone: Europe/Berlin\n  yearly: [12-25..%s]\n"
		work := "---\nname: work\nschedule: '@daily'\ncalendars: ['-holidays']\n"
		first, second := fmt.Sprintf(calendar, "holidays", "12-26"), fmt.Sprintf(calendar, "holidays", "12-31")
		unused := "---\n" + fmt.Sprintf(calendar, "unused", "12-26")
		free := "---\nname: work\nschedule: '@daily'\n"
		apply := []string{"apply", "-f", "-", "--set", "prod"}
		var texts []string
		for _, step := range []struct {
			input string
			args  []string
		}{
			{first + unused + work, []string{"validate", "-f", "-"}},
			{first + unused + work, append(apply, "--atomic")},
			{first + unused + work, append(apply, "--dry-run")},
			{first + unused + work, apply},
			{first + unused + work, append(apply, "--atomic")},
			{second + work, []string{"diff", "-f", "-", "--set", "prod", "--prune", "-o", "json"}},
			{second + work, append(apply, "--prune")},
			{second + work, []string{"apply", "-f", "-", "--set", "other"}},
			{"", []string{"export", "work"}},
			{"", []string{"export", "work", "-o", "json"}},
			{work, append(apply, "--prune")}, // a job names it
			{free, append(apply, "--prune")},
			{"", []string{"calendars"}},
			{first, []string{"submit", "--file", "-"}},
		} {
			h.Stdin = strings.NewReader(step.input)
			texts = append(texts, h.script([][]string{step.args}))
		}
		golden(t, "apply-calendars", strings.Join(texts, "\n"))

		// What export prints is what apply reads.
		h.Stdin = strings.NewReader(second + work)
		h.exec(apply...)
		wantReadBack(t, h, []string{"calendars", "-o", "json"}, []string{"calendars", "show", "holidays", "-o", "json"})
	})
}

// wantReadBack expects that files with the output of export, of a job and the record that it names,
// and of other commands, differ from the group in nothing.
func wantReadBack(t *testing.T, h *harness, others ...[]string) {
	t.Helper()
	for _, args := range append(others, []string{"export", "work"}, []string{"export", "work", "-o", "json"}) {
		h.exec(args...)
		h.Stdin = strings.NewReader(h.out.String())
		if code := h.exec("diff", "-f", "-", "--exit-code"); code != 0 || strings.Contains(h.out.String(), "0 unchanged") {
			t.Errorf("%q differs: %s%s", args, h.out.String(), h.errs.String())
		}
	}
	dir := filepath.Join(t.TempDir(), "jobs")
	if code := h.exec("export", "work", "--to", dir+"/"); code != 0 || h.exec("diff", "-f", dir, "--exit-code") != 0 || h.out.String() != "2 unchanged\n" {
		t.Errorf("a directory: %s%s", h.out.String(), h.errs.String())
	}
}
