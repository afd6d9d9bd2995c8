package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
)

func (f *fakeClient) Orders(ctx context.Context) ([]admin.Order, error) {
	var orders []admin.Order
	for _, sid := range slices.Sorted(maps.Keys(f.orders)) {
		orders = append(orders, f.orders[sid])
	}
	return orders, f.begin(ctx, "Orders")
}

// instance returns the one of that id, or nil.
func (f *fakeClient) instance(sid string) *admin.Instance {
	i := slices.IndexFunc(f.instances, func(i admin.Instance) bool { return i.ID == sid })
	if i < 0 {
		return nil
	}
	return &f.instances[i]
}

func (f *fakeClient) order(ctx context.Context, call, incarnation, sid string, opts admin.OrderOptions) (admin.OrderResult, error) {
	if err := f.begin(ctx, call+" "+sid); err != nil {
		return admin.OrderResult{}, err
	}
	instance, old := f.instance(sid), f.orders[sid]
	order := admin.Order{InstanceID: sid, Incarnation: incarnation, By: opts.By, Reason: opts.Reason, At: testNow}
	result := admin.OrderResult{Outcome: admin.OutcomeOrdered, Order: &order}
	if old == order || old.InstanceID != "" && old.Incarnation == "" && incarnation != "" {
		result.Outcome, result.Order = admin.OutcomeUnchanged, &old
	}
	f.orders[sid] = *result.Order
	if instance != nil {
		instance.State, instance.Order = admin.InstanceDraining, result.Order
		found := *instance
		result.Instance = &found
	}
	return result, nil
}

func (f *fakeClient) Drain(ctx context.Context, sid string, opts admin.OrderOptions) (admin.OrderResult, error) {
	instance := f.instance(sid)
	if instance == nil {
		return admin.OrderResult{}, fmt.Errorf("drain %s: %w", sid, admin.ErrNoInstance)
	}
	return f.order(ctx, "Drain", instance.Incarnation, sid, opts)
}

func (f *fakeClient) Disable(ctx context.Context, sid string, opts admin.OrderOptions) (admin.OrderResult, error) {
	return f.order(ctx, "Disable", "", sid, opts)
}

func (f *fakeClient) Enable(ctx context.Context, sid string) (admin.OrderResult, error) {
	if err := f.begin(ctx, "Enable "+sid); err != nil {
		return admin.OrderResult{}, err
	}
	result := admin.OrderResult{Outcome: admin.OutcomeUnchanged}
	if order, found := f.orders[sid]; found {
		result.Outcome, result.Order = admin.OutcomeEnabled, &order
		delete(f.orders, sid)
	}
	if instance := f.instance(sid); instance != nil {
		instance.State, instance.Order = admin.InstanceActive, nil
		found := *instance
		result.Instance = &found
	}
	return result, nil
}

// AwaitDrained blocks until the test lets it.
func (f *fakeClient) AwaitDrained(ctx context.Context, sid string) (admin.Instance, bool, error) {
	instance := f.instance(sid)
	if err := f.begin(ctx, "AwaitDrained "+sid); err != nil {
		return *instance, true, fmt.Errorf("drain %s: %w", sid, err)
	}
	if f.goes {
		return admin.Instance{}, false, nil
	}
	instance.State, instance.Owned = admin.InstanceDrained, 0
	return *instance, true, nil
}

func TestDrainThatTakesTooLong(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.block["AwaitDrained app-1"] = true
	code := h.exec("instances", "drain", "app-1", "--wait", "--timeout", "10ms")
	if code != cmdline.ExitTimeout || !strings.Contains(h.errs.String(), "app-1 is draining and still owns 1 job") ||
		!strings.Contains(h.out.String(), "draining app-1") {
		t.Errorf("exit %d, stdout %q, stderr %q; want 7 and how far it is", code, h.out.String(), h.errs.String())
	}
}

func TestDrainOfOneThatGoes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.goes = true
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
