package durable_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/zkdev/durable"
)

// TestSocket: a server without a port is reached by its directory, by nobody but its user, and the
// socket that a crash leaves is in nobody's way.
func TestSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "durable-") //nolint:usetesting // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "version-2", "socket")
	if err := os.Mkdir(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := durable.Open(durable.Config{Dir: dir, NoListen: true})
	if err != nil {
		t.Fatal(err)
	}
	if s.Addr() != "" {
		t.Errorf("it listens on %s", s.Addr())
	}
	if info, err := os.Stat(socket); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "ruok"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); string(answer) != "imok" {
		t.Errorf("ruok = %q, %v", answer, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket after Close: %v", err)
	}
}

// TestLongSocket: a directory whose socket would have too long a path is served by a port only.
func TestLongSocket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 100))
	if _, err := durable.Open(durable.Config{Dir: dir, NoListen: true}); err == nil || !strings.Contains(err.Error(), "at most 103 bytes") {
		t.Errorf("without a port: %v", err)
	}
	s := serve(t, dir, "127.0.0.1:0")
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
