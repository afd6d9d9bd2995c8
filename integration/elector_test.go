package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The gocron sample on a real server: of three processes, one is killed and one is stopped.
func TestElectorSample(t *testing.T) {
	t.Parallel()
	server := sharedServer.get(t)
	program := filepath.Join(t.TempDir(), "elector")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../sample/elector").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	output, err := exec.CommandContext(t.Context(), program, "-zk", server.Addr()+"/elector").CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	if last := lines[len(lines)-1]; err != nil || !strings.HasPrefix(last, "PASS: ") {
		t.Errorf("%v\n%s", err, output)
	} else {
		t.Logf("FIGURE %s", last)
	}
}
