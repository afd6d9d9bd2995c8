package house

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// TestWaysNameWhatExists holds DESIGN.md's way of a tick and of a takeover to the code: every
// function, method and type that they name exists in the package that they name.
func TestWaysNameWhatExists(t *testing.T) {
	t.Parallel()
	_, ways, found := strings.Cut(readFile(t, "singleworker/DESIGN.md"), "### The way of a tick")
	ways, _, end := strings.Cut(ways, "`singleworker/internal/house/arrows_test.go`")
	if !found || !end {
		t.Fatal("DESIGN.md has no section on the way of a tick, or it does not end where it did")
	}
	names := regexp.MustCompile("`([a-z]+)\\.(?:\\w+\\.)?(\\w+)`").FindAllStringSubmatch(ways, -1)
	if len(names) < 20 {
		t.Errorf("%d names found, want at least 20", len(names))
	}
	declared := make(map[string]map[string]bool)
	for _, name := range names {
		pkg := name[1]
		if declared[pkg] == nil {
			declared[pkg] = declaredIn(t, pkg)
		}
		if !declared[pkg][name[2]] {
			t.Errorf("DESIGN.md names %s, which does not exist", name[0])
		}
	}
}

// declaredIn lists the functions, methods and types of a package below internal.
func declaredIn(t *testing.T, pkg string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, file := range parseRoom(t, pkg) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				names[n.Name.Name] = true
			case *ast.TypeSpec:
				names[n.Name.Name] = true
			case *ast.InterfaceType:
				for _, method := range n.Methods.List {
					for _, name := range method.Names {
						names[name.Name] = true
					}
				}
			}
			return true
		})
	}
	return names
}
