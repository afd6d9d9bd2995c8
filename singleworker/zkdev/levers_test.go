package zkdev_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// TestSetClock: the server's clock goes into the times of nodes, also for who reads from a server
// that is behind, and into nothing else.
func TestSetClock(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		conn, _ := connect(t, server)
		create(t, conn, "/a", 0)
		for _, ahead := range []time.Duration{time.Hour, -time.Hour, 0} {
			server.SetClock(ahead)
			stat, err := conn.Set("/a", nil, -1)
			if want := time.Now().Add(ahead).UnixMilli(); err != nil || stat.Mtime != want {
				t.Errorf("%v ahead: written at %d (%v), want %d", ahead, stat.Mtime, err, want)
			}
			log := server.Log()
			if txn := log[len(log)-1]; !txn.Written.Equal(txn.Time.Add(ahead)) || time.Since(txn.Time) > time.Second {
				t.Errorf("%v ahead: logged as written at %v, at %v", ahead, txn.Written, txn.Time)
			}
		}
	})
}

// TestCut: the client whose connection is cut cannot tell whether its write was applied; another
// one can.
func TestCut(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		action  zkdev.Action
		applied bool
	}{
		"before": {zkdev.CutBefore(), false},
		"after":  {zkdev.CutAfter(), true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *virtual) {
				server := t.server
				conn, events := connect(t, server)
				observer, _ := connect(t, server)
				server.Control(zkdev.OpCreate, func(r *zkdev.Request) zkdev.Action {
					if r.Path != "/a" {
						return zkdev.Pass()
					}
					return test.action
				})
				create(t, observer, "/b", 0)
				_, err := conn.Create("/a", nil, 0, zk.WorldACL(zk.PermAll))
				if !errors.Is(err, zk.ErrConnectionClosed) {
					t.Errorf("create: %v, want the connection closed", err)
				}
				if applied := exists(t, observer, "/a"); applied != test.applied {
					t.Errorf("applied: %v", applied)
				}
				await(t, events, zk.StateDisconnected)
				await(t, events, zk.StateHasSession)
				_ = conn.Delete("/a", -1)
				create(t, conn, "/a", 0) // the control was for one request
			})
		})
	}
}

func TestRefuse(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		conn, _ := connect(t, server)
		before := server.Zxid()
		remove := server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if len(r.Ops) != 1 || r.Ops[0].Op != zkdev.OpCreate || r.Ops[0].Path != "/a" || r.Session != conn.SessionID() {
				t.Errorf("the control sees %+v", r)
			}
			return zkdev.Refuse(zkdev.NoAuth)
		})
		op := &zk.CreateRequest{Path: "/a", Acl: zk.WorldACL(zk.PermAll)}
		for range 2 {
			if _, err := conn.Multi(op); !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("multi: %v", err)
			}
		}
		if server.Zxid() != before {
			t.Error("a refused request has taken a zxid")
		}
		remove()
		if _, err := conn.Multi(op); err != nil {
			t.Errorf("multi without the control: %v", err)
		}
	})
}

// TestDelay: a delayed request holds up only its connection.
func TestDelay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		action  zkdev.Action
		applied bool // meanwhile
	}{
		"request": {zkdev.Delay(time.Second), false},
		"reply":   {zkdev.DelayReply(time.Second), true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *virtual) {
				server := t.server
				slow, _ := connect(t, server)
				other, _ := connect(t, server)
				server.Control(zkdev.OpCreate, func(*zkdev.Request) zkdev.Action { return test.action })
				begin := time.Now()
				var wg sync.WaitGroup
				wg.Go(func() {
					create(t, slow, "/a", 0)
					if took := time.Since(begin); took != time.Second {
						t.Errorf("the delayed create took %v", took)
					}
				})
				synctest.Wait()
				wg.Go(func() {
					if !exists(t, slow, "/a") || time.Since(begin) != time.Second {
						t.Errorf("a request behind it was answered after %v", time.Since(begin))
					}
				})
				if found := exists(t, other, "/a"); found != test.applied || time.Since(begin) != 0 {
					t.Errorf("another client sees it: %v, after %v", found, time.Since(begin))
				}
				wg.Wait()
			})
		})
	}
}

func TestObserve(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		var seen []zkdev.Op
		server.Control(zkdev.OpAny, func(r *zkdev.Request) zkdev.Action {
			seen = append(seen, r.Op)
			return zkdev.Pass()
		})
		conn, _ := connect(t, server)
		create(t, conn, "/a", 0)
		_ = exists(t, conn, "/a")
		conn.Close()
		server.Stop()
		want := []zkdev.Op{zkdev.OpConnect, zkdev.OpCreate, zkdev.OpExists, zkdev.OpCloseSession}
		if !slices.Equal(seen, want) {
			t.Errorf("seen %v, want %v", seen, want)
		}
	})
}

func TestConnectControls(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		tries := 0
		server.ControlKeep(zkdev.OpConnect, func(*zkdev.Request) zkdev.Action {
			tries++
			return [...]zkdev.Action{zkdev.Refuse(zkdev.NoAuth), zkdev.CutAfter(), zkdev.Delay(time.Second), zkdev.Pass()}[tries-1]
		})
		conn, _ := connect(t, server)
		if tries != 3 {
			t.Errorf("connected after %d tries", tries)
		}
		create(t, conn, "/a", zk.FlagEphemeral)
		if n := len(server.Sessions()); n != 2 {
			t.Errorf("%d sessions, want the one whose reply was lost, too", n)
		}
	})
}

// TestPartition: nothing gets through, neither side is notified, and messages arrive after Heal.
func TestPartition(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		for name, by := range map[string]func(*zk.Conn) (cut, heal func()){
			"client": func(*zk.Conn) (cut, heal func()) { return server.Client("a").Partition, server.Client("a").Heal },
			"session": func(c *zk.Conn) (cut, heal func()) {
				return func() { server.Partition(c.SessionID()) }, func() { server.Heal(c.SessionID()) }
			},
		} {
			conn, _ := connect(t, server.Client("a"))
			other, _ := connect(t, server.Client("b"))
			cut, heal := by(conn)
			id := conn.SessionID()
			cut()
			path := "/" + name
			done := make(chan error, 1)
			go func() {
				_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
				done <- err
			}()
			time.Sleep(time.Second)
			if exists(t, other, path) {
				t.Errorf("%s: a write got through", name)
			}
			heal()
			if err := <-done; err != nil {
				t.Errorf("%s: after the partition: %v", name, err)
			}
			if !exists(t, other, path) || conn.SessionID() != id {
				t.Errorf("%s: the write or the session is lost", name)
			}
			conn.Close()
			other.Close()
		}
	})
}

// TestPartitionOutlivesTheSession: the client keeps dialing without success, then learns that its
// session has expired. None of its requests are applied.
func TestPartitionOutlivesTheSession(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		conn, events := connect(t, server)
		id := conn.SessionID()
		create(t, conn, "/mine", zk.FlagEphemeral)
		server.Partition(id)
		_, err := conn.Create("/late", nil, 0, zk.WorldACL(zk.PermAll))
		if !errors.Is(err, zk.ErrConnectionClosed) {
			t.Errorf("create in a partition: %v", err)
		}
		time.Sleep(time.Minute)
		server.Heal(id)
		await(t, events, zk.StateExpired)
		await(t, events, zk.StateHasSession)
		if exists(t, conn, "/mine") || exists(t, conn, "/late") || conn.SessionID() == id {
			t.Error("the old session has left something behind")
		}
	})
}

// TestHealKeepsTheOrder: messages sent during Heal do not overtake those held back before.
func TestHealKeepsTheOrder(t *testing.T) {
	bubble(t, func(t *virtual) {
		server, client := t.server, t.server.Client("a")
		conn, events := connect(t, client)
		other, _ := connect(t, server)
		for _, path := range []string{"/kept", "/new"} {
			create(t, other, path, 0)
			if _, _, _, err := conn.GetW(path); err != nil {
				t.Fatal(err)
			}
		}
		client.Partition()
		if _, err := other.Set("/kept", nil, -1); err != nil {
			t.Fatal(err)
		}
		server.Control(zkdev.OpSetData, func(*zkdev.Request) zkdev.Action {
			go client.Heal()
			for range 1000 { // let it get as far as possible while the server is busy
				runtime.Gosched()
			}
			return zkdev.Pass()
		})
		if _, err := other.Set("/new", nil, -1); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"/kept", "/new"} {
			for event := range events {
				if event.Type == zk.EventNodeDataChanged {
					if event.Path != want {
						t.Errorf("an event of %s, want %s", event.Path, want)
					}
					break
				}
			}
		}
	})
}

// TestPartitionHidesTheEnd: whatever makes the server close a connection, a partitioned client
// notices it after Heal, after all messages for it.
func TestPartitionHidesTheEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, meanwhile []byte // what the client sends
		hears             int    // bytes
	}{
		"a bad frame":        {hello(0, 4000, 0), []byte{0xff, 0xff, 0xff, 0xff}, 40},
		"a word":             {nil, []byte("ruok"), 4},
		"silence":            {nil, nil, 0},
		"an expired session": {hello(0, 4000, 0), nil, 40},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *virtual) {
				client := t.server.Client("a")
				t.server.Control(zkdev.OpConnect, func(*zkdev.Request) zkdev.Action { return zkdev.DelayReply(time.Second) })
				conn, err := client.Dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				_, _ = conn.Write(test.before)
				synctest.Wait()
				client.Partition()
				_, _ = conn.Write(test.meanwhile)
				_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
				if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("in the partition: %d bytes, %v", n, err)
				}
				client.Heal()
				_ = conn.SetReadDeadline(time.Time{})
				if heard, err := io.ReadAll(conn); err != nil || len(heard) != test.hears {
					t.Errorf("after it: %d bytes, %v; want %d", len(heard), err, test.hears)
				}
			})
		})
	}
}

func TestDialBlocksDuringPartition(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		client := server.Client("a")
		client.Partition()
		begin := time.Now()
		_, err := client.DialTimeout("tcp", "127.0.0.1:2181", time.Second)
		if opErr := (*net.OpError)(nil); !errors.As(err, &opErr) || !opErr.Timeout() || time.Since(begin) != time.Second {
			t.Errorf("dial: %v after %v", err, time.Since(begin))
		}
		time.AfterFunc(time.Hour, client.Heal)
		conn, err := client.Dial(context.Background(), "", "")
		if err != nil || time.Since(begin) != time.Hour+time.Second {
			t.Fatalf("dial: %v after %v", err, time.Since(begin))
		}
		_ = conn.Close()
	})
}

func TestClientDisconnect(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		conn, events := connect(t, server.Client("a"))
		_, others := connect(t, server.Client("b"))
		id := conn.SessionID()
		server.Client("a").Disconnect()
		await(t, events, zk.StateDisconnected)
		await(t, events, zk.StateHasSession)
		if conn.SessionID() != id {
			t.Error("another session")
		}
		synctest.Wait()
		if len(others) > 0 {
			t.Errorf("another client is told %v", <-others)
		}
	})
}

// TestClientDisconnectAfterDial: a connection on which nothing was sent yet is cut, too.
func TestClientDisconnectAfterDial(t *testing.T) {
	bubble(t, func(t *virtual) {
		client := t.server.Client("a")
		conn, err := client.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		client.Disconnect()
		wantClosed(t, conn)
		if took := time.Since(begin); took != 0 {
			t.Errorf("closed after %v", took)
		}
		_ = conn.Close()
	})
}

// TestLatency: messages take as long as their connection's latency, and never overtake.
func TestLatency(t *testing.T) {
	bubble(t, func(t *virtual) {
		client := t.server.Client("far")
		var mu sync.Mutex
		there := []time.Duration{} // of the next messages; the last one is reused
		client.SetLatency(func() zkdev.Latency {
			return zkdev.Latency{
				There: func() time.Duration {
					mu.Lock()
					defer mu.Unlock()
					d := 100 * time.Millisecond
					if len(there) > 0 {
						d, there = there[0], there[1:]
					}
					return d
				},
				Back: func() time.Duration { return 200 * time.Millisecond },
			}
		})
		conn, _ := connect(t, client)
		begin := time.Now()
		create(t, conn, "/a", 0)
		if took := time.Since(begin); took != 300*time.Millisecond {
			t.Errorf("a round trip took %v, want 100 ms there and 200 ms back", took)
		}
		mu.Lock()
		there = append(there, 100*time.Millisecond, time.Millisecond)
		mu.Unlock()
		var wg sync.WaitGroup
		for _, path := range []string{"/b", "/c"} {
			wg.Go(func() { create(t, conn, path, 0) })
			synctest.Wait()
		}
		wg.Wait()
		log := t.server.Log()
		if first, second := log[len(log)-2], log[len(log)-1]; first.Path != "/b" || second.Path != "/c" || !first.Time.Equal(second.Time) {
			t.Errorf("%s at %v, then %s at %v: want /b, and /c not before it", first.Path, first.Time, second.Path, second.Time)
		}
	})
}

// TestLogAfter: the rest of the log, in whole transactions.
func TestLogAfter(t *testing.T) {
	bubble(t, func(t *virtual) {
		conn, _ := connect(t, t.server)
		create(t, conn, "/a", 0)
		zxid := t.server.Zxid()
		if rest := t.server.LogAfter(zxid); len(rest) != 0 {
			t.Errorf("after the last one: %v", rest)
		}
		if _, err := conn.Multi(&zk.SetDataRequest{Path: "/a", Version: -1}, &zk.CheckVersionRequest{Path: "/a", Version: -1}); err != nil {
			t.Fatal(err)
		}
		rest, all := t.server.LogAfter(zxid), t.server.Log()
		if len(rest) != 2 || !slices.EqualFunc(rest, all[len(all)-2:], func(a, b zkdev.Txn) bool { return a.Zxid == b.Zxid && a.Op == b.Op }) {
			t.Errorf("after one more: %v", rest)
		}
	})
}
