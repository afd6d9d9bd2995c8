package zkrec_test

import (
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

func TestKind(t *testing.T) {
	t.Parallel()
	tree := zkrec.NewTree("billing")
	for path, want := range map[string]zkrec.Kind{
		tree.Root():                                      zkrec.KindGroup,
		tree.Job("pay"):                                  zkrec.KindSpec,
		tree.Register("pay"):                             zkrec.KindSwitch,
		tree.Register("pay") + "/_proof-1":               zkrec.KindRecord,
		tree.Registration("pay", "app-1"):                zkrec.KindRecord,
		tree.Alive("pay"):                                zkrec.KindRecord,
		tree.Heartbeat("pay", "app-1"):                   zkrec.KindRecord,
		tree.Tick("pay"):                                 zkrec.KindRecord,
		tree.HistoryPage("pay", 2):                       zkrec.KindRecord,
		tree.Alarm("pay"):                                zkrec.KindRecord,
		tree.Requests("pay"):                             zkrec.KindRequests,
		tree.Request("pay", "1"):                         zkrec.KindRecord,
		tree.Shards("pay"):                               zkrec.KindRecord,
		tree.Tick(zkrec.ShardSlot("pay", 2)):             zkrec.KindRecord,
		tree.Requests(zkrec.ShardSlot("pay", 2)):         zkrec.KindRequests,
		tree.Requests(zkrec.InstanceSlot("pay", "a")):    zkrec.KindRequests,
		tree.Slot(zkrec.InstanceSlot("pay", "requests")): zkrec.KindRecord,
		tree.Job("pay") + "/" + "shards/requests":        zkrec.KindRecord,
		tree.Registration("pay", "requests"):             zkrec.KindRecord,
		tree.Instances():                                 zkrec.KindInstances,
		tree.Instance("app-1"):                           zkrec.KindInstance,
		tree.Lives():                                     zkrec.KindOfInstances,
		tree.Life("1"):                                   zkrec.KindOfInstances,
		tree.HandlerList("1"):                            zkrec.KindOfInstances,
		tree.Leader() + "/x-latch-1":                     zkrec.KindOfInstances,
		tree.Changes():                                   zkrec.KindSignals,
		tree.Signal(3):                                   zkrec.KindSignal,
		tree.Asked():                                     zkrec.KindSignals,
		tree.AskedOf("1"):                                zkrec.KindSignal,
		tree.Orders():                                    zkrec.KindOrders,
		tree.Order("app-1"):                              zkrec.KindOrder,
		tree.Exclusions():                                zkrec.KindOrders,
		tree.Exclusion("1"):                              zkrec.KindOrder,
		tree.Deeds():                                     zkrec.KindLog,
		tree.NewDeed(zkrec.Deed{}):                       zkrec.KindLogEntry,
		tree.Notices() + "/leader/x":                     zkrec.KindNotices,
		tree.Access():                                    zkrec.KindAccess,
		tree.Root() + "/_other":                          zkrec.KindNotTheGroups,
		"/billing2":                                      "",
		"/":                                              "",
	} {
		if got, ok := tree.Kind(path); got != want || ok != (want != "") {
			t.Errorf("Kind(%q) = %q, %v; want %q", path, got, ok, want)
		}
	}
}
