package commands

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
)

func (f *fakeClient) Orders(ctx context.Context) ([]admin.Order, error) {
	return f.orders, f.begin(ctx, "Orders")
}

// ordered is the result of an order to app-1.
func (f *fakeClient) ordered(ctx context.Context, call string, outcome admin.Outcome) (admin.OrderResult, error) {
	return admin.OrderResult{Outcome: outcome, Order: &admin.Order{InstanceID: "app-1"}, Instance: &f.instances[0]}, f.begin(ctx, call)
}

func (f *fakeClient) Drain(ctx context.Context, _ string, _ admin.OrderOptions) (admin.OrderResult, error) {
	return f.ordered(ctx, "Drain", admin.OutcomeOrdered)
}

func (f *fakeClient) DisableAt(ctx context.Context, _ admin.Target, _ admin.OrderOptions) (admin.OrderResult, error) {
	return f.ordered(ctx, "Disable", admin.OutcomeOrdered)
}

func (f *fakeClient) EnableAt(ctx context.Context, _ admin.Target) (admin.OrderResult, error) {
	return f.ordered(ctx, "Enable", admin.OutcomeEnabled)
}

func (f *fakeClient) Instance(ctx context.Context, _ string) (admin.InstanceDetails, error) {
	i := f.instances[0]
	i.Labels, i.Address, i.JobOrders = map[string]string{"zone": "a", "disk": "ssd"}, "http://db7:8080/jobs", []admin.Order{{InstanceID: i.ID, Job: "report", By: "alice@host", Reason: "disk", At: testNow.Add(-1 * time.Hour)}}
	run := &history.Run{Tick: testNow, State: history.StateRunning, InstanceID: i.ID, Token: 17, RunID: "r1", Attempt: 1, Started: testNow}
	return admin.InstanceDetails{
		Instance: i, SessionID: "0x1000a2b", SessionTimeout: 10 * time.Second, Handlers: []string{"import", "nightly"},
		Slots: []admin.OwnedSlot{{Name: "import[1]", Token: 16, Since: testNow.Add(-3 * time.Hour)}, {Name: "nightly", Token: 17, Since: testNow.Add(-2 * time.Hour), Run: run}},
	}, f.begin(ctx, "Instance")
}

// Gone returns one that was stopped, and one that hung.
func (f *fakeClient) Gone(ctx context.Context) ([]admin.GoneInstance, error) {
	stopped := admin.GoneInstance{
		ID: "app-7", Incarnation: "i7", Host: "db7", PID: 12, StartedAt: testNow.Add(-50 * time.Hour), Version: "v1.4.0", How: admin.GoneStopped, At: testNow.Add(-3 * time.Hour),
	}
	hung := stopped
	hung.ID, hung.How, hung.LastSign, hung.By = "app-8", admin.GoneHung, hung.At.Add(-41*time.Second), "app-1"
	return []admin.GoneInstance{stopped, hung}, f.begin(ctx, "Gone")
}

// AwaitDrained returns an instance that is gone.
func (f *fakeClient) AwaitDrained(ctx context.Context, _ string) (admin.Instance, bool, error) {
	return admin.Instance{}, false, f.begin(ctx, "AwaitDrained")
}

func TestDrainOfOneThatGoes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	if code := h.exec("instances", "drain", "app-1", "--wait"); code != cmdline.ExitOK || !strings.Contains(h.out.String(), "it is not running now") {
		t.Errorf("exit %d, stdout %q", code, h.out.String())
	}
}

func TestEnableOfOneThatItsProgramWithdrew(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.instances[0].Withdrawn, h.fake.instances[0].State = true, admin.InstanceDrained
	if code := h.exec("instances", "enable", "app-1"); code != cmdline.ExitOK || !strings.Contains(h.out.String(), "Manager.Drain") {
		t.Errorf("exit %d, stdout %q", code, h.out.String())
	}
	if code := h.exec("instances"); code != cmdline.ExitOK || !strings.Contains(h.out.String(), "drained by its own program") {
		t.Errorf("exit %d, stdout %q", code, h.out.String())
	}
}
