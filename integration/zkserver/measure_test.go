package zkserver_test

import (
	"testing"

	"github.com/swjobs/singleworker/integration/zkserver"
)

func TestMeasure(t *testing.T) {
	t.Parallel()
	server := zkserver.Start(t)
	conn, _ := connect(t, server.Addr(), longSession)
	before, nodes := server.Count("zk_packets_received"), server.Count("zk_znode_count")
	mustCreate(t, conn, "/counted", 0)
	if n := server.Count("zk_packets_received") - before; n < 2 { // the request and the question; perhaps a ping
		t.Errorf("%d requests more, want those that were sent", n)
	}
	if n := server.Count("zk_znode_count") - nodes; n != 1 {
		t.Errorf("%d nodes more, want the one that was created", n)
	}
	if server.CPU() <= 0 {
		t.Error("the server has used no time to start")
	}
}
