package integration

import (
	"bufio"
	"bytes"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestEmbedded kills a program that brings its server along, with SIGKILL, and starts it again on
// its directory. The job goes on, and its history is there: each tick was claimed once, by the
// server's own files. A second process on the directory is refused, and swctl finds the server by
// the directory, as long as there is one.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "embedded")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../sample/embedded").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	swctl, dir := buildSwctl(t), t.TempDir()
	ask := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), swctl, append(args, "--zk", "file:"+dir, "--server-type", "billing")...).CombinedOutput()
		return string(out), err
	}
	start := func() (ran *bufio.Scanner, end func(syscall.Signal) error) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, "-data", dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		return bufio.NewScanner(out), func(signal syscall.Signal) error {
			_ = cmd.Process.Signal(signal)
			_, _ = io.Copy(io.Discard, out) // or it could wait for somebody to read
			return cmd.Wait()
		}
	}

	killed := time.Time{}
	for range 3 {
		ran, end := start()
		for n := range 3 {
			if !ran.Scan() {
				t.Fatalf("it ended: %v", end(syscall.SIGKILL))
			}
			if n == 0 && !killed.IsZero() {
				t.Logf("from the kill to the next run: %v", time.Since(killed))
			}
		}
		second, err := exec.CommandContext(t.Context(), program, "-data", dir).CombinedOutput()
		if err == nil || !bytes.Contains(second, []byte("another process serves the directory")) {
			t.Errorf("a second process: %v: %s", err, second)
		}
		if out, err := ask("list"); err != nil || !strings.Contains(out, "report") {
			t.Errorf("swctl list: %v: %s", err, out)
		}
		if err := end(syscall.SIGKILL); err == nil {
			t.Error("a killed process has ended well")
		}
		killed = time.Now()
	}
	if out, err := ask("list", "--timeout", "2s"); err == nil || !strings.Contains(out, "no process serves it") {
		t.Errorf("swctl without a server: %v: %s", err, out)
	}
	ran, end := start()
	if !ran.Scan() {
		t.Error("it has not started again")
	}
	if out, err := ask("history", "report"); err != nil || strings.Count(out, " ok ") < 10 {
		t.Errorf("swctl history: %v: %s", err, out)
	}
	if err := end(syscall.SIGTERM); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	if out, err := ask("audit", "--txnlog", dir); err != nil || !strings.Contains(out, "PASS") {
		t.Errorf("swctl audit: %v: %s", err, out)
	}
}
