// Package plain is text for people in which nothing is hidden: times, durations, names for a shell,
// JSON, and text that others wrote, of which nothing moves a cursor, changes colours or reverses
// the order of characters. It is not escaped for HTML.
package plain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// TimeLayout is how times are printed.
const TimeLayout = "2006-01-02 15:04:05 MST"

// Absolute is a moment in full; empty for the zero time.
func Absolute(t time.Time, loc *time.Location) string {
	if t.IsZero() {
		return ""
	}
	return t.In(loc).Format(TimeLayout)
}

// Relative is a moment seen from now: "in 15h48m", "8h ago", "now"; empty for
// the zero time.
func Relative(t, now time.Time) string {
	switch d := t.Sub(now); {
	case t.IsZero():
		return ""
	case d >= time.Second:
		return "in " + Span(d)
	case d <= -time.Second:
		return Span(-d) + " ago"
	}
	return "now"
}

// Moment is both: "2026-11-22 03:00:00 CET (in 18h36m)".
func Moment(t, now time.Time, loc *time.Location) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s)", Absolute(t, loc), Relative(t, now))
}

// Span is a duration in its two largest units, rounded down: 3d4h, 15h48m,
// 2m14s, 41s, 8h. Below a second it is in milliseconds.
func Span(d time.Duration) string {
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	for i, unit := range units {
		if d < unit.size {
			continue
		}
		text := fmt.Sprintf("%d%s", d/unit.size, unit.name)
		if i+1 < len(units) {
			if rest := d % unit.size / units[i+1].size; rest > 0 {
				text += fmt.Sprintf("%d%s", rest, units[i+1].name)
			}
		}
		return text
	}
	return fmt.Sprintf("%dms", max(d, 0).Milliseconds())
}

// Exact is a duration in full: 1m30s, 10m, 1.5s, 0; none if it is negative.
func Exact(d time.Duration) string {
	if d < 0 {
		return "none"
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	if d == 0 {
		return "0"
	}
	return text
}

// Quoted is a name as it can be typed in a shell.
func Quoted(name string) string {
	plain := func(r rune) bool {
		return r == '-' || r == '_' || r == '.' || unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	if name != "" && strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) < 0 {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// JSON renders a document; on one line if indent is empty. What a document's own MarshalJSON
// returns must be on one line.
func JSON(out *bytes.Buffer, indent string, document any) error {
	text, err := Encode(document)
	if err == nil && indent != "" {
		var lines bytes.Buffer
		err = json.Indent(&lines, text, "", indent)
		text = lines.Bytes()
	}
	if err != nil {
		return err
	}
	text = append(text, '\n')
	out.Grow(len(text))
	for len(text) > 0 {
		ascii := 0
		for ascii < len(text) && text[ascii] < unicode.MaxASCII { // without DEL
			ascii++
		}
		out.Write(text[:ascii])
		text = text[ascii:]
		if len(text) == 0 {
			break
		}
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		switch {
		case unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff: // as a surrogate pair
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(out, `\u%04x\u%04x`, high, low)
		default: // only strings have such characters: DEL, C1 controls, marks that reverse text
			fmt.Fprintf(out, `\u%04x`, r)
		}
	}
	return nil
}

// Encode is json.Marshal without the escapes for HTML: who wants them adds them. It does not check
// the text of a value that encodes itself, as an encoder would: of long lists, that is most of the
// work.
func Encode(value any) ([]byte, error) {
	if own, ok := value.(json.Marshaler); ok {
		return own.MarshalJSON()
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// Some names the first few of many: "a, b, c, d, e and 2 more".
func Some(names []string) string {
	const most = 5
	if len(names) <= most+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// FirstLine is the first line of a text that holds anything, made printable.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return Printable(strings.TrimSpace(line))
}

// OneLine joins the lines of a text, made printable.
func OneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, Printable(line))
		}
	}
	return strings.Join(lines, "; ")
}

// Printable replaces what could move the cursor, change colours or reverse the
// text of the reader's terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
