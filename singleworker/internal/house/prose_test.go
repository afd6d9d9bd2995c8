package house

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxCommentColumns is the width at which comments are wrapped. A tab counts as one column.
const maxCommentColumns = 100

var (
	// whatClause finds a clause with "what" in the place of a noun: "writes what it knows" for "writes
	// its state". It also finds some questions, such as headings, which count, too.
	whatClause = regexp.MustCompile(`(?i)\bwhat (is|was|are|were|has|had|can|may|must|does|did|needs?|comes?|came|of|` +
		`the|an?|its|this|that|these|those|each|one|it|they|he|you|we)\b`)

	// thatOf finds a pronoun in the place of the subject: "the name is that of the job" for "it is the
	// job's name".
	thatOf = regexp.MustCompile(`(?i)\b(that|those) of\b`)

	// british finds words that are spelled the American way here.
	british = regexp.MustCompile(`(?i)\b(cancell(ed|ing)|behaviour|colour|favour|honours?|neighbours?|licence)\b`)
)

// A prose counts in a text the marks of sentences that have to be read twice.
type prose struct {
	words, whatClauses, thatOfs, british, semicolons int
	lines, longLines                                 int // of comments
}

func (p *prose) add(text string) {
	words := strings.Fields(text)
	text = strings.Join(words, " ") // a clause may begin at the end of a line
	p.words += len(words)
	p.whatClauses += len(whatClause.FindAllStringIndex(text, -1))
	p.thatOfs += len(thatOf.FindAllStringIndex(text, -1))
	p.british += len(british.FindAllStringIndex(text, -1))
	p.semicolons += strings.Count(text, ";")
}

// addComments counts in the comments of a Go file that have their lines to themselves.
func (p *prose) addComments(source string) {
	var comment strings.Builder
	for line := range strings.Lines(source + "\n") {
		text, isComment := strings.CutPrefix(strings.TrimSpace(line), "//")
		if !isComment {
			if comment.Len() > 0 {
				p.add(comment.String())
				comment.Reset()
			}
			continue
		}
		comment.WriteString(text + "\n")
		p.lines++
		printed := strings.Contains(comment.String(), " Output:\n") // by an example, so its lines are as they are
		if !printed && utf8.RuneCountInString(strings.TrimRight(line, "\n")) > maxCommentColumns {
			p.longLines++
		}
	}
}

// per10k is a count per 10,000 words.
func (p *prose) per10k(count int) float64 { return 10_000 * float64(count) / float64(p.words) }

// TestProse keeps comments and pages readable, by budgets that may only fall. A change that lowers
// a count by more than a twentieth also lowers its budget.
func TestProse(t *testing.T) {
	t.Parallel()
	var comments, onPages prose
	for _, file := range moduleFiles(t) {
		comments.addComments(readFile(t, file.name))
	}
	for _, p := range pages(t) {
		written, _, _ := strings.Cut(p.text, madeBelow)
		onPages.add(inline.ReplaceAllString(fence.ReplaceAllString(written, ""), ""))
	}
	for _, b := range []struct {
		name        string
		got, budget float64
	}{
		{`"what" as a noun, per 10,000 words of comments`, comments.per10k(comments.whatClauses), 6.53},
		{`"that of" and "those of", per 10,000 words of comments`, comments.per10k(comments.thatOfs), 2},
		{"comment lines over 100 columns, per 100 lines", 100 * float64(comments.longLines) / float64(comments.lines), 0.1},
		{`"what" as a noun, per 10,000 words of pages`, onPages.per10k(onPages.whatClauses), 6.24},
		{`"that of" and "those of", per 10,000 words of pages`, onPages.per10k(onPages.thatOfs), 0.57},
		{"British spellings in comments and on pages", float64(comments.british + onPages.british), 0},
		{"semicolons, per 10,000 words of pages", onPages.per10k(onPages.semicolons), 10.68},
	} {
		if err := withinBudget(b.got, b.budget); err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
	}
}

func withinBudget(got, budget float64) error {
	switch {
	case got > budget:
		return fmt.Errorf("%.2f, over the budget of %.2f: begin with a verb or a noun, name the subject, end the sentence", got, budget)
	case got < budget*0.95:
		return fmt.Errorf("%.2f, well below the budget of %.2f: lower that to %.2f", got, budget, math.Ceil(got*100)/100)
	}
	return nil
}

func TestProseIsCounted(t *testing.T) {
	t.Parallel()
	source := "package p\n\n// Of what\n// is there; that of the\n// colour.\nvar s = `what it is`\n\n\t//" + strings.Repeat("x", 98) + "\n"
	var got prose
	got.addComments(source)
	if want := (prose{words: 9, whatClauses: 1, thatOfs: 1, british: 1, semicolons: 1, lines: 4, longLines: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if within := withinBudget(9.8, 10); within != nil {
		t.Error(within)
	}
	for _, outside := range []float64{10.01, 9.4} {
		if withinBudget(outside, 10) == nil {
			t.Errorf("%v is within a budget of 10", outside)
		}
	}
}
