package zkconn

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
)

const appAuth = "app:s3cret"

func TestWhatAnybodyMayChangeIsNotClosed(t *testing.T) {
	t.Parallel()
	own := zk.DigestACL(zk.PermAll, "app", "s3cret")[0]
	world := func(perms int32) zk.ACL { return zk.ACL{Perms: perms, Scheme: "world", ID: "anyone"} }
	near := zk.ACL{Perms: zk.PermAll, Scheme: "ip", ID: "127.0.0.1"}
	for name, row := range map[string]struct {
		cfg  Config
		acl  []zk.ACL
		open string // who is named, or ""
	}{
		"our own":                     {Config{Auth: appAuth}, []zk.ACL{own}, ""},
		"others read":                 {Config{Auth: appAuth}, []zk.ACL{own, world(zk.PermRead)}, ""},
		"a second user":               {Config{Auth: appAuth}, append(zk.DigestACL(zk.PermAll, "ops", "x"), own), ""},
		"a stranger's":                {Config{Auth: appAuth}, []zk.ACL{world(zk.PermAll)}, "world:anyone"},
		"ours and everybody's":        {Config{Auth: appAuth}, []zk.ACL{own, world(zk.PermAll)}, "world:anyone"},
		"others create":               {Config{Auth: appAuth}, []zk.ACL{own, world(zk.PermCreate)}, "world:anyone"},
		"others write":                {Config{Auth: appAuth}, []zk.ACL{own, world(zk.PermWrite)}, "world:anyone"},
		"others delete":               {Config{Auth: appAuth}, []zk.ACL{own, world(zk.PermDelete)}, "world:anyone"},
		"others administer":           {Config{Auth: appAuth}, []zk.ACL{own, world(zk.PermAdmin)}, "world:anyone"},
		"an address":                  {Config{Auth: appAuth}, []zk.ACL{own, near}, "ip:127.0.0.1"},
		"an address that was meant":   {Config{Auth: appAuth, ACL: "auth::cdrwa,ip:127.0.0.1:cdrwa"}, []zk.ACL{own, near}, ""},
		"open as it was meant":        {Config{Auth: appAuth, ACL: "auth::cdrwa,world:anyone:cdrwa"}, []zk.ACL{own, world(zk.PermAll)}, ""},
		"more open than it was meant": {Config{Auth: appAuth, ACL: "auth::cdrwa,world:anyone:rc"}, []zk.ACL{own, world(zk.PermAll)}, "world:anyone"},
		"without credentials":         {Config{}, []zk.ACL{world(zk.PermAll)}, ""},
		"no credentials but an ACL":   {Config{ACL: "world:anyone:r"}, []zk.ACL{world(zk.PermAll)}, "world:anyone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t)
				s.have(t, "/prod", "", 0)
				s.have(t, "/prod/g", "", 0)
				s.protect(t, "/prod/g", row.acl...)
				row.cfg.Servers = "zk1/prod"
				conn := s.open(t, row.cfg, nil)
				err := conn.CheckClosed(t.Context(), "/absent", "/g")
				if row.open == "" {
					if err != nil {
						t.Errorf("CheckClosed: %v, want nil", err)
					}
					return
				}
				var open *OpenACLError
				if !errors.As(err, &open) || !errors.Is(err, ErrOpenACL) || open.Who != row.open || open.Path != "/prod/g" {
					t.Fatalf("CheckClosed: %v (%+v), want %s", err, open, row.open)
				}
				if text := err.Error(); strings.Contains(text, "s3cret") || strings.Contains(text, own.ID) ||
					!strings.Contains(text, "setAcl -R /prod/g "+open.Want) {
					t.Errorf("the text is %q", text)
				}
			})
		})
	}
}

// With the ACL of an open root, anybody could change nodes that an operator's tool creates. With
// another one, the application may not be able to. So nothing is created.
func TestNothingIsCreatedBelowAnOpenRoot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/g", "", 0)
		conn := s.open(t, Config{Auth: appAuth}, nil)
		if err := conn.InheritACL(t.Context(), "/g"); !errors.Is(err, ErrOpenACL) {
			t.Fatalf("InheritACL: %v, want %v", err, ErrOpenACL)
		}
		_, multi := conn.Multi(t.Context(), SetOp("/g", []byte("x"), 0), CreateOp("/g/job", nil))
		_, sequential := conn.CreateEphemeralSequential(t.Context(), "/g/n-", nil)
		for what, err := range map[string]error{
			"Multi": multi, "CreateEphemeralSequential": sequential, "EnsureRoot": conn.EnsureRoot(t.Context(), "/g/job"),
		} {
			if !errors.Is(err, ErrOpenACL) {
				t.Errorf("%s: %v, want %v", what, err, ErrOpenACL)
			}
		}
		if names, _, err := s.hand.Children(t.Context(), "/g"); err != nil || len(names) > 0 {
			t.Errorf("below the root are %q, %v; want nothing", names, err)
		}
		if _, err := conn.Multi(t.Context(), SetOp("/g", []byte("x"), 0)); err != nil {
			t.Errorf("what there is cannot be changed: %v", err)
		}

		own := zk.DigestACL(zk.PermAll, "app", "s3cret")
		s.protect(t, "/g", own...)
		again := s.open(t, Config{Auth: appAuth}, nil)
		if err := again.InheritACL(t.Context(), "/g"); err != nil {
			t.Fatal(err)
		}
		if err := again.EnsureRoot(t.Context(), "/g/job"); err != nil {
			t.Fatal(err)
		}
		if acl := aclOf(t, again, "/g/job"); !slices.Equal(acl, own) {
			t.Errorf("the ACL is %v, want %v", acl, own)
		}
	})
}
