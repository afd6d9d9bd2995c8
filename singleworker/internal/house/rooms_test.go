package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rooms are the parts of the coordinator, from the bottom up: each may import, and so call, those
// before it. Go has no import cycles. Only a func or an interface that a room keeps could still
// call back up, so neither is allowed but for those listed in mayKeep.
var rooms = []string{"session", "member", "catalog", "owner", "journal", "keeper", "coord"}

// mayKeep lists the fields through which a room may call code that it does not know.
var mayKeep = map[string]string{
	"session.Loop.handler":         "the loop drives the switchboard",
	"session.Loop.turn":            "closures of the current turn",
	"session.ServerClock.OnAnswer": "the member decides which clock is right before anybody asks for the time",
	"session.writing.done":         "a write's answer goes to the room that made it",
	"session.outcome.done":         "as above, of reads",
	"session.Listener.told":        "what a signal tells goes to the room that listens",
	"member.Roster.waiting":        "as above, once the orders are known that came before it",
	"journal.write.done":           "a commit's answer goes to the runner",
	"catalog.Catalog.handlers":     "the application's handlers",
	"journal.Journal.runner":       "the application's runs",
	"keeper.Keeper.reporter":       "the application's hooks",
	"keeper.Overdue.reporter":      "the application's hooks",
	"coord.Config.Handlers":        "the application's handlers",
	"coord.Config.Runner":          "the application's runs and hooks",
	"coord.Coordinator.observer":   "the application's hooks",
	"coord.Coordinator.runner":     "the application's runs, which end for their slots to move",
}

const maxMethods = 30

func TestRoomsCallNothingAbove(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	parsed := make(map[string][]*ast.File)
	var names []string
	for _, room := range rooms {
		parsed[room] = parseRoom(t, room)
		names = append(names, callable(parsed[room])...)
	}
	for i, room := range rooms {
		for _, file := range parsed[room] {
			for _, spec := range file.Imports {
				path := strings.Trim(spec.Path.Value, `"`)
				above := slices.IndexFunc(rooms[i:], func(r string) bool { return strings.HasSuffix(path, "/internal/"+r) })
				if above >= 0 {
					t.Errorf("room %s imports %s, which is above it", room, path)
				}
			}
			for _, field := range keptCalls(room, file, names) {
				if used[field] = true; mayKeep[field] == "" {
					t.Errorf("%s can call a room above: tell a notice instead, or say in mayKeep why not", field)
				}
			}
		}
		for name, n := range countMethods(parsed[room]) {
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
	paths, err := filepath.Glob(filepath.Join("..", room, "*.go"))
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

// callable lists the names of the func and interface types that the rooms define.
func callable(files []*ast.File) []string {
	var names []string
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				switch spec.Type.(type) {
				case *ast.FuncType, *ast.InterfaceType:
					names = append(names, spec.Name.Name)
				}
			}
			return true
		})
	}
	return names
}

// keptCalls lists the declarations of a file that keep code of others: fields of structs, embedded
// ones and nested ones too, and variables of the package.
func keptCalls(room string, file *ast.File, callable []string) (kept []string) {
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				for _, field := range fieldsOf(spec.Type) {
					if canCall(field.Type, callable) {
						kept = append(kept, fmt.Sprintf("%s.%s.%s", room, spec.Name.Name, nameOf(field)))
					}
				}
			case *ast.ValueSpec:
				keeps := spec.Type != nil && canCall(spec.Type, callable)
				isFunc := func(value ast.Expr) bool { _, ok := value.(*ast.FuncLit); return ok }
				if keeps || slices.ContainsFunc(spec.Values, isFunc) {
					kept = append(kept, room+"."+spec.Names[0].Name)
				}
			}
		}
	}
	return kept
}

func fieldsOf(expr ast.Expr) []*ast.Field {
	if structure, ok := expr.(*ast.StructType); ok {
		return structure.Fields.List
	}
	return nil
}

func nameOf(field *ast.Field) string {
	if len(field.Names) > 0 {
		return field.Names[0].Name
	}
	return types.ExprString(field.Type) // embedded
}

// canCall reports whether a value of that type can hold code of others.
func canCall(expr ast.Expr, callable []string) (found bool) {
	ast.Inspect(expr, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType, *ast.InterfaceType:
			found = true
		case *ast.Field: // of a nested struct: its name is no type
			found = found || canCall(n.Type, callable)
			return false
		case *ast.Ident:
			found = found || slices.Contains(callable, n.Name)
		}
		return true
	})
	return found
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

func TestKeptCallsAreFound(t *testing.T) {
	t.Parallel()
	const source = `package owner
type up interface{ Call() }
type callback func()
type fine struct {
	n     int
	known map[string]*fine
	err   error
}
type keeps struct {
	a func()
	b callback
	c map[string]*up
	d chan func()
	e struct{ f func() }
	up
}
var late func()
var now = func() {}
var none = 1
`
	file, err := parser.ParseFile(token.NewFileSet(), "owner.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	wantFindings(t, keptCalls("owner", file, callable([]*ast.File{file})), []string{
		"owner.keeps.a", "owner.keeps.b", "owner.keeps.c", "owner.keeps.d", "owner.keeps.e", "owner.keeps.up",
		"owner.late", "owner.now",
	})
}
