package house

import (
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// TestAPI compares the exported API of each package that programs can import, without
// documentation, with a golden file. A difference is a decision: a removal breaks programs, an
// addition stays forever.
func TestAPI(t *testing.T) {
	t.Parallel()
	var listings []string
	library := filepath.Join(moduleRoot, "singleworker")
	err := filepath.WalkDir(library, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); name == "internal" || name == "cmd" || name == "testdata" {
			return filepath.SkipDir
		}
		if pkg, text := listing(t, path); pkg != "" {
			from, err := filepath.Rel(moduleRoot, path)
			listings = append(listings, "package "+filepath.ToSlash(from)+"\n\n"+text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(listings, "\n")
	path := filepath.Join("testdata", "api.golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run the test with -update to write it", err)
	}
	if got != string(want) {
		t.Errorf("the API has changed; if that is intended, run the test with -update\n%s", difference(string(want), got))
	}
}

// listing returns the name of the package in dir, or "", and its exported API.
func listing(t *testing.T, dir string) (pkg, text string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var decls []string
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		pkg = file.Name.Name
		ast.FileExports(file)
		for _, decl := range file.Decls {
			decls = append(decls, declarations(t, decl)...)
		}
	}
	slices.Sort(decls)
	return pkg, strings.Join(decls, "\n") + "\n"
}

// declarations lists the exported parts of one declaration of a file.
func declarations(t *testing.T, decl ast.Decl) []string {
	t.Helper()
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv != nil && !ast.IsExported(receiver(decl)) {
			return nil // nobody has a value of the type
		}
		decl.Body = nil
		return []string{source(t, decl)}
	case *ast.GenDecl:
		var texts []string
		for _, spec := range decl.Specs {
			if value, ok := spec.(*ast.ValueSpec); ok && decl.Tok == token.VAR {
				value.Values = nil // where it comes from is nobody's business
				texts = append(texts, "var "+value.Names[0].Name)
				continue
			}
			if decl.Tok != token.IMPORT {
				texts = append(texts, source(t, &ast.GenDecl{Tok: decl.Tok, Specs: []ast.Spec{spec}}))
			}
		}
		return texts
	}
	return nil
}

// receiver is the name of the type that a method belongs to.
func receiver(method *ast.FuncDecl) string {
	of := method.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// source prints a node as gofmt would, in a file without positions.
func source(t *testing.T, node ast.Node) string {
	t.Helper()
	ast.Inspect(node, func(n ast.Node) bool {
		if fields, ok := n.(*ast.StructType); ok {
			fields.Incomplete = false // or it says that fields are left out
		}
		return true
	})
	var text strings.Builder
	if err := format.Node(&text, token.NewFileSet(), node); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// difference shows the lines that only one of two texts has.
func difference(want, got string) string {
	old, present := strings.Split(want, "\n"), strings.Split(got, "\n")
	var text strings.Builder
	for _, line := range old {
		if !slices.Contains(present, line) {
			fmt.Fprintf(&text, "- %s\n", line)
		}
	}
	for _, line := range present {
		if !slices.Contains(old, line) {
			fmt.Fprintf(&text, "+ %s\n", line)
		}
	}
	return text.String()
}
