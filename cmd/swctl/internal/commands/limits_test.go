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

func (f *fakeClient) SetLimit(ctx context.Context, name string, places int, opts admin.LimitOptions) (admin.LimitChange, error) {
	return admin.LimitChange{Outcome: admin.OutcomeReplaced, Name: name, Jobs: []string{"nightly"}},
		errors.Join(job.CheckMax(places), f.begin(ctx, fmt.Sprintf("SetLimit %s %d %v", name, places, opts.DryRun)))
}

func (f *fakeClient) DeleteLimit(ctx context.Context, name string, opts admin.LimitOptions) (admin.LimitChange, error) {
	return admin.LimitChange{Outcome: admin.OutcomeDeleted, Name: name}, f.begin(ctx, fmt.Sprintf("DeleteLimit %s %v", name, opts.DryRun))
}

func TestLimitsGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.fail["DeleteLimit crm-api false"] = fmt.Errorf("limit crm-api: %w: nightly", admin.ErrLimitInUse)
	var texts []string
	for _, line := range []string{
		"limits", "limits -o json", "limits show crm-api", "limits show spoilt", "limits show crm-api -o json", "limits show none", "limits show",
		"limits set crm-api --max 3", "limits set crm-api --max 3 --dry-run -o json", "limits set crm-api", "limits set --max 3", "limits set crm-api --max 0",
		"limits set crm-api --max 1001", "limits delete old", "limits delete old --dry-run", "limits delete crm-api",
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
