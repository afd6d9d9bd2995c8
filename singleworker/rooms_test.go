package singleworker_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rooms are the parts of the coordinator, from the bottom up: each may import, and so call, those
// before it. Go has no import cycles; what could still call back up is a func or an interface that a
// room keeps, so neither is allowed but for those listed in mayKeep.
var rooms = []string{"session", "member", "catalog", "owner", "journal", "keeper", "coord"}

// mayKeep lists the fields through which a room may call code that it does not know.
var mayKeep = map[string]string{
	"session.Loop.handler":     "the loop drives the switchboard",
	"session.Loop.turn":        "closures of the current turn",
	"session.writing.done":     "a write's answer goes to the room that made it",
	"journal.write.done":       "a commit's answer goes to the goroutine that waits for it",
	"catalog.Catalog.handlers": "the application's handlers",
	"journal.Journal.runner":   "the application's runs",
	"keeper.Keeper.reporter":   "the application's hooks",
	"keeper.Overdue.reporter":  "the application's hooks",
	"coord.Config.Handlers":    "the application's handlers",
	"coord.Config.Runner":      "the application's runs and hooks",
}

const maxMethods = 30

func TestRoomsCallNothingAbove(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	for i, room := range rooms {
		files := parseRoom(t, room)
		for _, file := range files {
			for _, spec := range file.Imports {
				path := strings.Trim(spec.Path.Value, `"`)
				above := slices.IndexFunc(rooms[i:], func(r string) bool { return strings.HasSuffix(path, "/internal/"+r) })
				if above >= 0 {
					t.Errorf("room %s imports %s, which is above it", room, path)
				}
			}
			for _, field := range keptCalls(room, file) {
				if used[field] = true; mayKeep[field] == "" {
					t.Errorf("%s can call a room above: tell a notice instead, or say in mayKeep why not", field)
				}
			}
		}
		for name, n := range countMethods(files) {
			if n > maxMethods {
				t.Errorf("%s.%s has %d methods, more than %d: it is two rooms", room, name, n, maxMethods)
			}
		}
	}
	for field := range mayKeep {
		if !used[field] {
			t.Errorf("mayKeep lists %s, which does not exist", field)
		}
	}
}

func parseRoom(t *testing.T, room string) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("internal", room, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("room %s: %d files, %v", room, len(paths), err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// interfaces are those that rooms define for code that they do not know.
var interfaces = []string{"Handler", "Handlers", "Runner", "Reporter"}

// keptCalls lists the struct fields of a file through which unknown code can be called.
func keptCalls(room string, file *ast.File) (fields []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		structure, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		for _, field := range structure.Fields.List {
			for _, name := range field.Names {
				if canCall(field.Type) {
					fields = append(fields, fmt.Sprintf("%s.%s.%s", room, spec.Name.Name, name.Name))
				}
			}
		}
		return true
	})
	return fields
}

// canCall reports whether a field of that type can hold code of other packages.
func canCall(expr ast.Expr) bool {
	switch e := expr.(type) {
	case *ast.FuncType, *ast.InterfaceType:
		return true
	case *ast.ArrayType:
		return canCall(e.Elt)
	case *ast.MapType:
		return canCall(e.Value)
	case *ast.Ident:
		return slices.Contains(interfaces, e.Name)
	case *ast.SelectorExpr:
		return slices.Contains(interfaces, e.Sel.Name)
	}
	return false
}

// countMethods counts methods by type.
func countMethods(files []*ast.File) map[string]int {
	methods := make(map[string]int)
	for _, file := range files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			expr := f.Recv.List[0].Type
			if star, ok := expr.(*ast.StarExpr); ok {
				expr = star.X
			}
			if ident, ok := expr.(*ast.Ident); ok {
				methods[ident.Name]++
			}
		}
	}
	return methods
}
