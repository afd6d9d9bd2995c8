package access_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/access"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// DESIGN.md has the table.
func TestTableInDesign(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	fmt.Fprintf(&table, "| node | %s |\n|%s\n", strings.Join(access.Roles, " | "), strings.Repeat("---|", len(access.Roles)+1))
	for _, row := range access.Table {
		fmt.Fprintf(&table, "| `%s` | %s |\n", row.Kind, strings.Join(row.Perms[:], " | "))
	}
	page, err := os.ReadFile("../../DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.ReplaceAll(table.String(), "|  |", "| |"); !strings.Contains(strings.ReplaceAll(string(page), "|  |", "| |"), want) {
		t.Errorf("DESIGN.md has another table than this:\n%s", want)
	}
}

// Of each kind there is one row, admins may do everything, nobody else changes a list or the roles,
// and who may only read changes nothing.
func TestTable(t *testing.T) {
	t.Parallel()
	seen := make(map[zkrec.Kind]bool)
	for _, row := range access.Table {
		if seen[row.Kind] {
			t.Errorf("%s has two rows", row.Kind)
		}
		seen[row.Kind] = true
		for i, role := range access.Roles {
			perms := row.Perms[i]
			if got := zkconn.ParsePerms(perms).String(); got != perms {
				t.Errorf("%s, %s: %q is not as ZooKeeper's shell writes it: %q", row.Kind, role, perms, got)
			}
			switch {
			case role == access.Admins:
				if perms != "cdrwa" {
					t.Errorf("%s: admins have %q", row.Kind, perms)
				}
			case strings.Contains(perms, "a"), row.Kind == zkrec.KindAccess && perms != "r", role == access.Viewers && perms != "r":
				t.Errorf("%s: %s have %q", row.Kind, role, perms)
			}
		}
	}
}

// An identity with several roles may do all that one of them may.
func TestLists(t *testing.T) {
	t.Parallel()
	tree := zkrec.NewTree("billing")
	lists := access.Of(tree, zkrec.Access{Roles: map[string][]string{
		access.Admins: {"digest:a:1"}, access.Operators: {"digest:o:1", "digest:both:1"}, access.Guards: {"digest:both:1"}, access.Viewers: {"world:anyone"},
	}})
	for path, want := range map[string]string{
		tree.Root():          "[{digest:a:1 cdrwa} {digest:both:1 r} {digest:o:1 r} {world:anyone r}]",
		tree.Instances():     "[{digest:a:1 cdrwa} {digest:both:1 dr} {digest:o:1 r} {world:anyone r}]",
		tree.Register("pay"): "[{digest:a:1 cdrwa} {digest:both:1 cdrw} {digest:o:1 cdrw} {world:anyone r}]",
		"/another":           "[]",
	} {
		if got := fmt.Sprint(lists.At(path)); got != want {
			t.Errorf("%s has %s, want %s", path, got, want)
		}
	}
}

func TestNeeded(t *testing.T) {
	t.Parallel()
	tree := zkrec.NewTree("billing")
	for want, refused := range map[string][]zkconn.OpError{
		access.Viewers:   {{Op: "get", Path: tree.Tick("pay")}, {Op: "children", Path: tree.Root()}, {Op: "check", Path: tree.Job("pay")}},
		access.Operators: {{Op: "set", Path: tree.Register("pay")}, {Op: "create", Path: tree.Request("pay", "1")}, {Op: "delete", Path: tree.Order("app-1")}},
		access.Admins:    {{Op: "set", Path: tree.Job("pay")}, {Op: "create", Path: tree.Job("pay")}, {Op: "delete", Path: tree.Tick("pay")}, {Op: "setACL", Path: tree.Register("pay")}},
		"":               {{Op: "get", Path: "/another"}, {Op: "create", Path: "/another"}},
	} {
		for _, r := range refused {
			if got := access.Needed(tree, &r); got != want {
				t.Errorf("%s %s needs %q, want %q", r.Op, r.Path, got, want)
			}
		}
	}
	if !slices.Contains(access.Roles, access.Needed(tree, &zkconn.OpError{Op: "create", Path: tree.NewDeed(zkrec.Deed{})})) {
		t.Error("nobody may write the log")
	}
}
