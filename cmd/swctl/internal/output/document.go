package output

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// YAML writes a JSON text, which must be valid, as YAML in block style, in the same order. Only
// printable text is written as it is: an encoder of a library would write all that YAML allows to a
// terminal. Numbers have no exponent, which readers of YAML take differently.
func YAML(out *bytes.Buffer, text []byte) error {
	y := yaml{json.NewDecoder(bytes.NewReader(text)), out}
	y.UseNumber()
	return y.value("", "", false)
}

type yaml struct {
	*json.Decoder

	out *bytes.Buffer
}

// value writes the next value behind the beginning of a line, which is of an item of a list, or of
// a field. Its own items, or fields, are indented by pad.
func (y yaml) value(begun, pad string, item bool) error {
	token, err := y.Token()
	if err != nil {
		return err
	}
	open, container := token.(json.Delim)
	if !container || !y.More() {
		text := scalar(token, pad)
		if container {
			text = map[json.Delim]string{'{': "{}", '[': "[]"}[open]
			_, err = y.Token()
		}
		if begun != "" {
			begun += " "
		}
		y.out.WriteString(begun + text + "\n")
		return err
	}
	lead := pad
	if item {
		lead = begun + " "
	} else if begun != "" {
		y.out.WriteString(begun + "\n")
	}
	for ; y.More(); lead = pad {
		if open == '[' {
			err = y.value(lead+"-", pad+"  ", true)
		} else if token, err = y.Token(); err == nil {
			err = y.value(lead+scalar(token, "")+":", pad+"  ", false)
		}
		if err != nil {
			return err
		}
	}
	_, err = y.Token()
	return err
}

var (
	bare  = regexp.MustCompile(`^[A-Za-z_/][\w./-]*( [\w./-]+)*$`)
	taken = regexp.MustCompile(`^(?i:true|false|yes|no|on|off|null|y|n)$`)
	lines = regexp.MustCompile(`^(\S(.*\S)?\n)+(\S(.*\S)?)?$`)
)

// scalar is a value that holds no others. Text of several lines is a block, indented by pad, unless
// that is empty. The escapes of Go are among those of YAML.
func scalar(token json.Token, pad string) string {
	switch token := token.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(token)
	case json.Number:
		if number, err := token.Float64(); err == nil && strings.ContainsAny(token.String(), "eE") {
			return strconv.FormatFloat(number, 'f', -1, 64)
		}
		return token.String()
	case string:
		switch {
		case bare.MatchString(token) && !taken.MatchString(token):
			return token
		case pad != "" && isBlock(token):
			text, ended := strings.CutSuffix(token, "\n")
			head := "|-"
			if ended {
				head = "|"
			}
			return head + "\n" + pad + strings.ReplaceAll(text, "\n", "\n"+pad)
		}
		return strconv.Quote(token)
	}
	return ""
}

// isBlock reports whether text has several lines that a block of YAML holds as they are.
func isBlock(text string) bool {
	joined := strings.ReplaceAll(text, "\n", "")
	return lines.MatchString(text) && plain.Printable(joined) == joined
}

// Names writes the ID or the name of each item of a JSON document, or its own, each on a line. It
// reports whether there are any, or no items.
func Names(out *bytes.Buffer, text []byte) (named bool, err error) {
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		return false, err
	}
	items, list := document["items"].([]any)
	if !list {
		items = []any{document}
	}
	named = len(items) == 0
	for _, item := range items {
		if name := nameOf(item); name != "" {
			named = true
			out.WriteString(plain.Printable(name) + "\n")
		}
	}
	return named, nil
}

func nameOf(value any) string {
	if text, is := value.(string); is {
		return text
	}
	object, is := value.(map[string]any)
	if !is {
		return ""
	}
	for _, key := range []string{"id", "name", "job", "run_id", "instance_id"} {
		if key == "instance_id" && object["tick"] != nil {
			return "" // that is where it did not run
		}
		if name := nameOf(object[key]); name != "" {
			return name
		}
	}
	return ""
}
