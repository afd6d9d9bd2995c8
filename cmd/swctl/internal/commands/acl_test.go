package commands

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
)

func (f *fakeClient) Roles(ctx context.Context) (admin.Roles, error) {
	return f.roles, f.begin(ctx, "Roles")
}

func (f *fakeClient) SetRoles(ctx context.Context, roles admin.Roles) (admin.RolesSet, error) {
	f.roles = roles
	return admin.RolesSet{Nodes: 120, Changed: 118}, f.begin(ctx, "SetRoles")
}

func (f *fakeClient) CheckRoles(ctx context.Context) (admin.RolesCheck, error) {
	return f.check, f.begin(ctx, "CheckRoles")
}

func TestACLGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.roles = admin.Roles{
		admin.RoleAdmins:  {admin.DigestIdentity("alice", "pw")},
		admin.RoleViewers: {admin.DigestIdentity("bob", "pw"), "world:anyone"},
	}
	h.fake.check = admin.RolesCheck{Own: []string{"admins"}, Nodes: 120, Other: []admin.OtherList{}}
	texts := []string{h.transcript("acl", "show"), h.transcript("acl", "check")}
	h.fake.check.Own = []string{}
	h.fake.check.Other = []admin.OtherList{{Path: "/billing/job/tick", Has: []string{"digest:alice:2kyp+e... cdrwa", "world:anyone rw"}, Want: []string{"digest:alice:2kyp+e... cdrwa", "world:anyone r"}}}
	texts = append(texts, h.transcript("acl", "check"), h.transcript("acl", "check", "-o", "json"), h.transcript("acl", "show", "-o", "json"), h.transcript("acl", "init", "-o", "json"))
	h.fake.fail["Roles"] = admin.ErrNoRoles
	h.fake.fail["SetRoles"] = fmt.Errorf("set roles: %w: app-1", admin.ErrCutOff)
	texts = append(texts, h.transcript("acl", "show"), h.transcript("acl", "init"), h.transcript("acl", "init", "x"), h.transcript("acl"))
	golden(t, "acl", strings.Join(texts, "\n"))
}

// The files of the roles hold identities in several forms. One with a password must be a secret.
func TestACLInit(t *testing.T) {
	t.Parallel()
	file := func(content string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	alice := admin.DigestIdentity("alice", "pass:word")
	bob := admin.DigestIdentity("bob", "pw")
	admins := file("# who may all\r\n\nalice:pass:word\r\n"+strings.TrimPrefix(bob, "digest:"), 0o600)
	viewers := file("world:anyone\nip:10.1.0.0/16\n"+bob+"\n", 0o644)

	h := newHarness(t)
	if code := h.exec("acl", "init", "--admins", admins, "--viewers", viewers); code != cmdline.ExitOK || h.out.String() != "120 nodes, 118 access lists changed\n" {
		t.Errorf("exit %d, stdout %q, stderr %q", code, h.out.String(), h.errs.String())
	}
	for role, want := range map[string][]string{admin.RoleAdmins: {alice, bob}, admin.RoleViewers: {"world:anyone", "ip:10.1.0.0/16", bob}, admin.RoleOperators: nil} {
		if got := h.fake.roles[role]; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", role, got, want)
		}
	}
	for what, test := range map[string]struct{ path, want string }{
		"a secret that others may read": {file("a:b\n", 0o644), "others may read or change it (mode 0644)"},
		"no colon":                      {file("secret\n", 0o600), "line 1 is not user:password"},
		"nobody":                        {file("# nobody\n", 0o600), "has no identity"},
		"no file":                       {filepath.Join(t.TempDir(), "none"), "no such file"},
	} {
		code := h.exec("acl", "init", "--admins", test.path)
		if code != cmdline.ExitUsage || !strings.Contains(h.errs.String(), test.want) || strings.Contains(h.errs.String(), "secret\n") {
			t.Errorf("%s: exit %d, stderr %q; want %q", what, code, h.errs.String(), test.want)
		}
	}
}
