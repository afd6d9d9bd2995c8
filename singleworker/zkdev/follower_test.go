package zkdev_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

const lag = 300 * time.Millisecond // less than the session

// lagging calls test with a client whose server is behind, and another one.
func lagging(t *testing.T, test func(t *virtual, client *zkdev.Client, behind, other *zk.Conn)) {
	t.Helper()
	bubble(t, func(t *virtual) {
		client := t.server.Client("behind")
		behind, _ := connect(t, client)
		other, _ := connect(t, t.server)
		create(t, other, "/a", 0)
		client.Lag(lag)
		test(t, client, behind, other)
	})
}

func wantVersion(t *virtual, conn *zk.Conn, want int32) {
	t.Helper()
	if _, stat, err := conn.Get("/a"); err != nil || stat.Version != want {
		t.Errorf("read version %d, %v, want %d", stat.Version, err, want)
	}
}

func set(t *virtual, conn *zk.Conn, path string) {
	t.Helper()
	if _, err := conn.Set(path, nil, -1); err != nil {
		t.Fatal(err)
	}
}

func TestLag(t *testing.T) { //nolint:tparallel // bubble calls it
	t.Parallel()
	for name, test := range map[string]func(t *virtual, client *zkdev.Client, behind, other *zk.Conn){
		"reads are late": func(t *virtual, _ *zkdev.Client, behind, other *zk.Conn) {
			set(t, other, "/a")
			time.Sleep(lag / 2)
			set(t, other, "/a")
			for _, want := range []int32{0, 1, 2} {
				wantVersion(t, behind, want)
				time.Sleep(lag * 6 / 10)
			}
			wantVersion(t, other, 2)
		},
		"own writes are seen, and all before": func(t *virtual, _ *zkdev.Client, behind, other *zk.Conn) {
			set(t, other, "/a")
			create(t, behind, "/b", 0)
			wantVersion(t, behind, 1)
		},
		"refused writes are up to date": func(t *virtual, _ *zkdev.Client, behind, other *zk.Conn) {
			set(t, other, "/a")
			if err := behind.Delete("/a", 0); err != zk.ErrBadVersion { //nolint:errorlint // as the library returns it
				t.Errorf("delete: %v", err)
			}
			wantVersion(t, behind, 1)
		},
		"a sync catches up": func(t *virtual, _ *zkdev.Client, behind, other *zk.Conn) {
			set(t, other, "/a")
			if _, err := behind.Sync("/a"); err != nil {
				t.Fatal(err)
			}
			wantVersion(t, behind, 1)
		},
		"the end of the lag": func(t *virtual, client *zkdev.Client, behind, other *zk.Conn) {
			_, _, events, err := behind.GetW("/a")
			if err != nil {
				t.Fatal(err)
			}
			set(t, other, "/a")
			client.Lag(0)
			<-events
			wantVersion(t, behind, 1)
		},
		"a shorter lag": func(t *virtual, client *zkdev.Client, behind, other *zk.Conn) {
			set(t, other, "/a")
			client.Lag(lag / 10)
			set(t, other, "/a")
			time.Sleep(lag / 2)
			wantVersion(t, behind, 0) // nothing overtakes
			time.Sleep(lag)
			wantVersion(t, behind, 2)
		},
		"a lost reply": func(t *virtual, client *zkdev.Client, behind, other *zk.Conn) {
			t.server.Control(zkdev.OpSetData, func(r *zkdev.Request) zkdev.Action {
				if r.Client == "behind" {
					return zkdev.CutAfter()
				}
				return zkdev.Pass()
			})
			client.Lag(10 * session)
			_, _ = behind.Set("/a", nil, -1)
			wantVersion(t, other, 1)
			wantVersion(t, behind, 0) // in the next connection
		},
		"a new session": func(t *virtual, client *zkdev.Client, _, other *zk.Conn) {
			set(t, other, "/a")
			second, _ := connect(t, client)
			wantVersion(t, second, 1)
		},
		"a restart": func(t *virtual, _ *zkdev.Client, behind, other *zk.Conn) {
			set(t, other, "/a")
			if err := t.server.Restart(zkdev.KeepSessions); err != nil {
				t.Fatal(err)
			}
			time.Sleep(session / 2) // until it is connected again
			wantVersion(t, behind, 1)
		},
		"deleted and ephemeral nodes, and lists": func(t *virtual, _ *zkdev.Client, behind, other *zk.Conn) {
			third, _ := connect(t, t.server)
			create(t, third, "/mine", zk.FlagEphemeral)
			time.Sleep(2 * lag)
			third.Close()
			if _, err := other.Create("/a/b", nil, 0, zk.WorldACL(zk.PermRead)); err != nil {
				t.Fatal(err)
			}
			if !exists(t, behind, "/mine") || exists(t, behind, "/a/b") {
				t.Error("not late")
			}
			time.Sleep(2 * lag)
			if names, _, err := behind.Children("/a"); err != nil || len(names) != 1 || exists(t, behind, "/mine") {
				t.Errorf("%v, %v", names, err)
			}
			if acl, _, err := behind.GetACL("/a/b"); err != nil || acl[0].Perms != zk.PermRead {
				t.Errorf("%v, %v", acl, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { lagging(t, test) })
	}
}

// Watches are told late, each once, before a reply shows the change, whether they were set before
// or during the lag.
func TestLagOfWatches(t *testing.T) {
	lagging(t, func(t *virtual, client *zkdev.Client, behind, other *zk.Conn) {
		client.Lag(0)
		_, _, before, err := behind.ChildrenW("/a")
		if err != nil {
			t.Fatal(err)
		}
		client.Lag(lag)
		_, _, during, err := behind.GetW("/a")
		if err != nil {
			t.Fatal(err)
		}
		set(t, other, "/a")
		create(t, other, "/a/b", 0)
		begun := time.Now()
		for _, events := range []<-chan zk.Event{during, before} {
			<-events
			if late := time.Since(begun); late < lag*9/10 || late > lag*11/10 {
				t.Errorf("told after %v", late)
			}
		}
		wantVersion(t, behind, 1)
	})
}
