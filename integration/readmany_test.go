package integration

import (
	"os/exec"
	"testing"
)

// Bulk requests, which the ZooKeeper client does not know, on a real server: its own test in the
// package that makes them, which users do not see.
func TestReadManyOnARealServer(t *testing.T) {
	t.Parallel()
	server := sharedServer.get(t)
	test := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-run", "^TestReadManyLive$", "-v",
		"../singleworker/internal/zkconn", "-args", "-zk", server.Addr())
	if output, err := test.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	} else {
		t.Logf("%s", output)
	}
}
