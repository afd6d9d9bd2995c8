package zkdev_test

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// TestRestart uses every operation before and after a restart.
func TestRestart(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]zkdev.RestartMode{"keep sessions": zkdev.KeepSessions, "drop sessions": zkdev.DropSessions} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *virtual) {
				server := t.server
				conn, events := connect(t, server)
				id, zxid := conn.SessionID(), server.Zxid()
				create(t, conn, "/kept", 0)
				create(t, conn, "/mine", zk.FlagEphemeral)
				useEverything(t, conn, "/before")
				for i := range 3 {
					if err := server.Restart(mode); err != nil {
						t.Fatal(err)
					}
					await(t, events, zk.StateDisconnected)
					await(t, events, zk.StateHasSession)
					useEverything(t, conn, fmt.Sprintf("/after%d", i))
				}
				if !exists(t, conn, "/kept") || server.Zxid() <= zxid {
					t.Error("the tree is lost")
				}
				want := mode == zkdev.KeepSessions
				if kept := conn.SessionID() == id; kept != want || exists(t, conn, "/mine") != want {
					t.Errorf("session kept: %v", kept)
				}
			})
		})
	}
}

func TestSessionsDoNotExpireWhileStopped(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		conn, events := connect(t, server)
		id := conn.SessionID()
		server.Stop()
		if _, err := server.DialTimeout("", "", 0); !errors.Is(err, zkdev.ErrStopped) {
			t.Errorf("dial a stopped server: %v", err)
		}
		time.Sleep(time.Hour)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(); !errors.Is(err, zkdev.ErrRunning) {
			t.Errorf("start twice: %v", err)
		}
		await(t, events, zk.StateDisconnected)
		await(t, events, zk.StateHasSession)
		if conn.SessionID() != id {
			t.Error("the session has ended while the server was stopped")
		}
	})
}

// TestKeptSessionsExpire: even if the server receives nothing after its restart.
func TestKeptSessionsExpire(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		if _, err := io.ReadFull(dial(t, server, hello(0, 4000, 0)), make([]byte, 40)); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(zkdev.KeepSessions); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		time.Sleep(time.Minute) // without a call: that would wake the server
		log := server.Log()
		last := log[len(log)-1]
		if took := last.Time.Sub(begin); !last.Expired || took < session || took > session+time.Second {
			t.Errorf("the last transaction is %v (expired: %v), %v after the restart", last.Op, last.Expired, took)
		}
	})
}

func TestRestartKeepsTheAddress(t *testing.T) {
	t.Parallel()
	server := zkdev.Start(t, zkdev.Config{})
	addr := server.Addr()
	for range 3 {
		if err := server.Restart(zkdev.DropSessions); err != nil {
			t.Fatal(err)
		}
		if server.Addr() != addr {
			t.Errorf("address %s, want %s as before", server.Addr(), addr)
		}
		conn, _, err := zk.Connect([]string{addr}, session, zk.WithLogger(silent{}))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := conn.Children("/"); err != nil {
			t.Error(err)
		}
		conn.Close()
	}
}

// TestAdminAfterStop: no call blocks on a stopped server.
func TestAdminAfterStop(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		server.Stop()
		server.Stop()
		_ = server.Sessions()
		_ = server.Log()
		server.Control(zkdev.OpAny, func(*zkdev.Request) zkdev.Action { return zkdev.Pass() })()
		_ = server.ExpireSession(1)
		server.Disconnect(1)
		server.Partition(1)
		server.Heal(1)
		server.Client("a").Partition()
		server.Client("a").Heal()
		server.Client("a").Disconnect()
	})
}

// TestStartStopStress: starts and stops, with clients connecting and admin calls in flight, leave
// no goroutine behind: the bubble would not end.
func TestStartStopStress(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				conn, _, err := zk.Connect([]string{"127.0.0.1:1"}, session, zk.WithLogger(silent{}), zk.WithDialer(server.DialTimeout))
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
						path := fmt.Sprintf("/%d-%d", i, n)
						_, _ = conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
						_ = conn.Delete(path, -1)
						_ = server.Sessions()
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		for i := range 50 {
			time.Sleep(time.Duration(i%7) * 100 * time.Millisecond)
			if err := server.Restart([]zkdev.RestartMode{zkdev.KeepSessions, zkdev.DropSessions}[i%2]); err != nil {
				t.Error(err)
			}
		}
		close(stop)
		wg.Wait()
		server.Stop()
		synctest.Wait()
	})
}
