package imports

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A library for all of YAML would be a dependency of every application for the sake of one command.
// ElasticJob writes its configurations with SnakeYAML from a bean of texts, numbers and truth
// values, one map of texts and some lists: so one key a line, scalars in four styles, and blocks
// below a key. That is read here; what else is YAML is refused with an error. Values are read when
// they are asked for: what nobody knows stays text for a remark.

const maxYAMLLines = 10_000

// yamlValue is what stands behind a key on its line, and the lines below that belong to it.
type yamlValue struct {
	inline string
	below  []string // with their indentation
}

var yamlKey = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_.-]*|'[^':]+'):(?:[ ]+(.*))?$`)

// parseYAML reads a map whose keys have no indentation.
func parseYAML(lines []string) (map[string]*yamlValue, error) {
	if len(lines) > maxYAMLLines {
		return nil, fmt.Errorf("has more than %d lines", maxYAMLLines)
	}
	values := map[string]*yamlValue{}
	var last *yamlValue
	for i, line := range lines {
		line = strings.TrimRight(line, " \r")
		blank := line == ""
		switch {
		case strings.Contains(line, "\t"):
			return nil, fmt.Errorf("line %d: has a tab", i+1)
		case last == nil && (blank || line[0] == '#' || line == "---"):
		case blank, line[0] == ' ', line == "-", strings.HasPrefix(line, "- "):
			if last == nil {
				return nil, fmt.Errorf("line %d: want key: value", i+1)
			}
			last.below = append(last.below, line)
		case line[0] == '#':
		default:
			parts := yamlKey.FindStringSubmatch(line)
			if parts == nil {
				return nil, fmt.Errorf("line %d: want key: value, have %q", i+1, part(line))
			}
			key := strings.Trim(parts[1], "'")
			if values[key] != nil {
				return nil, fmt.Errorf("line %d: the key %q is there twice", i+1, key)
			}
			last = &yamlValue{inline: parts[2]}
			values[key] = last
		}
	}
	for _, value := range values {
		for n := len(value.below); n > 0 && value.below[n-1] == ""; n-- {
			value.below = value.below[:n-1]
		}
	}
	return values, nil
}

// String is the value as it stands, for a remark.
func (v *yamlValue) String() string { return v.inline + "\n" + strings.Join(v.below, "\n") }

// empty reports whether there is nothing: an empty list, an empty map, null or no text.
func (v *yamlValue) empty() bool {
	text := strings.TrimSpace(v.String())
	return text == "" || text == "[]" || text == "{}" || text == "null" || text == "~" || text == "''" || text == `""`
}

// scalar reads a text.
func (v *yamlValue) scalar() (string, error) {
	if v.empty() {
		return "", nil
	}
	text := v.inline
	switch first := text + " "; first[0] {
	case '\'', '"':
		return v.quoted()
	case '|':
		return v.literal()
	case ' ', '>', '&', '*', '!', '%', '@', '`', '[', ']', '{', '}', ',', '#':
		return "", fmt.Errorf("is YAML that is not read here: %q", part(v.String()))
	}
	text = folded(text, v.below, false)
	if at := strings.Index(text, " #"); at >= 0 {
		text = strings.TrimRight(text[:at], " ")
	}
	if strings.Contains(text+" ", ": ") || strings.HasPrefix(text, "- ") || strings.HasPrefix(text, "? ") {
		return "", fmt.Errorf("is YAML that is not read here: %q", part(text))
	}
	return text, nil
}

// folded joins the lines of a scalar: a line break is a blank, empty lines are line breaks, and a
// backslash may escape the end of a line.
func folded(first string, below []string, escapes bool) string {
	parts := []string{first}
	for _, line := range below {
		line = strings.TrimSpace(line)
		last := &parts[len(parts)-1]
		rest := strings.TrimRight(*last, `\`)
		switch {
		case escapes && (len(*last)-len(rest))%2 == 1:
			*last = (*last)[:len(*last)-1]
			parts = append(parts, line) // in which "\ " keeps a blank at the beginning
		case line == "":
			parts = append(parts, "\n")
		case *last == "\n":
			parts = append(parts, line)
		default:
			parts = append(parts, " ", line)
		}
	}
	return strings.Join(parts, "")
}

// quoted reads a scalar in quotes, which may have several lines.
func (v *yamlValue) quoted() (string, error) {
	text := folded(v.inline, v.below, v.inline[0] == '"')
	quote, body := text[:1], text[1:]
	if quote == "'" {
		body, ok := strings.CutSuffix(strings.ReplaceAll(body, "''", "\x00"), "'")
		if !ok || strings.ContainsAny(body, "'") {
			return "", fmt.Errorf("has quotes that do not end: %q", part(text))
		}
		return strings.ReplaceAll(body, "\x00", "'"), nil
	}
	return unescaped(body)
}

var yamlEscapes = map[byte]string{
	'n': "\n", 't': "\t", 'r': "\r", '"': `"`, '\\': `\`, '/': "/", ' ': " ", '0': "\x00", 'a': "\a", 'b': "\b", 'e': "\x1b",
	'f': "\f", 'v': "\v", 'N': "\u0085", '_': "\u00a0", 'L': "\u2028", 'P': "\u2029",
}

// unescaped reads what follows a double quote.
func unescaped(body string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(body); i++ {
		switch {
		case body[i] == '"' && i == len(body)-1:
			return out.String(), nil
		case body[i] == '"':
			return "", fmt.Errorf("has text behind quotes: %q", part(body[i:]))
		case body[i] != '\\':
			out.WriteByte(body[i])
			continue
		case i+1 == len(body):
			return "", errors.New("ends with a backslash")
		}
		i++
		if text, ok := yamlEscapes[body[i]]; ok {
			out.WriteString(text)
			continue
		}
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[body[i]]
		if digits == 0 || i+digits >= len(body) {
			return "", fmt.Errorf("has an escape that is not known: %q", part(body[i-1:]))
		}
		code, err := strconv.ParseUint(body[i+1:i+1+digits], 16, 21)
		if err != nil {
			return "", fmt.Errorf("has an escape that is not known: %q", part(body[i-1:]))
		}
		out.WriteRune(rune(code))
		i += digits
	}
	return "", errors.New("has quotes that do not end")
}

// literal reads a scalar whose lines are below the key, as they are.
func (v *yamlValue) literal() (string, error) {
	if v.inline != "|" && v.inline != "|-" && v.inline != "|+" || len(v.below) == 0 {
		return "", fmt.Errorf("is YAML that is not read here: %q", part(v.String()))
	}
	indent := len(v.below[0]) - len(strings.TrimLeft(v.below[0], " "))
	var lines []string
	for _, line := range v.below {
		if line != "" && (indent == 0 || !strings.HasPrefix(line, strings.Repeat(" ", indent))) {
			return "", fmt.Errorf("has a line that is not indented as the first: %q", part(line))
		}
		lines = append(lines, strings.TrimPrefix(line, strings.Repeat(" ", indent)))
	}
	text := strings.Join(lines, "\n")
	if v.inline != "|-" {
		text += "\n"
	}
	return text, nil
}

// nested reads a map of scalars below a key.
func (v *yamlValue) nested() (map[string]*yamlValue, error) {
	if v.empty() {
		return map[string]*yamlValue{}, nil
	}
	if v.inline != "" {
		return nil, fmt.Errorf("is YAML that is not read here: %q", part(v.inline))
	}
	indent := len(v.below[0]) - len(strings.TrimLeft(v.below[0], " "))
	lines := make([]string, len(v.below))
	for i, line := range v.below {
		rest, ok := strings.CutPrefix(line, strings.Repeat(" ", indent))
		if line != "" && (indent == 0 || !ok) {
			return nil, fmt.Errorf("has a line that is not indented as the first: %q", part(line))
		}
		lines[i] = rest
	}
	return parseYAML(lines)
}
