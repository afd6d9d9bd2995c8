package zkconn

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

var anyone = zk.ACL{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}

// aclOf reads a node's ACL through a connection's library.
func aclOf(t *testing.T, conn *Conn, path string) []zk.ACL {
	t.Helper()
	acl, _, err := conn.session.Load().zk.GetACL(path)
	if err != nil {
		t.Fatalf("ACL of %s: %v", path, err)
	}
	return acl
}

// protect sets a node's ACL.
func (s *server) protect(t *testing.T, path string, acl ...zk.ACL) {
	t.Helper()
	if _, err := s.hand.session.Load().zk.SetACL(path, acl, AnyVersion); err != nil {
		t.Fatalf("set the ACL of %s: %v", path, err)
	}
}

func TestCredentialsAreSentFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/a", "", 0)
		s.protect(t, "/a", zk.DigestACL(zk.PermAll, "app", "se:cret")...)
		conn := s.open(t, Config{Auth: "app:se:cret"}, nil)
		answers := make(chan error, 3)
		for range 3 { // called before there is a connection
			go func() { _, _, err := conn.Get(t.Context(), "/a"); answers <- err }()
		}
		synctest.Wait()
		s.Disconnect(conn.SessionID())
		time.Sleep(time.Minute) // reconnects
		s.wantRequests(t, "auth ", "getData /a", "getData /a", "getData /a", "auth ")
		if _, _, err := conn.Get(t.Context(), "/a"); err != nil {
			t.Errorf("Get on the second connection: %v", err)
		}
		for range 3 {
			if err := <-answers; err != nil {
				t.Errorf("Get on the first connection: %v", err)
			}
		}
	})
}

func TestRefusedCredentialsFailEveryCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.Control(zkdev.OpAuth, func(*zkdev.Request) zkdev.Action { return zkdev.Refuse(zkdev.AuthFailed) })
		conn := s.open(t, Config{Auth: "app:wrong"}, nil)
		_, _, err := conn.Get(t.Context(), "/a")
		if want := "zookeeper auth /: access denied by the node's ACL"; !errors.Is(err, ErrDenied) || err.Error() != want {
			t.Errorf("Get = %v, want %s", err, want)
		}
		conn.Close()
		s.wantRequests(t, "auth ", "closeSession ")
	})
}

// A reading of its node tells how the server then answers an operation.
func TestRefusedByWhatWasRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		conn := s.open(t, Config{}, nil)
		for name, of := range map[string]func(path string) Op{
			"create": func(path string) Op { return CreateOp(path, nil) },
			"set":    func(path string) Op { return SetOp(path, nil, 1) }, "set any": func(path string) Op { return SetOp(path, nil, AnyVersion) },
			"delete": func(path string) Op { return DeleteOp(path, 1) }, "delete any": func(path string) Op { return DeleteOp(path, AnyVersion) },
			"check": func(path string) Op { return CheckOp(path, 1) }, "check any": func(path string) Op { return CheckOp(path, AnyVersion) },
		} {
			for version := int32(-1); version < 3; version++ { // -1: no node
				path := "/" + strings.ReplaceAll(name, " ", "-") + strconv.Itoa(int(version))
				if version >= 0 {
					s.have(t, path, "", version)
				}
				op := of(path)
				refusal := op.RefusedBy(conn.ReadMany(t.Context(), []Read{{Path: path}})[0])
				_, err := conn.Multi(t.Context(), op)
				want := new(MultiError)
				if errors.As(err, &want); !reflect.DeepEqual(refusal, want.Err) {
					t.Errorf("%s at version %d: refused because of %v, the server says %v", name, version, refusal, want.Err)
				}
			}
		}
		denied := ReadResult{Err: &OpError{Op: "get", Path: "/a", Err: ErrDenied}}
		if err := SetOp("/a", nil, 1).RefusedBy(denied); err != nil {
			t.Errorf("a node that may not be read refuses because of %v", err)
		}
	})
}

func TestEnsureRoot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/prod", "", 0)
		conn := s.open(t, Config{Servers: "zk1/prod/team"}, nil)
		for range 2 {
			if err := conn.EnsureRoot(t.Context(), "/billing/_instances"); err != nil {
				t.Fatal(err)
			}
		}
		conn.Close()
		once := []string{
			"create /prod", "create /prod/team", "create /prod/team/billing", "create /prod/team/billing/_instances",
		}
		s.wantRequests(t, append(append(once, once...), "closeSession ")...)
		for _, r := range s.requests() {
			if r.Flags != 0 {
				t.Errorf("%s has flags %d, want a persistent node", r.Path, r.Flags)
			}
		}
		for _, path := range []string{"/prod/team", "/prod/team/billing", "/prod/team/billing/_instances"} {
			if acl := aclOf(t, s.hand, path); !slices.Equal(acl, []zk.ACL{anyone}) {
				t.Errorf("%s has ACL %v, want everything for anybody", path, acl)
			}
		}
	})
}

// The server checks the permission to create before whether the node exists: an ACL that forbids
// creating siblings of the group's root must not keep the group out.
func TestEnsureRootWithoutCreatePermission(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/there", "", 0)
		s.protect(t, "/", zk.WorldACL(zk.PermRead)...)
		conn := s.open(t, Config{}, nil)
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
		s := serve(t)
		s.have(t, "/prod", "", 0)
		for name, version := range map[string]int32{"c": 6, "d": 2, "e": 3} {
			s.have(t, "/prod/"+name, "", version)
		}
		conn := s.open(t, Config{Servers: "zk1/prod", ACL: "world:anyone:cr"}, nil)
		stats, err := conn.Multi(t.Context(),
			CreateOp("/a", []byte("1")), CreateEphemeralOp("/b", nil), SetOp("/c", []byte("2"), 6),
			DeleteOp("/d", AnyVersion), CheckOp("/e", 3))
		if err != nil || len(stats) != 5 || stats[2].Version != 7 {
			t.Errorf("Multi = %+v, %v; want the changed node's stat at its index", stats, err)
		}
		sent := s.requests()[0].Ops
		want := []string{"create /prod/a", "create /prod/b", "setData /prod/c", "delete /prod/d", "check /prod/e"}
		if got := named(sent); !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q", got, want)
		}
		acl := []zk.ACL{{Perms: zk.PermCreate | zk.PermRead, Scheme: "world", ID: "anyone"}}
		for k, flags := range []int32{0, zk.FlagEphemeral} {
			if got := aclOf(t, s.hand, sent[k].Path); !slices.Equal(got, acl) || sent[k].Flags != flags {
				t.Errorf("%s was created with %v and flags %d, want %v and %d", sent[k].Path, got, sent[k].Flags, acl, flags)
			}
		}
		for path, want := range map[string]string{"/a": "1", "/c": "2"} {
			if data, _, err := conn.Get(t.Context(), path); string(data) != want || err != nil {
				t.Errorf("%s holds %q, %v; want %s", path, data, err, want)
			}
		}
	})
}

func TestMultiNamesTheRefusedOperation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/prod", "", 0)
		for _, name := range []string{"a", "b", "c"} {
			s.have(t, "/prod/"+name, "", 1)
		}
		conn := s.open(t, Config{Servers: "zk1/prod"}, nil)
		_, err := conn.Multi(t.Context(), CheckOp("/a", 1), SetOp("/b", nil, 2), DeleteOp("/c", 1))
		var refusal *MultiError
		if !errors.As(err, &refusal) || refusal.Index != 1 || !errors.Is(err, ErrBadVersion) || IsUnknown(err) {
			t.Fatalf("Multi = %v, want a *MultiError for operation 1", err)
		}
		if want := "operation 1: zookeeper set /b: version has changed"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	})
}

// The node that was read is changed, and nothing of the next node of its path, whenever that has
// come. No proof is left.
func TestMultiOn(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		at   zkdev.Op // before which the node is deleted and created again; 0: never
		want error
	}{
		"the node as it was read":                   {0, nil},
		"another one since the reading":             {zkdev.OpCreate, ErrBadVersion},
		"another one since the proof":               {zkdev.OpExists, ErrBadVersion},
		"another one while the write is on its way": {zkdev.OpMulti, ErrNoNode},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t)
				s.have(t, "/other", "", 0)
				s.have(t, "/job", "", 0)
				conn := s.open(t, Config{}, nil)
				_, other, otherErr := conn.Get(t.Context(), "/other")
				_, stat, err := conn.Get(t.Context(), "/job")
				if err != nil || otherErr != nil {
					t.Fatal(err, otherErr)
				}
				if test.at != 0 {
					s.Control(test.at, func(r *zkdev.Request) zkdev.Action {
						if r.Client != "tested" {
							return zkdev.Pass()
						}
						return zkdev.Delay(time.Second)
					})
					time.AfterFunc(time.Second/2, func() {
						names, _, err := s.hand.Children(t.Context(), "/job")
						ops := []Op{DeleteOp("/job", 0), CreateOp("/job", nil)}
						for _, name := range names {
							ops = append([]Op{DeleteOp("/job/"+name, AnyVersion)}, ops...)
						}
						if _, failed := s.hand.Multi(t.Context(), ops...); failed != nil || err != nil {
							t.Errorf("not created again: %v, %v", failed, err)
						}
					})
				}
				set := SetOp("/job", []byte("new"), stat.Version)
				stats, err := conn.MultiOnAll(t.Context(), []On{{Path: "/other", Czxid: other.Czxid}, {Path: "/job", Czxid: stat.Czxid}}, set)
				if !errors.Is(err, test.want) || IsUnknown(err) || err == nil && (len(stats) != 1 || stats[0].Version != 1) {
					t.Errorf("%+v, %v; want %v", stats, err, test.want)
				}
				data, stat, err := s.hand.Get(t.Context(), "/job")
				_, other, _ = s.hand.Get(t.Context(), "/other")
				if want := test.want == nil; err != nil || (string(data) == "new") != want || stat.NumChildren+other.NumChildren != 0 {
					t.Errorf("it has %q and %d children, %v; written: %v", data, stat.NumChildren, err, want)
				}
			})
		})
	}
}

func TestExistsDistinguishesAbsenceFromFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/there", "", 3)
		conn := s.open(t, Config{}, nil)
		if stat, ok, err := conn.Exists(t.Context(), "/there"); stat.Version != 3 || !ok || err != nil {
			t.Errorf("a node: %+v, %v, %v", stat, ok, err)
		}
		if _, ok, err := conn.Exists(t.Context(), "/absent"); ok || err != nil {
			t.Errorf("no node: %v, %v; want false, nil", ok, err)
		}
		s.Control(zkdev.OpExists, func(*zkdev.Request) zkdev.Action { return zkdev.Refuse(zkdev.NoAuth) })
		if _, ok, err := conn.Exists(t.Context(), "/there"); ok || !errors.Is(err, ErrDenied) {
			t.Errorf("a node that may not be read: %v, %v; want false, ErrDenied", ok, err)
		}
	})
}

func TestCreateEphemeralSequential(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/prod", "", 0)
		s.have(t, "/prod/q", "", 0)
		conn := s.open(t, Config{Servers: "zk1/prod", ACL: "world:anyone:cdr"}, nil)
		for _, want := range []string{"/q/me-0000000000", "/q/me-0000000001"} {
			got, err := conn.CreateEphemeralSequential(t.Context(), "/q/me-", []byte("data"))
			if got != want || err != nil {
				t.Fatalf("CreateEphemeralSequential = %q, %v; want %s, the path without the chroot", got, err, want)
			}
			data, stat, err := conn.Get(t.Context(), got)
			if string(data) != "data" || stat.EphemeralOwner != conn.SessionID() || err != nil {
				t.Errorf("%s holds %q, %+v, %v; want data that lives with session %#x", got, data, stat, err, conn.SessionID())
			}
			acl := []zk.ACL{{Perms: zk.PermCreate | zk.PermDelete | zk.PermRead, Scheme: "world", ID: "anyone"}}
			if has := aclOf(t, s.hand, "/prod"+got); !slices.Equal(has, acl) {
				t.Errorf("%s has ACL %v, want %v", got, has, acl)
			}
		}
		got, err := conn.CreateEphemeralSequential(t.Context(), "/absent/me-", nil)
		if got != "" || !errors.Is(err, ErrNoNode) || IsUnknown(err) {
			t.Errorf("below no node: %q, %v; want ErrNoNode", got, err)
		}
	})
}

// After a lost reply, the node exists under an unknown name and is found by its prefix.
func TestCreateEphemeralSequentialWithLostReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/q", "", 0)
		conn := s.open(t, Config{}, nil)
		s.Control(zkdev.OpCreate, func(*zkdev.Request) zkdev.Action { return zkdev.CutAfter() })
		got, err := conn.CreateEphemeralSequential(t.Context(), "/q/me-", nil)
		if got != "" || !IsUnknown(err) {
			t.Errorf("CreateEphemeralSequential = %q, %v; want an unknown outcome", got, err)
		}
		time.Sleep(2 * time.Second) // reconnects
		names, _, err := conn.Children(t.Context(), "/q")
		if !slices.Equal(names, []string{"me-0000000000"}) || err != nil {
			t.Errorf("children %q, %v; want the one node, created once", names, err)
		}
	})
}

func TestChildren(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/prod", "", 0)
		s.have(t, "/prod/a", "", 4)
		s.have(t, "/prod/a/x", "", 0)
		s.have(t, "/prod/a/y", "", 0)
		conn := s.open(t, Config{Servers: "zk1/prod"}, nil)
		names, stat, err := conn.Children(t.Context(), "/a")
		slices.Sort(names)
		if !slices.Equal(names, []string{"x", "y"}) || stat.Version != 4 || stat.NumChildren != 2 || err != nil {
			t.Errorf("Children = %q, %+v, %v; want x and y", names, stat, err)
		}
		if names, _, err := conn.Children(t.Context(), "/"); !slices.Equal(names, []string{"a"}) || err != nil {
			t.Errorf("below the chroot: %q, %v; want a", names, err)
		}
	})
}

func TestInheritACLAppliesToNodesCreatedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		taken := []zk.ACL{anyone, {Perms: zk.PermRead, Scheme: "digest", ID: "app:hash"}}
		s.have(t, "/there", "", 0)
		s.protect(t, "/there", taken...)
		conn := s.open(t, Config{}, nil)
		for _, path := range []string{"/absent", "/there"} { // in this order: an adopted ACL stays
			if err := conn.InheritACL(t.Context(), path); err != nil {
				t.Fatal(err)
			}
			if err := conn.EnsureRoot(t.Context(), path+"/x"); err != nil {
				t.Fatal(err)
			}
		}
		for path, want := range map[string][]zk.ACL{"/absent": {anyone}, "/absent/x": {anyone}, "/there/x": taken} {
			if got := aclOf(t, s.hand, path); !slices.Equal(got, want) {
				t.Errorf("%s was created with %v, want %v", path, got, want)
			}
		}
	})
}
