package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

func (f *fakeClient) Limits(ctx context.Context) ([]admin.Limit, error) {
	return []admin.Limit{
		{
			Name: "crm-api", Max: 2, Jobs: []string{"nightly", "report", "sync"},
			Held:    []admin.HeldPlace{{Place: 0, Slot: "sync", Since: testNow.Add(-time.Minute)}, {Place: 1, Slot: "report[3]", Since: testNow.Add(-time.Hour), Leaked: true}},
			Waiting: []admin.WaitingInstance{{InstanceID: "app-1", Since: testNow.Add(-time.Minute)}},
		},
		{Name: "spoilt", Error: "limit \"x\": not JSON"},
	}, f.begin(ctx, "Limits")
}

func (f *fakeClient) SetLimit(ctx context.Context, name string, places int, opts admin.NamedOptions) (admin.NamedChange, error) {
	return admin.NamedChange{Outcome: admin.OutcomeReplaced, Name: name, Jobs: []string{"nightly"}},
		errors.Join(job.CheckMax(places), f.begin(ctx, fmt.Sprintf("SetLimit %s %d %v", name, places, opts.DryRun)))
}

func (f *fakeClient) DeleteLimit(ctx context.Context, name string, opts admin.NamedOptions) (admin.NamedChange, error) {
	return admin.NamedChange{Outcome: admin.OutcomeDeleted, Name: name}, f.begin(ctx, fmt.Sprintf("DeleteLimit %s %v", name, opts.DryRun))
}

func (f *fakeClient) FreePlaces(ctx context.Context, name string, opts admin.NamedOptions) ([]admin.HeldPlace, error) {
	list, _ := f.Limits(ctx)
	return list[0].Held[1:], f.begin(ctx, fmt.Sprintf("FreePlaces %s %v", name, opts.DryRun))
}

func TestLimitsGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.fail["DeleteLimit crm-api false"] = fmt.Errorf("limit crm-api: %w: nightly", admin.ErrInUse)
	var texts []string
	for _, line := range []string{
		"limits", "limits -o json", "limits show crm-api", "limits show spoilt", "limits show crm-api -o json", "limits show none", "limits show",
		"limits set crm-api --max 3", "limits set crm-api --max 3 --dry-run -o json", "limits set crm-api", "limits set --max 3", "limits set crm-api --max 0",
		"limits set crm-api --max 1001", "limits delete old", "limits delete old --dry-run", "limits delete crm-api",
		"limits free crm-api --dry-run", "limits free crm-api", "limits free crm-api -o json", "limits free",
	} {
		texts = append(texts, h.transcript(strings.Fields(line)...))
	}
	golden(t, "limits", strings.Join(texts, "\n"))
}

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

// Files with limits: they are there before the jobs that name them, and go after these.
func TestApplyLimitsGolden(t *testing.T) {
	t.Parallel()
	onGroup(t, func(t *testing.T, h *harness) {
		t.Helper()
		const work = "---\nname: work\nschedule: '@daily'\nlimits: {crm-api: 2}\n"
		limit := func(name string, places int) string {
			return fmt.Sprintf("---\nkind: Limit\nname: %s\nmax: %d\n", name, places)
		}
		apply := []string{"apply", "-f", "-", "--set", "prod"}
		var texts []string
		for _, step := range []struct {
			input string
			args  []string
		}{
			{limit("crm-api", 0) + limit("_crm", 2) + limit("twice", 1) + limit("twice", 1) + "---\nkind: Limit\nname: text\nmax: two\n---\nkind: Limit\nname: odd\nmin: 1\n", []string{"validate", "-f", "-"}},
			{work + limit("crm-api", 2) + limit("unused", 1), []string{"validate", "-f", "-"}},
			{work + limit("crm-api", 2), append(apply, "--atomic")},
			{work + limit("crm-api", 2) + limit("unused", 1), append(apply, "--dry-run")},
			{work + limit("crm-api", 2) + limit("unused", 1), apply},
			{work + limit("crm-api", 3), []string{"diff", "-f", "-", "--set", "prod", "--prune", "-o", "json"}},
			{work + limit("crm-api", 3), append(apply, "--prune")},
			{limit("crm-api", 1), append(apply, "--confirm", "0")}, // the job needs more
			{limit("crm-api", 4), []string{"apply", "-f", "-", "--set", "other"}},
			{"", []string{"export", "work"}},
			{"", []string{"export", "work", "-o", "json"}},
			{work, append(apply, "--prune")}, // a job names it
			{"---\nname: work\nschedule: '@daily'\n", append(apply, "--prune")},
			{"", []string{"limits"}},
			{limit("crm-api", 1), []string{"submit", "--file", "-"}},
		} {
			h.Stdin = strings.NewReader(step.input)
			texts = append(texts, h.script([][]string{step.args}))
		}
		golden(t, "apply-limits", strings.Join(texts, "\n"))

		// What export prints is what apply reads.
		h.Stdin = strings.NewReader(limit("crm-api", 2) + work)
		h.exec(apply...)
		wantReadBack(t, h, []string{"limits", "-o", "json"}, []string{"limits", "show", "crm-api", "-o", "json"})
	})
}
