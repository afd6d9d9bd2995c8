package house

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goroutine is how one is started: by the statement, by a WaitGroup or package task, or by a bubble
// or server for tests.
var goroutine = regexp.MustCompile(`(?m)^\s*go (func\b|[\w.]+\()|\.Go\(|\b(synctest|httptest)\.`)

// The packages that the Makefile tests without the race detector, its PURE, start no goroutine, and
// nothing that they import does, nor do they guard anything against others. Package simkit may: it
// gives a goroutine to a whole scenario, and scenarios share nothing.
func TestPurePackagesStartNoGoroutine(t *testing.T) {
	t.Parallel()
	pure := purePackages(t)
	files := moduleFiles(t)
	if len(pure) == 0 {
		t.Fatal("the Makefile tests no package without the race detector")
	}
	for _, pkg := range pure {
		if !slices.ContainsFunc(files, func(f sourceFile) bool { return f.pkg == pkg && f.test }) {
			t.Errorf("PURE in the Makefile lists %s, which has no tests", pkg)
		}
		for _, found := range startedBy(t, files, pkg) {
			t.Errorf("%s: %s is in PURE in the Makefile, and so not tested with the race detector", found, pkg)
		}
	}
}

// purePackages reads PURE in the Makefile.
func purePackages(t *testing.T) (pkgs []string) {
	t.Helper()
	list := regexp.MustCompile(`(?m)^PURE := ((?:.*\\\n)*.*)$`).FindStringSubmatch(readFile(t, "Makefile"))
	if list == nil {
		t.Fatal("the Makefile has no PURE")
	}
	for dir := range strings.FieldsSeq(strings.ReplaceAll(list[1], "\\\n", " ")) {
		pkgs = append(pkgs, path.Join(modulePath, dir))
	}
	return pkgs
}

// startedBy lists where a package, its tests, or a package that they import starts a goroutine, and
// where the package itself uses a lock.
func startedBy(t *testing.T, files []sourceFile, pkg string) (found []string) {
	t.Helper()
	seen := map[string]bool{pkg: true, modulePath + "/singleworker/internal/simkit": true}
	for next := []string{pkg}; len(next) > 0; next = next[1:] {
		for _, file := range files {
			if file.pkg != next[0] || file.test && file.pkg != pkg {
				continue
			}
			locks := slices.Contains(file.imports, "sync") || slices.Contains(file.imports, "sync/atomic")
			if goroutine.MatchString(readFile(t, file.name)) || locks && file.pkg == pkg && !file.test {
				found = append(found, file.name)
			}
			for _, imported := range file.imports {
				if strings.HasPrefix(imported, modulePath+"/") && !seen[imported] {
					seen[imported] = true
					next = append(next, imported)
				}
			}
		}
	}
	return found
}

func TestGoroutinesAreFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"\tgo func() {": true, "\tgo serve(c)": true, "\tgo s.run()": true, "\twg.Go(func() {": true,
		"\tsynctest.Test(t, func": true, "// go on, (if there is more)": false, "\tgone(x)": false, "category.Good(x)": false,
	} {
		if got := goroutine.MatchString(text); got != want {
			t.Errorf("%q starts a goroutine: %v, want %v", text, got, want)
		}
	}
	files := moduleFiles(t)
	for _, pkg := range []string{"task", "session"} { // one starts goroutines, the other by it
		if len(startedBy(t, files, modulePath+"/singleworker/internal/"+pkg)) == 0 {
			t.Errorf("package %s starts no goroutine", pkg)
		}
	}
}
