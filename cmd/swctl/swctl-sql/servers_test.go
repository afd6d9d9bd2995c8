package main

import (
	"context"
	"database/sql"
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

// patience is how long a server may take to begin, and to end.
const patience = time.Minute

// startPostgres starts a server in a directory on loopback, and returns the URL of an empty
// database. It ends with the test.
func startPostgres(tb testing.TB) string {
	tb.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		tb.Fatalf("no PostgreSQL in /usr/lib/postgresql: %v; run integration/packages.sh postgresql", err)
	}
	bin := found[len(found)-1]
	dir, as := dataDir(tb, "postgres")
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("secret"), 0o644); err != nil {
		tb.Fatal(err)
	}
	run(tb, as, filepath.Join(bin, "initdb"), "--no-sync", "-U", "runlog", "--auth=scram-sha-256", "--pwfile="+password, "-D", filepath.Join(dir, "data"))
	port := freePort(tb)
	serve(tb, as, filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data"), "-c", "listen_addresses=127.0.0.1", "-c", "port="+strconv.Itoa(port),
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "shared_buffers=32MB")
	address := fmt.Sprintf("postgres://runlog:secret@127.0.0.1:%d/postgres", port)
	await(tb, "pgx", address)
	return address
}

// startMariaDB is startPostgres for MariaDB. Each server has a directory of its own for temporary
// tables: one that starts removes all tables there, also of servers that are at work.
func startMariaDB(tb testing.TB) string {
	tb.Helper()
	server, err := exec.LookPath("mariadbd")
	if err != nil {
		tb.Fatalf("no MariaDB: %v; run integration/packages.sh mariadb-server", err)
	}
	dir, as := dataDir(tb, "mysql")
	data, temporary := "--datadir="+filepath.Join(dir, "data"), "--tmpdir="+dir
	run(tb, as, "mariadb-install-db", "--no-defaults", data, temporary, "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")
	port := freePort(tb)
	start := filepath.Join(dir, "start.sql")
	if err := os.WriteFile(start, []byte("CREATE DATABASE runlog;\nCREATE USER runlog@'127.0.0.1' IDENTIFIED BY 'secret';\nGRANT ALL ON runlog.* TO runlog@'127.0.0.1';\n"), 0o644); err != nil {
		tb.Fatal(err)
	}
	serve(tb, as, server, "--no-defaults", data, temporary, "--bind-address=127.0.0.1", "--port="+strconv.Itoa(port), "--socket="+filepath.Join(dir, "s"),
		"--pid-file="+filepath.Join(dir, "pid"), "--skip-name-resolve", "--init-file="+start, "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M")
	await(tb, "mysql", fmt.Sprintf("runlog:secret@tcp(127.0.0.1:%d)/runlog", port))
	return fmt.Sprintf("mariadb://runlog:secret@127.0.0.1:%d/runlog", port)
}

// dataDir returns a directory for a server. These refuse to run as root, or ought to; then it
// belongs to the user of their package.
func dataDir(tb testing.TB, name string) (string, *syscall.Credential) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "runlog-") //nolint:usetesting // another user must get through to it
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	if os.Geteuid() != 0 {
		return dir, nil
	}
	found, err := user.Lookup(name)
	if err != nil {
		tb.Fatal(err)
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		tb.Fatal(err)
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		tb.Fatal(err)
	}
	return dir, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func command(ctx context.Context, as *syscall.Credential, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = "/", append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	return cmd
}

func run(tb testing.TB, as *syscall.Credential, name string, args ...string) {
	tb.Helper()
	if out, err := command(tb.Context(), as, name, args...).CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// serve starts a server that ends with the test.
func serve(tb testing.TB, as *syscall.Credential, name string, args ...string) {
	tb.Helper()
	var log strings.Builder
	cmd := command(context.WithoutCancel(tb.Context()), as, name, args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT) // of which both end at once
		_ = cmd.Wait()
		if tb.Failed() {
			tb.Logf("%s:\n%s", name, log.String())
		}
	})
}

// await returns when a server answers.
func await(tb testing.TB, driver, text string) {
	tb.Helper()
	db, err := sql.Open(driver, text)
	if err != nil {
		tb.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			tb.Fatalf("%s does not answer: %v", driver, err)
		}
	}
}

func freePort(tb testing.TB) int {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		tb.Fatalf("%v has no port", l.Addr())
	}
	return addr.Port
}
