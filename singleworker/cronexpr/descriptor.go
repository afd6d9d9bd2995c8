package cronexpr

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// descriptors maps each name to its canonical name and its Quartz expression.
var descriptors = map[string]struct{ canonical, quartz string }{
	"@yearly":   {"@yearly", "0 0 0 1 1 ?"},
	"@annually": {"@yearly", "0 0 0 1 1 ?"},
	"@monthly":  {"@monthly", "0 0 0 1 * ?"},
	"@weekly":   {"@weekly", "0 0 0 ? * SUN"},
	"@daily":    {"@daily", "0 0 0 * * ?"},
	"@midnight": {"@daily", "0 0 0 * * ?"},
	"@hourly":   {"@hourly", "0 0 * * * ?"},
}

const (
	wantPeriod = "hours, minutes, seconds or whole milliseconds, like 90s, 1h30m or 1500ms"
	wantTime   = "RFC 3339 with whole seconds, like 2026-12-24T18:00:00+01:00"
)

// descriptor parses a text that begins with @. It returns its canonical form
// and its rule.
func (p *parser) descriptor(words []word, loc *time.Location) (string, rule) {
	first := words[0]
	name := strings.ToLower(first.text)
	known, plain := descriptors[name]
	switch {
	case (plain || name == "@manually" || name == "@always" || name == textAfter) && len(words) > 1:
		p.fail(name, words[1].column, fmt.Sprintf("unexpected %q", words[1].text), "nothing after "+name)
	case plain:
		quartz := (&parser{text: known.quartz}).words()
		return known.canonical, newCron(p.calendar(quartz), loc)
	case name == "@manually":
		return name, never{}
	case name == "@always":
		return name, never{always: true}
	case name == textAfter:
		return name, after{}
	case name != "@every" && name != "@at":
		p.fail("", first.column, fmt.Sprintf("unknown descriptor %q", first.text), wantDescriptors)
	case len(words) > 2:
		p.fail(name, words[2].column, fmt.Sprintf("unexpected %q", words[2].text), "one word after "+name)
	case name == "@every":
		return p.every(words)
	default:
		return p.at(words)
	}
	return "", nil
}

// periodPattern matches periods that are whole milliseconds: no smaller unit,
// and at most three decimals.
var periodPattern = regexp.MustCompile(`^([0-9]+(\.[0-9]{1,3})?[hms]|[0-9]+ms)+$`)

// every parses the period of @every.
func (p *parser) every(words []word) (string, rule) {
	arg := argument(words)
	period, err := time.ParseDuration(arg.text)
	switch {
	case arg.text == "":
		p.fail("@every", arg.column, "the period is missing", wantPeriod)
	case !periodPattern.MatchString(arg.text):
		p.fail("@every", arg.column, fmt.Sprintf("%q is not a period", arg.text), wantPeriod)
	case err != nil: // the only error possible after the pattern matched
		p.fail("@every", arg.column, arg.text+" is too long", "less than 292 years")
	case period < time.Second:
		p.fail("@every", arg.column, arg.text+" is too short", "1s or more")
	}
	return "@every " + period.String(), every{period.Milliseconds()}
}

// at parses the time of @at.
func (p *parser) at(words []word) (string, rule) {
	arg := argument(words)
	var t time.Time
	// UnmarshalText is strict; time.Parse accepts more than RFC 3339.
	err := t.UnmarshalText([]byte(arg.text))
	switch {
	case arg.text == "":
		p.fail("@at", arg.column, "the time is missing", wantTime)
	case err != nil || strings.Contains(arg.text, "."):
		p.fail("@at", arg.column, fmt.Sprintf("%q is not a time", arg.text), wantTime)
	case t.UnixMilli() < firstMilli || t.UnixMilli() >= endMilli:
		p.fail("@at", arg.column, fmt.Sprintf("%q is out of range", arg.text),
			fmt.Sprintf("a time in the years %d to %d", firstYear, lastYear))
	}
	return "@at " + t.UTC().Format(time.RFC3339), once{t}
}

// argument returns the word after the descriptor, or an empty word at the end of
// the descriptor.
func argument(words []word) word {
	if len(words) == 1 {
		return word{"", words[0].column + len(words[0].text)}
	}
	return words[1]
}
