package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const unit = "billing.service"

// TestUnit has systemd check the unit, with the programs where they are here.
func TestUnit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), unit)
	text := strings.ReplaceAll(readUnit(t), "/usr/local/bin", programs)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", path).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s(on Debian, apt-get install systemd has it)", err, out)
	}
}

// TestUnitCommand runs the unit's command, until it is ready, and stops it.
func TestUnitCommand(t *testing.T) {
	t.Parallel()
	const id = "db8"
	s := set(t)
	here := strings.NewReplacer("${SWCTL_ZK}", s.zk, "${SWCTL_SERVER_TYPE}", serverType, "%H", id,
		"%d", filepath.Dir(s.credentials), "/usr/local/bin", programs, "127.0.0.1:8081", s.probes)
	joined := strings.ReplaceAll(readUnit(t), "\\\n", " ")
	for line := range strings.Lines(joined) {
		if command, ok := strings.CutPrefix(line, "ExecStart="); ok {
			s.runs(t, strings.Fields(here.Replace(command)), id)
			return
		}
	}
	t.Fatal("no ExecStart")
}

func readUnit(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
