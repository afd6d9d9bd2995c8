package house

import (
	"fmt"
	"strings"
	"testing"
)

// The sizes up to which a file, or a function, is easy to read. Tests may be
// longer: a table or a scenario is read from top to bottom.
const (
	maxFileLines     = 400
	maxTestFileLines = 600
	maxFuncLines     = 60
	maxTestFuncLines = 120
)

// TestSizes checks every file and function of the module. Whatever fails is
// split where it has two ideas, not where it happens to be long.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, found := range oversized(moduleFiles(t)) {
		t.Error(found)
	}
}

func oversized(files []sourceFile) []string {
	var found []string
	for _, file := range files {
		fileLimit, funcLimit := maxFileLines, maxFuncLines
		if file.test {
			fileLimit, funcLimit = maxTestFileLines, maxTestFuncLines
		}
		if file.lines > fileLimit {
			found = append(found, fmt.Sprintf("%s: %d lines, at most %d", file.name, file.lines, fileLimit))
		}
		for _, f := range file.funcs {
			if f.lines > funcLimit {
				found = append(found, fmt.Sprintf("%s:%d: %s has %d lines, at most %d", file.name, f.line, f.name, f.lines, funcLimit))
			}
		}
	}
	return found
}

func TestSizesAreCounted(t *testing.T) {
	t.Parallel()
	// A function of n lines, in a file of n+2.
	source := func(n int) string {
		return "package p\n\nfunc f() {\n" + strings.Repeat("\n", n-2) + "}\n"
	}
	files := []sourceFile{
		mustParse(t, "ok.go", source(60)),
		mustParse(t, "long.go", source(61)),
		mustParse(t, "ok_test.go", source(120)),
		mustParse(t, "long_test.go", source(121)),
		mustParse(t, "file_ok.go", "package p\n"+strings.Repeat("\n", 399)),
		mustParse(t, "file_long.go", "package p\n"+strings.Repeat("\n", 400)),
		mustParse(t, "file_long_test.go", "package p\n"+strings.Repeat("\n", 600)),
	}
	wantFindings(t, oversized(files), []string{
		"long.go:3: f has 61 lines, at most 60",
		"long_test.go:3: f has 121 lines, at most 120",
		"file_long.go: 401 lines, at most 400",
		"file_long_test.go: 601 lines, at most 600",
	})
}
