package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// words are phrases that readers stumble over, each with what to write instead. A blank matches
// any white space, also at the end of a line of a comment.
var words = []struct{ phrase, instead string }{
	{`anew`, `again, or a new one`},
	{`whoever`, `the one who, anyone who, or name it: the owner, the caller`},
	{`a hand (has|had|can|may|might|made|makes|wrote|writes|deleted|deletes|left|spoilt)`, `someone`},
	{`by a hand`, `manually`},
	{`by hand`, `manually`},
	{`(is|are|was|were) none`, `there is no, is not a, does not exist`},
	{`((?-i:go)|goes|went|gone|going) on`, `continue, be in progress`},
	{`all the same`, `nevertheless, still`},
	{`of (its|their) own`, `its own, separate`},
	{`at the most`, `at most`},
	{`(is|are|leads|runs) no more`, `no longer`},
	{`(can|cannot|must|to) bear`, `tolerate, be idempotent`},
	{`(heed|heeds|heeded)`, `obey, apply, watch`},
	{`is no error`, `is not an error`},
	{`waited for for`, `rephrase`},
	{`spoil(s|t|ed)?`, `unreadable, corrupted, overwrite`},
	{`cancell(ed|ing)`, `canceled, canceling`},
	{`(behaviour|colour|favour|honours?|neighbours?|licence)`, `the American spelling`},
}

// anyWord finds any of the words, most of the time none: so a file is parsed only if it has one.
func anyWord() *regexp.Regexp {
	phrases := make([]string, len(words))
	for i, w := range words {
		phrases[i] = strings.ReplaceAll(w.phrase, " ", `[\s/]+`)
	}
	return regexp.MustCompile(`(?i)\b(` + strings.Join(phrases, "|") + `)\b`)
}

// A wordFinder looks for one of the words.
type wordFinder struct {
	*regexp.Regexp

	instead string
}

func wordFinders() []wordFinder {
	var all []wordFinder
	for _, w := range words {
		phrase := strings.ReplaceAll(w.phrase, " ", `[\s/]+`)
		all = append(all, wordFinder{regexp.MustCompile(`(?i)\b` + phrase + `\b`), w.instead})
	}
	return all
}

// TestWords keeps words out of comments, strings and pages that were taken out of them once.
func TestWords(t *testing.T) {
	t.Parallel()
	finders, anything := wordFinders(), anyWord()
	for _, file := range moduleFiles(t) {
		text := readFile(t, file.name)
		if path.Base(file.name) == "words_test.go" || !anything.MatchString(text) {
			continue
		}
		for _, found := range wordsOfGo(t, finders, file.name, text) {
			t.Error(found)
		}
	}
	for _, p := range pages(t) {
		for _, found := range wordsOf(finders, p.name, 1, p.text) {
			t.Error(found)
		}
	}
}

// wordsOfGo looks at the comments and the strings of a Go file.
func wordsOfGo(t *testing.T, finders []wordFinder, name, text string) []string {
	t.Helper()
	positions := token.NewFileSet()
	syntax, err := parser.ParseFile(positions, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	look := func(node ast.Node) {
		start := positions.Position(node.Pos())
		found = append(found, wordsOf(finders, name, start.Line, text[start.Offset:positions.Position(node.End()).Offset])...)
	}
	for _, group := range syntax.Comments {
		look(group)
	}
	ast.Inspect(syntax, func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			look(literal)
		}
		return true
	})
	return found
}

// wordsOf looks at a text that begins in the given line of its file.
func wordsOf(finders []wordFinder, name string, line int, text string) []string {
	var found []string
	for _, f := range finders {
		for _, at := range f.FindAllStringIndex(text, -1) {
			found = append(found, fmt.Sprintf("%s:%d: %q: write %s", name, line+strings.Count(text[:at[0]], "\n"),
				strings.Join(strings.Fields(strings.ReplaceAll(text[at[0]:at[1]], "/", " ")), " "), f.instead))
		}
	}
	return found
}

// The search finds what it is for, with the right lines.
func TestWordsOfGo(t *testing.T) {
	t.Parallel()
	const source = "// Package p is begun\n// Anew.\npackage p\n\n// it goes\n// on; a hand-over is none of these\nvar s = `\nall the same`\n"
	if !anyWord().MatchString(source) {
		t.Error("the quick search finds nothing")
	}
	got := wordsOfGo(t, wordFinders(), "p.go", source)
	for i, finding := range got {
		got[i], _, _ = strings.Cut(finding, ": write")
	}
	want := []string{`p.go:2: "Anew"`, `p.go:5: "goes on"`, `p.go:6: "is none"`, `p.go:8: "all the same"`}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
