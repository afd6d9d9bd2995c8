package cronexpr

import "fmt"

// A word is one space-separated part of a schedule, in upper case.
type word struct {
	text   string
	column int // of its first byte, from 1
}

// A reader parses one word as a field. Like its parser it keeps the first error
// and continues; after an error its results are valid but meaningless values of
// the field.
type reader struct {
	*parser
	*field
	word word
	pos  int // of the next byte to read in word.text
}

// list parses the whole word as comma-separated items.
func (r *reader) list() set {
	var s set
	r.item(&s)
	for r.accept(',') {
		r.item(&s)
	}
	r.end()
	return s
}

// item parses a value, a range or *, each with an optional step, and adds the
// values to s. A value with a step starts a range to the end of the field.
func (r *reader) item(s *set) {
	start := r.pos
	lo, hi, step := r.min, r.max, 1
	single := false
	if !r.accept('*') && !r.at('/') { // in Quartz, a bare /5 means */5
		lo = r.value()
		if single = !r.accept('-'); !single {
			hi = r.value()
		}
	}
	if r.accept('/') {
		step = r.number("step", 1, r.maxStep, fmt.Sprintf("1-%d", r.maxStep))
	} else if single {
		hi = lo
	}
	cycle := r.max - r.min + 1
	if hi < lo {
		if r.linear {
			r.fail(start, fmt.Sprintf("the range %d-%d ends before it starts", lo, hi), "the smaller year first")
			return
		}
		hi += cycle
	}
	for v := lo; v <= hi; v += step {
		s.add((v-r.min)%cycle + r.min - r.base)
	}
}

// value parses a number or a name.
func (r *reader) value() int {
	start := r.pos
	name := r.take(isLetter)
	if name == "" {
		return r.number("value", r.min, r.limit(), r.want())
	}
	v, ok := r.lookup(name)
	if !ok {
		r.fail(start, fmt.Sprintf("%q is not a valid %s", name, r.name), r.want())
	}
	return v
}

// number parses a number from lo to hi and returns lo after an error. what names
// the number in an error, and want describes the valid ones.
func (r *reader) number(what string, lo, hi int, want string) int {
	start := r.pos
	digits := r.take(isDigit)
	if digits == "" {
		problem := "the " + what + " is missing"
		if start < len(r.word.text) && !r.at(',') {
			problem = fmt.Sprintf("unexpected %q", r.word.text[start:start+1])
		}
		r.fail(start, problem, want)
		return lo
	}
	n := 0
	for _, d := range digits {
		n = min(10*n+int(d-'0'), hi+1) // prevents overflow
	}
	if n < lo || n > hi {
		r.fail(start, digits+" is out of range", want)
		return lo
	}
	return n
}

// expect reads c, which must come next. want describes valid text.
func (r *reader) expect(c byte, want string) {
	if !r.accept(c) {
		r.fail(r.pos, fmt.Sprintf("%q is missing", string(c)), want)
	}
}

// accept reads c if it comes next.
func (r *reader) accept(c byte) bool {
	if !r.at(c) {
		return false
	}
	r.pos++
	return true
}

// at reports whether c comes next.
func (r *reader) at(c byte) bool {
	return r.pos < len(r.word.text) && r.word.text[r.pos] == c
}

// take reads all bytes up to the first that is not of the given kind.
func (r *reader) take(kind func(byte) bool) string {
	start := r.pos
	for r.pos < len(r.word.text) && kind(r.word.text[r.pos]) {
		r.pos++
	}
	return r.word.text[start:r.pos]
}

// end checks that the whole word has been read.
func (r *reader) end() {
	if r.pos < len(r.word.text) {
		r.fail(r.pos, fmt.Sprintf("unexpected %q", r.word.text[r.pos:]), "the field to end here")
	}
}

// fail records an error at a byte of the word.
func (r *reader) fail(pos int, problem, want string) {
	r.parser.fail(r.name, r.word.column+pos, problem, want)
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'A' <= c && c <= 'Z' }
