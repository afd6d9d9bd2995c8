package house

import (
	"cmp"
	"go/ast"
	"go/build"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// apiPath is the import path of the package that makes documents.
const apiPath = modulePath + "/singleworker/admin/api"

// library knows the types of the module's packages, with their comments. Packages from elsewhere
// are empty, but for the few types that have a form of their own in JSON: what depends on others is
// of an invalid type, which is no field of a document.
type library struct {
	positions *token.FileSet
	info      types.Info
	packages  map[string]*types.Package
	docs      map[token.Pos]string            // of fields, types and constants, by the position of their name
	follows   map[token.Pos]token.Pos         // from a field without a comment to the one before it that has one
	marshal   map[types.Object]*ast.FuncDecl  // from a type to its MarshalJSON
	blocks    map[types.Object][]types.Object // from a constant to those declared with it, in order
	files     map[string][]*ast.File          // by import path
}

func newLibrary() *library {
	l := &library{
		positions: token.NewFileSet(),
		info:      types.Info{Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object), Types: make(map[ast.Expr]types.TypeAndValue)},
		packages:  make(map[string]*types.Package),
		docs:      make(map[token.Pos]string),
		follows:   make(map[token.Pos]token.Pos),
		marshal:   make(map[types.Object]*ast.FuncDecl),
		blocks:    make(map[types.Object][]types.Object),
		files:     make(map[string][]*ast.File),
	}
	for name, form := range map[string]types.Type{
		"time.Time": types.NewStruct(nil, nil), "time.Duration": types.Typ[types.Int64], "encoding/json.RawMessage": types.NewSlice(types.Typ[types.Byte]),
	} {
		dir, base := path.Split(name)
		in, short, _ := strings.Cut(base, ".")
		pkg := l.elsewhere(dir + in)
		is := types.NewTypeName(token.NoPos, pkg, short, nil)
		types.NewNamed(is, form, nil)
		pkg.Scope().Insert(is)
	}
	return l
}

// elsewhere is a package that is not the module's.
func (l *library) elsewhere(at string) *types.Package {
	if l.packages[at] == nil {
		l.packages[at] = types.NewPackage(at, path.Base(at))
		l.packages[at].MarkComplete()
	}
	return l.packages[at]
}

// Import implements types.Importer.
func (l *library) Import(at string) (*types.Package, error) {
	inside, ours := strings.CutPrefix(at, modulePath+"/")
	if !ours {
		return l.elsewhere(at), nil
	}
	if known := l.packages[at]; known != nil {
		return known, nil
	}
	dir := filepath.Join(moduleRoot, filepath.FromSlash(inside))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, entry := range entries {
		if matches, err := build.Default.MatchFile(dir, entry.Name()); err != nil || !matches || strings.HasSuffix(entry.Name(), "_test.go") || path.Ext(entry.Name()) != ".go" {
			continue
		}
		file, err := parser.ParseFile(l.positions, filepath.Join(dir, entry.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	conf := types.Config{Importer: l, Error: func(error) {}} // many: packages from elsewhere are empty
	pkg, _ := conf.Check(at, l.positions, files, &l.info)
	l.packages[at], l.files[at] = pkg, files
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool { l.learn(n); return true })
	}
	return pkg, nil
}

// learn notes what is said of the names that a node declares.
func (l *library) learn(node ast.Node) {
	switch node := node.(type) {
	case *ast.StructType:
		var said token.Pos
		last := 0
		for _, field := range node.Fields.List {
			doc := cmp.Or(field.Doc.Text(), field.Comment.Text())
			if line := l.positions.Position(field.Pos()).Line; doc == "" && line != last+1 {
				said = token.NoPos // a blank line ends what a comment is about
			}
			last = l.positions.Position(field.End()).Line
			for _, name := range field.Names {
				l.docs[name.Pos()], l.follows[name.Pos()] = doc, said
				if doc != "" {
					said = name.Pos()
				}
			}
		}
	case *ast.GenDecl:
		var block []types.Object
		for _, spec := range node.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				l.docs[spec.Name.Pos()] = cmp.Or(spec.Doc.Text(), node.Doc.Text())
			case *ast.ValueSpec:
				l.docs[spec.Names[0].Pos()] = cmp.Or(spec.Doc.Text(), spec.Comment.Text())
				block = append(block, l.info.Defs[spec.Names[0]])
			}
		}
		for _, object := range block {
			l.blocks[object] = block
		}
	case *ast.FuncDecl:
		if node.Name.Name == "MarshalJSON" && node.Recv != nil {
			if name, ok := node.Recv.List[0].Type.(*ast.Ident); ok {
				l.marshal[l.info.Uses[name]] = node
			}
		}
	}
}

// jsonField is a field of a JSON object.
type jsonField struct {
	name     string // in JSON
	of       *types.Var
	optional bool // it can be missing
}

// fields lists the fields of a type in JSON, in their order; nil if it is no struct.
func (l *library) fields(t types.Type) []jsonField {
	form, ok := t.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	all := l.fieldsOf(form)
	named, ok := t.(*types.Named)
	if !ok || l.marshal[named.Obj()] == nil {
		return all
	}
	ast.Inspect(l.marshal[named.Obj()], func(n ast.Node) bool {
		if literal, ok := n.(*ast.StructType); ok {
			more, _ := l.info.Types[literal].Type.(*types.Struct)
			for _, field := range l.fieldsOf(more) {
				if !slices.ContainsFunc(all, func(f jsonField) bool { return f.name == field.name }) {
					all = append(all, field)
				}
			}
		}
		return true
	})
	return all
}

func (l *library) fieldsOf(form *types.Struct) []jsonField {
	var own, all []jsonField
	for i := range form.NumFields() {
		name, options, _ := strings.Cut(reflect.StructTag(form.Tag(i)).Get("json"), ",")
		if field := form.Field(i); name != "" && name != "-" {
			own = append(own, jsonField{name, field, strings.HasPrefix(options, "omit")})
		}
	}
	for field := range form.Fields() {
		if k := slices.IndexFunc(own, func(f jsonField) bool { return f.of == field }); k >= 0 {
			all = append(all, own[k])
		} else if inner, ok := field.Type().Underlying().(*types.Struct); ok && field.Embedded() {
			for _, promoted := range l.fieldsOf(inner) {
				if !slices.ContainsFunc(own, func(f jsonField) bool { return f.name == promoted.name }) {
					all = append(all, promoted)
				}
			}
		}
	}
	return all
}

// isText reports whether values of the type encode themselves as text.
func isText(t *types.Named) bool {
	return types.NewMethodSet(t).Lookup(nil, "MarshalText") != nil
}

// value is a constant that a field can have.
type value struct{ text, doc string }

// valuesOf lists the constants of a type that is text in JSON, in the order of their declaration,
// and after them those that other packages have of it.
func (l *library) valuesOf(t *types.Named) []value {
	if _, ok := t.Underlying().(*types.Basic); !ok || t.Obj().Pkg() == nil {
		return nil
	}
	in := func(scope *types.Scope) (found []types.Object) {
		for _, name := range scope.Names() {
			if c, ok := scope.Lookup(name).(*types.Const); ok && types.Identical(c.Type(), t) {
				found = append(found, c)
			}
		}
		slices.SortFunc(found, func(a, b types.Object) int { return cmp.Compare(a.Pos(), b.Pos()) })
		return found
	}
	all := in(t.Obj().Pkg().Scope())
	for _, at := range slices.Sorted(maps.Keys(l.packages)) { // others may add some
		if pkg := l.packages[at]; pkg != t.Obj().Pkg() {
			all = append(all, in(pkg.Scope())...)
		}
	}
	return l.values(all)
}

func (l *library) values(constants []types.Object) []value {
	var all []value
	for _, object := range constants {
		c, ok := object.(*types.Const)
		if !ok {
			continue
		}
		text := ""
		if named, ok := c.Type().(*types.Named); c.Val().Kind() == constant.String {
			text = constant.StringVal(c.Val())
		} else if ok && isText(named) {
			text = strings.ToLower(c.Name())
		}
		if text != "" && !slices.ContainsFunc(all, func(v value) bool { return v.text == text }) { // not the default, which is one of them
			all = append(all, value{text, l.docs[c.Pos()]})
		}
	}
	return all
}

// document is a document with the types of its parts.
type document struct {
	kind  string
	parts []types.Type
}

// documents finds all calls of api.New and api.List in a package.
func (l *library) documents(at string) []document {
	var found []document
	for _, file := range l.files[at] {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); !ok || at != apiPath || f.Name.Name != "List" {
				ast.Inspect(decl, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok {
						found = append(found, l.documentOf(at, decl, call)...)
					}
					return true
				})
			}
		}
	}
	return found
}

// documentOf is what a call in a declaration makes: nothing, one document, or more of them if its
// kind is a parameter of the function.
func (l *library) documentOf(at string, within ast.Decl, call *ast.CallExpr) []document {
	callee := l.callee(call)
	if callee == nil || callee.Pkg() == nil || callee.Pkg().Path() != apiPath || callee.Name() != "New" && callee.Name() != "List" {
		return nil
	}
	var parts []types.Type
	for _, arg := range call.Args[1:] {
		t := l.info.Types[arg].Type
		if callee.Name() == "List" {
			t = types.NewStruct([]*types.Var{types.NewField(token.NoPos, nil, "Items", t, false)}, []string{`json:"items"`})
		}
		parts = append(parts, t)
	}
	if kind := l.info.Types[call.Args[0]].Value; kind != nil {
		return []document{{constant.StringVal(kind), parts}}
	}
	function, ok := within.(*ast.FuncDecl)
	if !ok {
		return nil
	}
	var found []document
	for _, file := range l.files[at] {
		ast.Inspect(file, func(n ast.Node) bool {
			outer, ok := n.(*ast.CallExpr)
			if !ok || l.callee(outer) != l.info.Defs[function.Name] {
				return true
			}
			for _, arg := range outer.Args {
				if v := l.info.Types[arg].Value; v != nil && v.Kind() == constant.String {
					found = append(found, document{constant.StringVal(v), parts})
				}
			}
			return true
		})
	}
	return found
}

func (l *library) callee(call *ast.CallExpr) types.Object {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return l.info.Uses[f]
	case *ast.SelectorExpr:
		return l.info.Uses[f.Sel]
	}
	return nil
}
