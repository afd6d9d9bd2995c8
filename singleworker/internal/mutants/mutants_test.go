package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../../.." // of the module

// Every mutant still applies, and compiles: the lists follow the sources.
func TestLists(t *testing.T) {
	t.Parallel()
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 150 {
		t.Errorf("%d mutants, want at least 150", len(all))
	}
	packages := make(map[string][]mutant)
	said := make(map[string]bool)
	for _, m := range all {
		if said[m.file+m.why] {
			t.Errorf("%s: two mutants are called %q", m.file, m.why)
		}
		said[m.file+m.why] = true
		packages[path.Dir(m.file)] = append(packages[path.Dir(m.file)], m)
	}
	build := listPackages(t, slices.Sorted(maps.Keys(packages)))
	for dir, mutants := range packages {
		for _, found := range build.check(t, dir, mutants) {
			t.Error(found)
		}
	}
}

// built is the go command's description of the module's packages.
type built struct {
	files   map[string][]string // by directory, from the module's root
	exports map[string]string   // the compiled package, by import path
	paths   map[string]string   // by directory

	positions *token.FileSet
	importer  types.Importer
}

func listPackages(t *testing.T, dirs []string) built {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles"}
	for _, dir := range dirs {
		args = append(args, "./"+dir)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	b := built{files: make(map[string][]string), exports: make(map[string]string), paths: make(map[string]string), positions: token.NewFileSet()}
	b.importer = importer.ForCompiler(b.positions, "gc", func(path string) (io.ReadCloser, error) { return os.Open(b.exports[path]) })
	for list := json.NewDecoder(bytes.NewReader(output)); ; {
		var p struct {
			Dir, ImportPath, Export string
			GoFiles                 []string
		}
		if err := list.Decode(&p); errors.Is(err, io.EOF) {
			return b
		} else if err != nil {
			t.Fatal(err)
		}
		b.exports[p.ImportPath] = p.Export
		if dir, err := filepath.Rel(top, p.Dir); err == nil {
			dir = filepath.ToSlash(dir)
			b.files[dir], b.paths[dir] = p.GoFiles, p.ImportPath
		}
	}
}

// check applies the mutants of one package and compiles it. Mutants that change different text are
// compiled together, which is quick, and enough to find one that does not compile.
func (b built) check(t *testing.T, dir string, mutants []mutant) []string {
	t.Helper()
	sources := make(map[string]string)
	for _, name := range b.files[dir] {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(dir), name))
		if err != nil {
			t.Fatal(err)
		}
		sources[path.Join(dir, name)] = string(text)
	}
	var found []string
	var pending []mutant
	for _, m := range mutants {
		if _, _, err := m.apply(sources[m.file]); err != nil {
			found = append(found, fmt.Sprintf("%q: %v", m.why, err))
		} else {
			pending = append(pending, m)
		}
	}
	for len(pending) > 0 {
		var together, rest []mutant
		changed := maps.Clone(sources)
		for _, m := range pending {
			text, _, err := m.apply(changed[m.file])
			if err != nil || m.touches(together) {
				rest = append(rest, m)
				continue
			}
			changed[m.file] = text
			together = append(together, m)
		}
		pending = rest
		if b.compile(dir, changed) == nil {
			continue
		}
		for _, m := range together { // one of them, or several that are good for themselves
			changed := maps.Clone(sources)
			changed[m.file], _, _ = m.apply(sources[m.file])
			if err := b.compile(dir, changed); err != nil {
				found = append(found, fmt.Sprintf("%s: %q does not compile: %v", m.file, m.why, err))
			}
		}
	}
	return found
}

// touches reports whether m changes text of other mutants, or they of it.
func (m mutant) touches(others []mutant) bool {
	for _, other := range others {
		if m.file == other.file && (strings.Contains(other.new, m.old) || strings.Contains(m.new, other.new)) {
			return true
		}
	}
	return false
}

func (b built) compile(dir string, sources map[string]string) error {
	var files []*ast.File
	for name, text := range sources {
		file, err := parser.ParseFile(b.positions, name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	config := types.Config{Importer: b.importer}
	_, err := config.Check(b.paths[dir], b.positions, files, nil)
	return err
}
