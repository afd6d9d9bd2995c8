package zkserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/integration/zkserver"
)

// Session timeouts of the clients below.
const (
	shortSession = 4 * time.Second  // a client gives up a connection on which nothing came for two thirds of that
	longSession  = 10 * time.Second // a client waits a second before it reconnects
)

// patience is how long a test waits for an expected event.
const patience = time.Minute

func TestMain(m *testing.M) {
	code := zkserver.Main(m.Run)
	if leaked := leakedGoroutines(); code == 0 && leaked != "" {
		fmt.Fprintln(os.Stderr, "goroutines of this package still run:", leaked)
		code = 1
	}
	os.Exit(code)
}

func TestDataSurvivesRestart(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*zkserver.Server){
		"killed":    (*zkserver.Server).Kill,
		"stopped":   (*zkserver.Server).Stop,
		"restarted": func(*zkserver.Server) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := zkserver.Start(t)
			addr := server.Addr()
			conn, _ := connect(t, addr, shortSession)
			mustCreate(t, conn, "/kept", 0)

			end(server)
			server.Restart()

			if server.Addr() != addr {
				t.Errorf("address after restart: %s, want %s as before", server.Addr(), addr)
			}
			again, _ := connect(t, addr, shortSession)
			if found, _, err := again.Exists("/kept"); err != nil || !found {
				t.Errorf("node after restart: %v, %v; want it to exist", found, err)
			}
		})
	}
}

// A server has the data as of the copy of its files, or none, and its former files are still there.
func TestReplacedData(t *testing.T) {
	t.Parallel()
	server := zkserver.Start(t)
	conn, _ := connect(t, server.Addr(), shortSession)
	mustCreate(t, conn, "/kept", 0)
	backup := server.Backup()
	mustCreate(t, conn, "/lost", 0)
	wantNodes := func(what string, want ...bool) {
		t.Helper()
		again, _ := connect(t, server.Addr(), shortSession)
		for k, path := range []string{"/kept", "/lost"} {
			if found, _, err := again.Exists(path); err != nil || found != want[k] {
				t.Errorf("%s: %s exists: %v, %v; want %v", what, path, found, err, want[k])
			}
		}
	}
	lost := server.Replace(backup)
	server.Restart()
	wantNodes("restored", true, false)
	if logs, err := filepath.Glob(filepath.Join(lost, "log.*")); err != nil || len(logs) == 0 {
		t.Errorf("the logs from before are %q, %v", logs, err)
	}
	server.Replace("")
	server.Restart()
	wantNodes("emptied", false, false)
}

func TestCutLongerThanSessionExpiresIt(t *testing.T) {
	t.Parallel()
	server := zkserver.Start(t)
	proxy := zkserver.NewProxy(t, server.Addr())
	conn, events := connect(t, proxy.Addr(), shortSession)
	mustCreate(t, conn, "/ephemeral", zk.FlagEphemeral)
	observer, _ := connect(t, server.Addr(), shortSession)
	gone := watchDeletion(t, observer, "/ephemeral")

	proxy.Cut()
	await(t, "deletion of the ephemeral node", gone, isDeletion)

	proxy.Heal()
	await(t, "expiry", events, isState(zk.StateExpired))
}

func TestShortCutKeepsSession(t *testing.T) {
	t.Parallel()
	server := zkserver.Start(t)
	proxy := zkserver.NewProxy(t, server.Addr())
	conn, events := connect(t, proxy.Addr(), longSession)
	id := conn.SessionID()

	proxy.Cut()
	await(t, "disconnection", events, isState(zk.StateDisconnected))
	proxy.Heal()
	await(t, "the next session state", events, isState(zk.StateHasSession))

	if conn.SessionID() != id {
		t.Errorf("session %#x after a short cut, want %#x as before", conn.SessionID(), id)
	}
}

func TestExpireSession(t *testing.T) {
	t.Parallel()
	server := zkserver.Start(t)
	conn, events := connect(t, server.Addr(), shortSession)
	mustCreate(t, conn, "/ephemeral", zk.FlagEphemeral)
	observer, _ := connect(t, server.Addr(), shortSession)

	if err := server.ExpireSession(t.Context(), conn.SessionID()); err != nil {
		t.Fatal(err)
	}
	if found, _, err := observer.Exists("/ephemeral"); err != nil || found {
		t.Errorf("ephemeral node after expiry: %v, %v; want none", found, err)
	}
	await(t, "expiry", events, isState(zk.StateExpired))

	if err := server.ExpireSession(t.Context(), 4711); err != nil {
		t.Errorf("expire a session that does not exist: %v, want nil", err)
	}
}

func TestSuspendedServerAnswersLate(t *testing.T) {
	t.Parallel()
	server := zkserver.Start(t)

	server.Suspend()
	conn := dial(t, server.Addr())
	write(t, conn, "ruok")
	wantSilence(t, conn)

	server.Resume()
	wantRead(t, conn, "imok")
}

func TestStopEndsSuspendedServer(t *testing.T) {
	t.Parallel()
	server := zkserver.Start(t)
	server.Suspend()
	server.Stop()
	wantRefused(t, server.Addr())
}

func TestStartWithoutZooKeeperReportsWhatToInstall(t *testing.T) {
	t.Setenv("ZOOKEEPER_HOME", t.TempDir())
	tb := &recordingTB{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		zkserver.Start(tb)
	}()
	<-done
	if !strings.Contains(tb.fatal, "make setup") || strings.Contains(tb.fatal, "\n") {
		t.Errorf("Start without ZooKeeper failed with %q, want one line that names make setup", tb.fatal)
	}
}

// recordingTB is a TB that records failures instead of failing the test.
type recordingTB struct {
	testing.TB

	fatal string
}

func (tb *recordingTB) Fatalf(format string, args ...any) {
	tb.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// connect opens a session on one of the servers and waits for it. Its events arrive on the channel.
func connect(t *testing.T, addr string, timeout time.Duration) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	events := make(chan zk.Event, 1000) // more than a test can cause, so that no event is dropped
	conn, _, err := zk.Connect(strings.Split(addr, ","), timeout,
		zk.WithLogger(silent{}),
		zk.WithEventCallback(func(event zk.Event) { events <- event }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	await(t, "a session", events, isState(zk.StateHasSession))
	return conn, events
}

// silent is a logger for clients whose server fails on purpose.
type silent struct{}

func (silent) Printf(string, ...any) {}

func mustCreate(t *testing.T, conn *zk.Conn, path string, flags int32) {
	t.Helper()
	if _, err := conn.Create(path, nil, flags, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatalf("create %s: %v", path, err)
	}
}

func watchDeletion(t *testing.T, conn *zk.Conn, path string) <-chan zk.Event {
	t.Helper()
	found, _, events, err := conn.ExistsW(path)
	if err != nil || !found {
		t.Fatalf("watch %s: %v, %v; want it to exist", path, found, err)
	}
	return events
}

func isDeletion(event zk.Event) bool { return event.Type == zk.EventNodeDeleted }

func isState(state zk.State) func(zk.Event) bool {
	return func(event zk.Event) bool { return event.Type == zk.EventSession && event.State == state }
}

// await reads events up to the wanted one.
func await(t *testing.T, what string, events <-chan zk.Event, wanted func(zk.Event) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		select {
		case event := <-events:
			if wanted(event) {
				return
			}
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

// wantSilence checks that nothing arrives for a while.
func wantSilence(t *testing.T, conn net.Conn) {
	t.Helper()
	const silence = 100 * time.Millisecond
	setReadTimeout(t, conn, silence)
	n, err := conn.Read(make([]byte, 1))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want silence for %v", n, err, silence)
	}
}

func wantRead(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	setReadTimeout(t, conn, patience)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

func setReadTimeout(t *testing.T, conn net.Conn, timeout time.Duration) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		t.Fatal(err)
	}
}

func wantRefused(t *testing.T, addr string) {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	if err == nil {
		_ = conn.Close()
		t.Fatalf("connected to %s, want the connection refused", addr)
	}
}

// leakedGoroutines describes the goroutines that still run code of this package after its tests, or
// "".
func leakedGoroutines() string {
	var all strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&all, 2)
	var leaked []string
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, "integration/zkserver.") {
			leaked = append(leaked, stack)
		}
	}
	return strings.Join(leaked, "\n\n")
}
