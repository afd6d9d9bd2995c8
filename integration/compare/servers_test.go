package compare

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a server may take to answer.
const patience = 30 * time.Second

// dataDir returns a directory for a server that runs as that user, if this is root.
func dataDir(t *testing.T, owner *syscall.Credential) string {
	t.Helper()
	base := "/dev/shm"
	if _, err := os.Stat(base); err != nil {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "compare-") //nolint:usetesting // the other user must get through to it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if owner != nil {
		if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// serve starts a server and waits until it accepts connections. It is ended with the test.
func serve(t *testing.T, port int, cmd *exec.Cmd, end os.Signal) {
	t.Helper()
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(end)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", cmd.Path, log.String())
		}
	})
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s does not answer: %v", cmd.Path, err)
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("%v has no port", l.Addr())
	}
	return addr.Port
}

// startRedis returns its address.
func startRedis(t *testing.T) string {
	t.Helper()
	port := freePort(t)
	serve(t, port, exec.Command("redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(port), //nolint:noctx // it ends with the test
		"--save", "", "--dir", dataDir(t, nil)), syscall.SIGTERM)
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// startPostgres returns the address of an empty database.
func startPostgres(t *testing.T) (port int) {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		t.Fatalf("no PostgreSQL in /usr/lib/postgresql: %v; run install.sh", err)
	}
	programs := found[len(found)-1]
	as := postgresUser(t)
	dir := dataDir(t, as)
	port = freePort(t)
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(programs, name), args...) //nolint:noctx // it ends with the test
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "-D", data, "-U", role, "--auth=trust").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	serve(t, port, command("postgres", "-D", data, "-p", strconv.Itoa(port), "-h", "127.0.0.1", "-k", dir,
		"-c", "fsync=off", "-c", "max_connections=400"), syscall.SIGQUIT)
	for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) { // it accepts connections before it serves
		out, err := command("createdb", "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-U", role, role).CombinedOutput()
		if err == nil {
			return port
		}
		if time.Now().After(deadline) {
			t.Fatalf("createdb: %v\n%s", err, out)
		}
	}
}

// role is the user, and the database.
const role = "compare"

// postgresUser is who runs PostgreSQL, which refuses to be run by root: nil if this is not root.
func postgresUser(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, uidErr := strconv.Atoi(who.Uid)
	gid, gidErr := strconv.Atoi(who.Gid)
	if uidErr != nil || gidErr != nil {
		t.Fatal(uidErr, gidErr)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
