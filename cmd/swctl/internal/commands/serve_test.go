package commands

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/zkdev/durable"
)

func TestServeGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var text strings.Builder
	for _, line := range []string{
		"serve --data /srv/zk", "serve --data /srv/zk --listen 127.0.0.1:0 -o json", "serve", "serve now", "serve --data d --zk 127.0.0.1:2182",
		"serve --data d --listen 2181", "serve --data d --listen 0.0.0.0:2181", "serve --data d --listen 10.0.0.5:2181 --anyone-may-connect",
		"serve --data d --health 127.0.0.1:8081", "serve --data d --health :8081", "serve --data d --tls-ca ca.pem", "serve --data d --tls-cert zk.pem", "serve --data d --tls-client-ca ca.pem", "serve --data d --tls-cert none --tls-key none",
	} {
		text.WriteString(h.transcript(strings.Fields(line)...))
	}
	for _, err := range []error{durable.ErrInUse, durable.ErrDamaged, durable.ErrFull} {
		h.app.serveFiles = func(context.Context, durable.Config, string, func(durableServer) error) error { return err }
		text.WriteString(h.transcript("serve", "--data", "d"))
	}
	golden(t, "serve", text.String())
}

// TestServeExport writes the directories of an ensemble, once.
func TestServeExport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, err := durable.Open(durable.Config{Dir: dir + "/data", Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t)
	var text strings.Builder
	line := func(more string) {
		more = strings.NewReplacer("--data ", "--data "+dir+"/", "--to ", "--to "+dir+"/").Replace(more)
		text.WriteString(strings.ReplaceAll(h.transcript(strings.Fields("serve export "+more)...), dir, "/srv"))
	}
	line("now")
	line("--to members --members zk1")
	line("--data data --to members")
	line("--data data --to members --members zk1 --members zk1:2181")
	line("--data data --to members --members zk1")
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	line("--data data --to members --members zk1 --members zk2 --members zk3")
	line("--data data --to members --members zk1")
	line("--data data --to one --members zk1 -o json")
	line("--data nowhere --to two --members zk1")
	golden(t, "serve-export", text.String())
	if id, err := os.ReadFile(dir + "/members/zk3/data/myid"); err != nil || string(id) != "3\n" {
		t.Errorf("myid of zk3: %q, %v", id, err)
	}
}

// TestServeRestore makes a directory of a backup, once, if it knows how far the lost servers may
// have counted. The next number there is above all of theirs.
func TestServeRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"backup", "lost"} {
		server, err := durable.Open(durable.Config{Dir: filepath.Join(dir, name), Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dir+"/lost/version-2/currentEpoch", []byte("5"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir+"/torn/version-2", fstest.MapFS{"snapshot.0": {Data: []byte("torn")}}); err != nil {
		t.Fatal(err)
	}
	h := newHarness(t)
	var text strings.Builder
	for _, line := range []string{
		"now", "--from backup --first", "--from backup --data a", "--from backup --data a --above token", "--from backup --data a --above 0",
		"--from backup --data a --above 9223372036854775807", "--from nowhere --data a --first", "--from torn --data a --first",
		"--from backup --data a --lost nowhere", "--from backup --data a --lost lost", "--from backup --data a --first",
		"--from backup --data b --above 0x1000000a7 -o json", "--from backup --data c --lost lost --lost a",
	} {
		line = strings.NewReplacer("--from ", "--from "+dir+"/", "--data ", "--data "+dir+"/", "--lost ", "--lost "+dir+"/").Replace(line)
		text.WriteString(strings.ReplaceAll(h.transcript(strings.Fields("serve restore "+line)...), dir, "/srv"))
	}
	golden(t, "serve-restore", text.String())
	at, stop := serving(t, "--data", dir+"/c")
	if code, says := stop(); code != cmdline.ExitOK || at.Data != dir+"/c" {
		t.Errorf("%+v, exit %d: %s", at, code, says)
	}
}

// serving runs the real server, until stop is called, which returns how it has ended.
func serving(t *testing.T, args ...string) (at durableServer, stop func() (cmdline.ExitCode, string)) {
	t.Helper()
	h := newHarness(t)
	h.app.serveFiles = serveDurable
	out, in := io.Pipe()
	h.Stdout = in
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan cmdline.ExitCode, 1)
	go func() {
		ended <- h.Run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "-o", "json"}, args...))
		_ = in.Close()
	}()
	var served struct {
		durableServer

		Kind string
	}
	if err := json.NewDecoder(out).Decode(&served); err != nil || served.Kind != "Server" {
		cancel()
		<-ended
		t.Fatalf("served %+v, %v: %s", served, err, h.errs.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // the end of the document
	return served.durableServer, func() (cmdline.ExitCode, string) {
		cancel()
		return <-ended, h.errs.String()
	}
}

// TestServes runs the real server, twice on one directory.
func TestServes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		at, stop := serving(t, "--data", dir, "--health", "127.0.0.1:0")
		if code, text := get(t, at.Health+"/readyz"); code != http.StatusOK || text != "ok\n" {
			t.Errorf("/readyz: %d %q", code, text)
		}
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at.ZK)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "ruok"); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(conn); err != nil || string(answer) != "imok" {
			t.Errorf("ruok = %q, %v", answer, err)
		}
		_ = conn.Close()
		second := newHarness(t)
		second.app.serveFiles = serveDurable
		if code := second.exec("serve", "--data", dir, "--listen", "127.0.0.1:0"); code != cmdline.ExitUsage || !strings.Contains(second.errs.String(), "another process serves the directory") {
			t.Errorf("a second one: exit %d, %q", code, second.errs.String())
		}
		if code, says := stop(); code != cmdline.ExitOK {
			t.Errorf("exit %d, want 0: %s", code, says)
		}
	}
	if _, err := os.Stat(dir + "/version-2/snapshot.0"); err != nil {
		t.Error(err)
	}
}

// get returns the answer to a request by HTTP.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return answer.StatusCode, string(text)
}

// TestServeReadiness: a server is ready between the end of its recovery and the beginning of its
// end.
func TestServeReadiness(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	server, err := durable.Open(durable.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	says := func(err error) string {
		if err == nil {
			return "ready"
		}
		return err.Error()
	}
	for _, c := range []struct{ got, want string }{
		{says(readiness(t.Context(), nil)), "reading its data"},
		{says(readiness(t.Context(), server)), "ready"},
		{says(readiness(stopped, server)), "stopping"},
		{says(errors.Join(server.Close(), readiness(t.Context(), server))), "the server is closed"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	// A taken address is known before anything is written.
	taken := listen(t)
	dir := filepath.Join(t.TempDir(), "data")
	h := newHarness(t)
	h.app.serveFiles = serveDurable
	if code := h.exec("serve", "--data", dir, "--health", taken.Addr().String()); code != cmdline.ExitUsage || !strings.Contains(h.errs.String(), "try: --health 127.0.0.1:0") {
		t.Errorf("exit %d: %s", code, h.errs.String())
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
}
