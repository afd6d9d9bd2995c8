package zkconn

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

func TestPerms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "r": "r", "awrdc": "cdrwa", "rx": "r"} {
		if got := ParsePerms(text).String(); got != want {
			t.Errorf("ParsePerms(%q) = %q, want %q", text, got, want)
		}
	}
	if got, want := DigestIdentity("app", "s3cret"), "digest:"+zk.DigestACL(zk.PermAll, "app", "s3cret")[0].ID; got != want {
		t.Errorf("DigestIdentity = %q, want %q", got, want)
	}
}

// naming gives each node but the list's own the permission to be read by the one whom data names.
func naming(data []byte) (ACLs, error) {
	if len(data) == 0 {
		return nil, errors.New("nobody is named")
	}
	return func(path string) []Grant {
		if path == "/other" {
			return nil
		}
		return []Grant{{"ip:10.0.0." + string(data), ParsePerms("r")}, {"world:anyone", ParsePerms("ra")}}
	}, nil
}

// A connection creates nodes with the lists of the record as it is: from the beginning, once it is
// made and changed, in the next session, and no longer when it is gone. One that cannot be read
// changes nothing.
func TestFollowACLs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		conn := s.open(t, Config{}, nil)
		made := 0
		creates := func(what string, want string) {
			t.Helper()
			synctest.Wait()
			made++
			path := "/" + strings.Repeat("x", made)
			if err := conn.EnsureRoot(t.Context(), path); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			acl := []zk.ACL{anyone}
			if want != "" {
				acl = []zk.ACL{{Perms: zk.PermRead, Scheme: "ip", ID: "10.0.0." + want}, {Perms: zk.PermRead | zk.PermAdmin, Scheme: "world", ID: "anyone"}}
			}
			if got := aclOf(t, s.hand, path); !slices.Equal(got, acl) {
				t.Errorf("%s: a node is created with %v, want %v", what, got, acl)
			}
		}
		for range 2 { // the second call only reads
			if found, err := conn.FollowACLs(t.Context(), "/acl", naming); found || err != nil {
				t.Fatalf("FollowACLs = %v, %v; want no record", found, err)
			}
		}
		creates("without a record", "")
		s.have(t, "/acl", "1", 0)
		creates("once it is made", "1")
		if err := conn.EnsureRoot(t.Context(), "/other"); err != nil {
			t.Fatal(err)
		}
		if got := aclOf(t, s.hand, "/other"); !slices.Equal(got, []zk.ACL{anyone}) {
			t.Errorf("a node of which the record says nothing has %v, want the connection's own", got)
		}
		s.change(t, SetOp("/acl", []byte("2"), AnyVersion))
		creates("once it is changed", "2")
		s.change(t, SetOp("/acl", nil, AnyVersion))
		creates("when it cannot be read", "2")
		was := conn.SessionID()
		if err := s.ExpireSession(was); err != nil {
			t.Fatal(err)
		}
		s.change(t, SetOp("/acl", []byte("3"), AnyVersion))
		for conn.SessionID() == was || conn.SessionID() == 0 {
			time.Sleep(time.Second)
		}
		creates("in the next session", "3")
		s.change(t, SetOp("/acl", []byte("4"), AnyVersion))
		creates("once it is changed there", "4")
		s.change(t, DeleteOp("/acl", AnyVersion))
		creates("once it is gone", "")
	})
}

// A record that is there, and cannot be read, is an error at first.
func TestFollowACLsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/acl", "", 0)
		conn := s.open(t, Config{}, nil)
		if found, err := conn.FollowACLs(t.Context(), "/acl", naming); !found || err == nil || err.Error() != "nobody is named" {
			t.Errorf("FollowACLs = %v, %v; want the error of reading it", found, err)
		}
		s.protect(t, "/acl", zk.DigestACL(zk.PermAll, "somebody", "else")...)
		if _, err := conn.FollowACLs(t.Context(), "/acl", naming); !errors.Is(err, ErrDenied) {
			t.Errorf("FollowACLs: %v, want %v", err, ErrDenied)
		}
	})
}

// With lists of a group that has roles, a connection creates nodes although anybody may change the
// root, and a transaction is as long as its lists are.
func TestUseACLs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/g", "", 0)
		conn := s.open(t, Config{Auth: appAuth}, nil)
		if err := conn.InheritACL(t.Context(), "/g"); !errors.Is(err, ErrOpenACL) {
			t.Fatalf("InheritACL: %v, want %v", err, ErrOpenACL)
		}
		list := []Grant{{conn.Identity(), ParsePerms("cdrwa")}, {"digest:long:" + strings.Repeat("u", 1000), ParsePerms("r")}, {"world:anyone", ParsePerms("r")}}
		short := conn.Size(CreateOp("/g/x", nil))
		conn.UseACLs(func(string) []Grant { return list })
		if long := conn.Size(CreateOp("/g/x", nil)); long < short+900 {
			t.Errorf("a create with a list of %d bytes counts %d, and %d without", 1000, long, short)
		}
		if err := conn.EnsureRoot(t.Context(), "/g/x"); err != nil {
			t.Fatal(err)
		}
		if got, err := conn.ACL(t.Context(), "/g/x"); err != nil || !slices.Equal(got, list) {
			t.Errorf("ACL = %v, %v; want %v", got, err, list)
		}
		var open *OpenACLError
		if err := conn.CheckClosed(t.Context(), "/g"); !errors.As(err, &open) || !strings.Contains(err.Error(), "swctl acl init") {
			t.Errorf("CheckClosed: %v, want the command that mends it", err)
		}
		if err := s.hand.SetACL(t.Context(), "/g", list); err != nil {
			t.Fatal(err)
		}
		if err := conn.CheckClosed(t.Context(), "/g"); err != nil {
			t.Errorf("CheckClosed where anybody may read, as is meant: %v", err)
		}
		if _, err := conn.ACL(t.Context(), "/none"); !errors.Is(err, ErrNoNode) {
			t.Errorf("ACL of no node: %v, want %v", err, ErrNoNode)
		}
		s.Control(zkdev.OpSetACL, func(*zkdev.Request) zkdev.Action { return zkdev.CutAfter() })
		if err := conn.SetACL(t.Context(), "/g", list); !IsUnknown(err) {
			t.Errorf("SetACL without an answer: %v, want an unknown outcome", err)
		}
	})
}

// The proof of MultiOnAll goes below the given parent.
func TestProofBelow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/job", "", 0)
		s.have(t, "/job/register", "", 0)
		s.protect(t, "/job", zk.WorldACL(zk.PermRead)...)
		conn := s.open(t, Config{}, nil)
		stat, _, err := conn.Exists(t.Context(), "/job")
		if err != nil {
			t.Fatal(err)
		}
		set := SetOp("/job/register", []byte("x"), 0)
		if _, err := conn.MultiOn(t.Context(), "/job", stat.Czxid, set); !errors.Is(err, ErrDenied) {
			t.Errorf("MultiOn: %v, want %v", err, ErrDenied)
		}
		if _, err := conn.MultiOnAll(t.Context(), []On{{"/job", stat.Czxid + 1, "/job/register"}}, set); !errors.Is(err, ErrBadVersion) {
			t.Errorf("MultiOnAll for another node: %v, want %v", err, ErrBadVersion)
		}
		if stats, err := conn.MultiOnAll(t.Context(), []On{{"/job", stat.Czxid, "/job/register"}}, set); err != nil || len(stats) != 1 || stats[0].Version != 1 {
			t.Errorf("MultiOnAll: %+v, %v", stats, err)
		}
		if names, _, err := conn.Children(t.Context(), "/job/register"); len(names) > 0 || err != nil {
			t.Errorf("left over: %q, %v", names, err)
		}
	})
}
