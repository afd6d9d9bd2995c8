package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	modulePath = "github.com/swjobs/singleworker"

	// moduleRoot is the module's directory, seen from this package's.
	moduleRoot = "../../.."
)

// A sourceFile is one Go file of the module, also one that a build constraint leaves
// out on this machine.
type sourceFile struct {
	name    string // slash-separated, from the module's root
	pkg     string // import path of its directory
	test    bool   // whether it is a _test.go file
	imports []string
	lines   int
	funcs   []function
}

// A function is a declared function or method. Its lines are those from the word
// func to the closing brace.
type function struct {
	name        string
	line, lines int
}

// moduleFiles reads all Go files of the module, in the order of their names.
func moduleFiles(t *testing.T) []sourceFile {
	t.Helper()
	var files []sourceFile
	err := fs.WalkDir(os.DirFS(moduleRoot), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
				return fs.SkipDir // as the go command does
			}
		case path.Ext(name) == ".go":
			file, err := readSource(name)
			if err != nil {
				return err
			}
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func readSource(name string) (sourceFile, error) {
	text, err := os.ReadFile(filepath.Join(moduleRoot, filepath.FromSlash(name)))
	if err != nil {
		return sourceFile{}, err
	}
	return parseSource(name, text)
}

func parseSource(name string, text []byte) (sourceFile, error) {
	positions := token.NewFileSet()
	syntax, err := parser.ParseFile(positions, name, text, parser.SkipObjectResolution)
	if err != nil {
		return sourceFile{}, err
	}
	file := sourceFile{
		name:  name,
		pkg:   path.Join(modulePath, path.Dir(name)),
		test:  strings.HasSuffix(name, "_test.go"),
		lines: strings.Count(string(text), "\n"),
	}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return sourceFile{}, err
		}
		file.imports = append(file.imports, imported)
	}
	for _, decl := range syntax.Decls {
		if decl, ok := decl.(*ast.FuncDecl); ok {
			first, last := positions.Position(decl.Pos()).Line, positions.Position(decl.End()).Line
			file.funcs = append(file.funcs, function{decl.Name.Name, first, last - first + 1})
		}
	}
	return file, nil
}

// mustParse makes a sourceFile for the tests of the checks themselves.
func mustParse(t *testing.T, name, text string) sourceFile {
	t.Helper()
	file, err := parseSource(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// wantFindings compares the findings of a check with those expected, in any order.
func wantFindings(t *testing.T, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("found:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
