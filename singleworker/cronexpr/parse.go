package cronexpr

import (
	"fmt"
	"strings"
	"time"
)

// maxText is the length limit of a schedule in bytes.
const maxText = 256

// Parse parses a schedule; see the package comment for the syntax. The schedule
// uses the wall-clock time of loc; nil means UTC. The error is an *Error.
//
// Parse rejects a schedule that can never fire, such as one for 30 February. It
// accepts one whose last time has passed, because it reads no clock.
func Parse(text string, loc *time.Location) (*Schedule, error) {
	if loc == nil {
		loc = time.UTC
	}
	p := &parser{text: text}
	s := p.schedule(loc)
	if p.err == nil && s.Ended(distantPast) {
		p.fail("", 0, fmt.Sprintf("never fires in the years %d to %d", firstYear, lastYear), "times that exist")
	}
	if p.err != nil {
		return nil, p.err
	}
	return s, nil
}

// A parser parses one schedule. It keeps the first error and continues, so that
// the grammar is not interrupted by error checks.
type parser struct {
	text string
	err  *Error
}

// fail records an error unless there was one before.
func (p *parser) fail(field string, column int, problem, want string) {
	if p.err == nil {
		p.err = &Error{Text: p.text, Field: field, Column: column, Problem: problem, Want: want}
	}
}

const (
	wantForms       = "5 fields (crontab), 6 or 7 fields (Quartz), or a descriptor like @daily"
	wantDescriptors = "@yearly, @monthly, @weekly, @daily, @hourly, @every, @at, @after, @manually or @always"
	wantZone        = "the time zone in a separate setting"
)

// schedule parses the whole text.
func (p *parser) schedule(loc *time.Location) *Schedule {
	words := p.words()
	if p.err != nil {
		return nil
	}
	if strings.HasPrefix(words[0].text, "@") {
		text, rule := p.descriptor(words, loc)
		return &Schedule{text: text, loc: loc, rule: rule}
	}
	for i := range words {
		words[i].text = strings.ToUpper(words[i].text)
	}
	if zone := words[0]; strings.HasPrefix(zone.text, "TZ=") || strings.HasPrefix(zone.text, "CRON_TZ=") {
		p.fail("", zone.column, "unexpected time zone", wantZone)
		return nil
	}
	return &Schedule{text: join(words), loc: loc, rule: newCron(p.calendar(words), loc)}
}

// words splits the text at spaces and tabs.
func (p *parser) words() []word {
	if n := len(p.text); n > maxText {
		p.text = p.text[:maxText]
		p.fail("", 0, fmt.Sprintf("%d bytes long", n), fmt.Sprintf("at most %d", maxText))
		return nil
	}
	for i, c := range p.text {
		if (c < ' ' || c > '~') && c != '\t' {
			p.fail("", i+1, fmt.Sprintf("unexpected %q", c), "printable ASCII, spaces and tabs")
		}
	}
	var words []word
	for i := 0; i < len(p.text); {
		rest := p.text[i:]
		n := strings.IndexAny(rest+" ", " \t")
		if n > 0 {
			words = append(words, word{rest[:n], i + 1})
		}
		i += n + 1
	}
	if len(words) == 0 {
		p.fail("", 0, "empty", wantForms)
	}
	return words
}

// calendar parses the fields of a cron expression. Their number determines the
// dialect.
func (p *parser) calendar(words []word) calendar {
	switch len(words) {
	case 5:
		return p.crontab(words)
	case 6, 7:
		return p.quartz(words)
	}
	p.fail("", 0, fmt.Sprintf("%d fields", len(words)), wantForms)
	return calendar{}
}

func (p *parser) crontab(words []word) calendar {
	return calendar{
		seconds: run(0, 0),
		minutes: p.reader(&minuteField, words[0]).list(),
		hours:   p.reader(&hourField, words[1]).list(),
		days:    p.crontabDays(words[2], words[4]),
		months:  p.reader(&monthField, words[3]).list(),
		years:   everyYear,
	}
}

func (p *parser) quartz(words []word) calendar {
	c := calendar{
		seconds: p.reader(&secondField, words[0]).list(),
		minutes: p.reader(&minuteField, words[1]).list(),
		hours:   p.reader(&hourField, words[2]).list(),
		days:    p.quartzDays(words[3], words[5]),
		months:  p.reader(&monthField, words[4]).list(),
		years:   everyYear,
	}
	if len(words) == 7 {
		c.years = p.reader(&yearField, words[6]).list()
	}
	return c
}

func (p *parser) reader(f *field, w word) *reader {
	return &reader{parser: p, field: f, word: w}
}

// join joins the words with single spaces.
func join(words []word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.text
	}
	return strings.Join(texts, " ")
}
