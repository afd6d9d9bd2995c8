package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
)

// roles are the columns of a table, in their order.
var roles = []string{admin.RoleViewers, admin.RoleOperators, admin.RoleAdmins, admin.RoleInstances, admin.RoleGuards, admin.RoleSenders}

// Roles is who has which role, and the table of permissions.
func (p Page) Roles(who admin.Roles, table []admin.RoleRow) {
	t := &output.Table{}
	t.Row("ROLE", "WHO")
	for _, role := range roles {
		t.Row(role, strings.Join(who[role], ", "))
	}
	t.Write(p.Out, "")
	fmt.Fprintln(p.Out)
	t = &output.Table{}
	header := []string{"NODE"}
	for _, role := range roles {
		header = append(header, strings.ToUpper(role))
	}
	t.Row(header...)
	for _, row := range table {
		cells := []string{row.Kind}
		for _, role := range roles {
			cells = append(cells, row.Permissions[role])
		}
		t.Row(cells...)
	}
	t.Write(p.Out, "")
}

// maxOtherLists is how many nodes a page names.
const maxOtherLists = 50

// OtherLists is a table of the nodes whose access list is not the one of the roles.
func (p Page) OtherLists(other []admin.OtherList) {
	if len(other) == 0 {
		return
	}
	t := &output.Table{}
	t.Row("NODE", "HAS", "INSTEAD OF")
	for _, o := range other[:min(len(other), maxOtherLists)] {
		t.Row(o.Path, without(o.Has, o.Want), without(o.Want, o.Has))
	}
	t.Write(p.Out, "")
	if more := len(other) - maxOtherLists; more > 0 {
		fmt.Fprintf(p.Out, "and %d more\n", more)
	}
}

// without is the entries of one list that are not in another.
func without(of, in []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(of), func(entry string) bool { return slices.Contains(in, entry) }), ", ")
}
