package commands

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
)

func TestDevGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var text strings.Builder
	for _, line := range []string{
		"dev", "dev --port 0 -o json", "dev --port 65536", "dev now", "dev --demo", "dev --zk 127.0.0.1:2182",
	} {
		text.WriteString(h.transcript(strings.Fields(line)...))
	}
	golden(t, "dev", text.String())
}

// The real server: it says where it is as soon as it serves, and ends with its context.
func TestDevServes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.app.serve = serveDev
	out, in := io.Pipe()
	h.Stdout = in
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan cmdline.ExitCode, 1)
	go func() { ended <- h.Run(ctx, []string{"dev", "--port", "0", "-o", "json"}) }()

	var served struct{ Kind, ZK string }
	if err := json.NewDecoder(out).Decode(&served); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // the end of the document
	if !strings.HasPrefix(served.ZK, "127.0.0.1:") || served.Kind != "DevServer" {
		t.Errorf("served %+v, want a loopback address", served)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", served.ZK)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "ruok"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || string(answer) != "imok" {
		t.Errorf("ruok = %q, %v", answer, err)
	}

	second := newHarness(t)
	second.app.serve = serveDev
	_, port, _ := net.SplitHostPort(served.ZK)
	if code := second.exec("dev", "--port", port); code != cmdline.ExitUsage || !strings.Contains(second.errs.String(), "--port 0") {
		t.Errorf("a second one on the same port: exit %d, %q", code, second.errs.String())
	}
	cancel()
	if code := <-ended; code != cmdline.ExitOK {
		t.Errorf("exit %d, want 0", code)
	}
}

// The hint at another port appears only if the port is taken.
func TestDevHintsAtAnotherPort(t *testing.T) {
	t.Parallel()
	denied, full := newHarness(t), newHarness(t)
	denied.app.serve = func(context.Context, string, func(string) error) error { return syscall.EACCES }
	full.Stdout = fullDisk{}
	for _, test := range []struct {
		h    *harness
		says string
		hint bool
	}{
		{denied, "swctl: dev: permission denied\n", true},
		{full, "swctl: dev: write output: no space left on device\n", false},
	} {
		test.h.exec("dev")
		if says := test.h.errs.String(); !strings.HasPrefix(says, test.says) || strings.Contains(says, "--port 0") != test.hint {
			t.Errorf("%q, want %q, and a hint: %v", says, test.says, test.hint)
		}
	}
}

// fullDisk is a file to which nothing can be written.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }
