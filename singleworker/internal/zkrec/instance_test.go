package zkrec_test

import (
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

func TestWhichInstancesAreClosedByThemselves(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]bool{
		zkrec.InstanceActive: false, zkrec.InstanceDraining: false, zkrec.InstanceDrained: false,
		zkrec.InstanceDisabled: false, zkrec.InstanceStopping: true, "": true, "of a newer version": true,
	} {
		if got := (zkrec.Instance{State: state}).Closed(); got != want {
			t.Errorf("state %q: closed %v, want %v", state, got, want)
		}
		if !(zkrec.Instance{State: state, Withdrawn: true}).Closed() {
			t.Errorf("state %q, withdrawn: not closed", state)
		}
	}
}

func TestWhomAnOrderBinds(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]bool{ // by what the node holds: whether it binds incarnation "other"
		"": true, " ": true, "maintenance": true, "{}": true, `{"schema":1,"by":"alice"}`: true,
		`{"schema":1,"incarnation":"mine"}`: false, `{"schema":99,"incarnation":7}`: true, "null": true,
	} {
		order := zkrec.ParseOrder([]byte(data))
		if !order.Binds("mine") || order.Binds("other") != want {
			t.Errorf("%q: binds mine %v, other %v; want true, %v", data, order.Binds("mine"), order.Binds("other"), want)
		}
	}
}

func TestPathsOfOrders(t *testing.T) {
	t.Parallel()
	tree := zkrec.NewTree("billing")
	for path, want := range map[string]bool{
		tree.Orders(): true, tree.Order("a"): true, tree.Instances(): false, tree.Instance("_disabled"): false,
		tree.Orders() + "x": false, tree.Root(): false,
	} {
		if got := tree.IsOrders(path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
