//go:build linux || darwin || freebsd

package supervise

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Each of the proofs is needed.
func TestMayRun(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	const child, other = 1<<30 + 1, 1<<30 + 2 // no system has so many processes
	for _, c := range []struct {
		host  string
		pid   int
		alone bool
		says  string
	}{
		{host, child, false, ""},
		{host, other, true, ""},
		{host, other, false, "which guard did not start"},
		{host, os.Getpid(), true, "exists"},
		{host + "x", child, true, "it runs on host"},
		{host[:len(host)-1], child, true, "it runs on host"}, // node1 is not node10
		{"", child, true, "it runs on host"},
		{host, 0, true, "no process ID"},
		{host, -child, true, "no process ID"},
	} {
		process := &Child{cmd: &exec.Cmd{Process: &os.Process{Pid: child}}, alone: c.alone}
		if err := process.MayRun(c.host, c.pid); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %d, alone %v: %v, want %q", c.host, c.pid, c.alone, err, c.says)
		}
	}
}
