package zkconn

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
)

func TestCredentialsGoAheadOfEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		p.answer = func(r request) reply {
			if r.op == "auth" {
				return reply{}
			}
			return node("", 1)
		}
		conn := p.open(t, Config{Auth: "app:se:cret"}, nil)
		for range 3 { // asked for before there is a connection
			go func() { _, _, _ = conn.Get(t.Context(), "/a") }()
		}
		synctest.Wait()
		p.hangUp()
		time.Sleep(time.Minute) // connected again, by itself
		conn.Close()
		wantRequests(t, p, "auth digest app:se:cret", "get /a", "get /a", "get /a", "auth digest app:se:cret", "close ")
	})
}

func TestRefusedCredentialsRefuseEveryCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		p.answer = func(request) reply { return reply{code: codeAuthFailed} }
		conn := p.open(t, Config{Auth: "app:wrong"}, nil)
		_, _, err := conn.Get(t.Context(), "/a")
		if want := "zookeeper auth /: access denied by the node's ACL"; !errors.Is(err, ErrDenied) || err.Error() != want {
			t.Errorf("Get = %v, want %s", err, want)
		}
		conn.Close()
		wantRequests(t, p, "auth digest app:wrong", "close ")
	})
}

func TestEnsureRoot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		there := map[string]bool{"/prod": true}
		p.answer = func(r request) reply {
			if want := []zk.ACL{{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}}; !slices.Equal(r.acl, want) || r.flags != 0 {
				t.Errorf("%v has ACL %v and flags %d, want a persistent node with %v", r, r.acl, r.flags, want)
			}
			if there[r.path] {
				return reply{code: codeNodeExists}
			}
			there[r.path] = true
			return reply{body: putText(nil, r.path)}
		}
		conn := p.open(t, Config{Servers: "zk1/prod/team"}, nil)
		for range 2 {
			if err := conn.EnsureRoot(t.Context(), "/billing/_instances"); err != nil {
				t.Fatal(err)
			}
		}
		conn.Close()
		once := []string{
			"create /prod", "create /prod/team", "create /prod/team/billing", "create /prod/team/billing/_instances",
		}
		wantRequests(t, p, append(append(once, once...), "close ")...)
	})
}

// Whether one may create is asked before whether the node is there: an ACL that lets
// nobody create beside the group's own root must not keep the group out.
func TestEnsureRootWhereItMayNotCreate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		p.answer = func(r request) reply {
			switch {
			case r.op == "create":
				return reply{code: codeNoAuth}
			case r.path == "/there":
				return reply{body: putStat(nil, 0)}
			}
			return reply{code: codeNoNode}
		}
		conn := p.open(t, Config{}, nil)
		if err := conn.EnsureRoot(t.Context(), "/there"); err != nil {
			t.Errorf("a node that is there: %v, want nil", err)
		}
		var op *OpError
		if err := conn.EnsureRoot(t.Context(), "/absent"); !errors.Is(err, ErrDenied) || !errors.As(err, &op) || op.Path != "/absent" {
			t.Errorf("a node that is not: %v, want ErrDenied for /absent", err)
		}
	})
}

func TestMulti(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		var sent []request
		p.answer = func(r request) reply {
			sent = r.ops
			return multiReply(r, -1, 0)
		}
		conn := p.open(t, Config{Servers: "zk1/prod", Auth: "", ACL: "world:anyone:cr"}, nil)
		stats, err := conn.Multi(t.Context(),
			CreateOp("/a", []byte("1")), CreateEphemeralOp("/b", nil), SetOp("/c", []byte("2"), 6),
			DeleteOp("/d", AnyVersion), CheckOp("/e", 3))
		if err != nil || len(stats) != 5 || stats[2].Version != 7 {
			t.Errorf("Multi = %+v, %v; want the changed node's stat at its index", stats, err)
		}
		var got []string
		for _, op := range sent {
			got = append(got, op.String())
		}
		want := []string{"create /prod/a", "create /prod/b", "set /prod/c", "delete /prod/d", "check /prod/e"}
		if !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q", got, want)
		}
		acl := []zk.ACL{{Perms: zk.PermCreate | zk.PermRead, Scheme: "world", ID: "anyone"}}
		if !slices.Equal(sent[0].acl, acl) || sent[0].flags != 0 || sent[1].flags != zk.FlagEphemeral {
			t.Errorf("created with %v, flags %d and %d; want %v, a persistent and an ephemeral node",
				sent[0].acl, sent[0].flags, sent[1].flags, acl)
		}
	})
}

func TestMultiNamesTheOperationThatRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		p.answer = func(r request) reply { return multiReply(r, 1, codeBadVersion) }
		conn := p.open(t, Config{Servers: "zk1/prod"}, nil)
		_, err := conn.Multi(t.Context(), CheckOp("/a", 1), SetOp("/b", nil, 2), DeleteOp("/c", 3))
		var refusal *MultiError
		if !errors.As(err, &refusal) || refusal.Index != 1 || !errors.Is(err, ErrBadVersion) || IsUnknown(err) {
			t.Fatalf("Multi = %v, want a *MultiError for operation 1", err)
		}
		if want := "operation 1: zookeeper set /b: version has changed"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	})
}

func TestExistsTellsAbsenceFromFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		p.answer = func(r request) reply {
			switch r.path {
			case "/there":
				return reply{body: putStat(nil, 3)}
			case "/secret":
				return reply{code: codeNoAuth}
			}
			return reply{code: codeNoNode}
		}
		conn := p.open(t, Config{}, nil)
		if stat, ok, err := conn.Exists(t.Context(), "/there"); stat.Version != 3 || !ok || err != nil {
			t.Errorf("a node: %+v, %v, %v", stat, ok, err)
		}
		if _, ok, err := conn.Exists(t.Context(), "/absent"); ok || err != nil {
			t.Errorf("no node: %v, %v; want false, nil", ok, err)
		}
		if _, ok, err := conn.Exists(t.Context(), "/secret"); ok || !errors.Is(err, ErrDenied) {
			t.Errorf("a node that may not be read: %v, %v; want false, ErrDenied", ok, err)
		}
	})
}

func TestChildren(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		p.answer = func(request) reply {
			return reply{body: putStat(putText(putText(put(nil, 2), "x"), "y"), 4)}
		}
		conn := p.open(t, Config{Servers: "zk1/prod"}, nil)
		names, stat, err := conn.Children(t.Context(), "/a")
		if !slices.Equal(names, []string{"x", "y"}) || stat.Version != 4 || err != nil {
			t.Errorf("Children = %q, %+v, %v; want x and y", names, stat, err)
		}
	})
}

func TestACLOfIsThatOfTheNodesCreatedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		var created [][]zk.ACL
		p.answer = func(r request) reply {
			switch {
			case r.op == "create":
				created = append(created, r.acl)
				return reply{body: putText(nil, r.path)}
			case r.path == "/there":
				acl := putText(putText(put(put(nil, 1), zk.PermRead), "digest"), "app:hash")
				return reply{body: putStat(acl, 0)}
			}
			return reply{code: codeNoNode}
		}
		conn := p.open(t, Config{}, nil)
		for _, path := range []string{"/absent", "/there"} {
			if err := conn.ACLOf(t.Context(), path); err != nil {
				t.Fatal(err)
			}
			if err := conn.EnsureRoot(t.Context(), path+"/x"); err != nil {
				t.Fatal(err)
			}
		}
		world := zk.ACL{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}
		taken := zk.ACL{Perms: zk.PermRead, Scheme: "digest", ID: "app:hash"}
		if len(created) != 4 || created[0][0] != world || created[1][0] != world || created[2][0] != taken || created[3][0] != taken {
			t.Errorf("created with %v, want the default for what is below /absent, then %v", created, taken)
		}
	})
}

// A server that accepts and does not greet is left after the session timeout asked for.
func TestServerThatDoesNotGreetIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		p.answer = func(request) reply { return node("", 1) }
		mute := true
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			if !mute {
				return p.dial(ctx, network, address)
			}
			mute = false
			client, server := net.Pipe()
			go func() {
				defer func() { _ = server.Close() }()
				for {
					if _, err := readFrame(server); err != nil {
						return
					}
				}
			}()
			return client, nil
		}
		conn, err := Open(Config{
			Servers: "zk1,zk2", SessionTimeout: 6 * time.Second, Dial: dial, Logger: discard,
		}, func(Event) {})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		start := time.Now()
		if _, _, err := conn.Get(t.Context(), "/a"); err != nil || time.Since(start) != 6*time.Second {
			t.Errorf("Get = %v after %v, want it answered by the other server after 6s", err, time.Since(start))
		}
	})
}

func TestOpenRefusesBadConfig(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		`servers "": has an empty address, want "host:port,host:port/chroot"`: {},
		`ACL: entry "auth::r" needs Auth`:                                     {Servers: "zk1", ACL: "auth::r"},
	} {
		if conn, err := Open(cfg, nil); err == nil || err.Error() != want {
			t.Errorf("Open(%+v) = %v, %v; want %s", cfg, conn, err, want)
		}
	}
}
