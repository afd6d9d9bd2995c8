package zkserver_test

import (
	"bufio"
	"os/exec"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
)

func TestMeasure(t *testing.T) {
	t.Parallel()
	server := zkserver.Start(t)
	conn, _ := connect(t, server.Addr(), longSession)
	before := server.Counters()
	mustCreate(t, conn, "/counted", 0)
	_, _, changed, err := conn.GetW("/counted")
	if err != nil {
		t.Fatal(err)
	}
	watched := server.Counters()
	if _, err := conn.Set("/counted", nil, -1); err != nil {
		t.Fatal(err)
	}
	<-changed
	if _, _, err := conn.Exists("/counted"); err != nil { // an answer counts once the next request is dealt with
		t.Fatal(err)
	}
	after := server.Counters()
	if n := watched.Received - before.Received; n < 3 { // two requests and the question; perhaps a ping
		t.Errorf("%d requests more, want those that were sent", n)
	}
	if n := after.Nodes - before.Nodes; n != 1 {
		t.Errorf("%d nodes more, want the one that was created", n)
	}
	if watched.Watches-before.Watches != 1 || after.Watches != before.Watches {
		t.Errorf("%d, %d, %d watches, want one more, and none after the change", before.Watches, watched.Watches, after.Watches)
	}
	if watched.Events != before.Events || after.Events != watched.Events+1 {
		t.Errorf("%d, %d, %d events, want one for the change", before.Events, watched.Events, after.Events)
	}
	// At least a header and a node's path: of an answer, and of an event.
	if n := after.Sent - watched.Sent; n < 50 {
		t.Errorf("%d bytes sent, want those of an answer and an event", n)
	}
	if server.CPU() <= 0 {
		t.Error("the server has used no time to start")
	}
}

// TestCPUOfDescendants: a process that has been waited for counts, and so does one that still runs.
func TestCPUOfDescendants(t *testing.T) {
	t.Parallel()
	const work = "for ((n = 0; n < 100000; n++)); do :; done"
	shell := exec.CommandContext(t.Context(), "bash", "-c", "("+work+"); echo; ("+work+"; echo; read -r _); :")
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	lines, before := bufio.NewReader(out), time.Duration(0)
	for range 2 {
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		used, err := zkserver.CPU(shell.Process.Pid)
		if err != nil || used < before+20*time.Millisecond {
			t.Errorf("%v after %v: %v; want 100,000 rounds more", used, before, err)
		}
		before = used
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	_ = shell.Wait() // its last read has failed
	if _, err := zkserver.CPU(shell.Process.Pid); err == nil {
		t.Error("a process that has ended uses time")
	}
}
