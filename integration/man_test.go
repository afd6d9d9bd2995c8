package integration

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMan reads each page as Debian's man does, and looks for faults in it.
func TestMan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), buildSwctl(t), "help", "--man", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, read := range [][]string{{"mandoc", "-T", "lint", "-W", "warning"}, {"man", "--warnings", "-E", "UTF-8", "-l"}} {
		cmd := exec.CommandContext(t.Context(), read[0], append(read[1:], pages...)...)
		var faults strings.Builder
		cmd.Stderr = &faults
		text, err := cmd.Output()
		if errors.Is(err, exec.ErrNotFound) {
			t.Fatalf("%v; run integration/packages.sh mandoc man-db", err)
		}
		if read[0] == "mandoc" {
			faults.Write(text)
		} else if n := strings.Count(string(text), "\nNAME\n"); n != len(pages) {
			t.Errorf("%d of %d pages are read: %s", n, len(pages), text)
		}
		if err != nil || faults.Len() > 0 {
			t.Errorf("%s: %v, %s", cmd, err, &faults)
		}
	}
}
