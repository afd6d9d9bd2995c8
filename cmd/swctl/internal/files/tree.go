package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// The tags of values, as the library has them.
const (
	tagText  = "!!str"
	tagInt   = "!!int"
	tagFloat = "!!float"
	tagBool  = "!!bool"
	tagNull  = "!!null"
)

var (
	yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

	// indicator finds a plain value that begins with a character that has a meaning in YAML, as
	// schedules do.
	indicator = regexp.MustCompile("^([^#'\"]*: +|[ -]*- +)([*@%`&!])")
)

// parseYAML reads the documents of a text.
func parseYAML(text []byte) (documents []*yaml.Node, fault *Problem) {
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document yaml.Node
		err := dec.Decode(&document)
		switch {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return documents, yamlFault(text, err)
		}
		documents = append(documents, document.Content...)
	}
}

// yamlFault says where a text is not YAML. The library knows the line at best.
func yamlFault(text []byte, err error) *Problem {
	parts := yamlError.FindStringSubmatch(plain.OneLine(err.Error()))
	if parts == nil {
		parts = []string{"", "", err.Error()}
	}
	line, _ := strconv.Atoi(parts[1])
	fault := &Problem{Place{Line: max(line, 1), Column: 1}, "is not YAML: " + parts[2]}
	for i, row := range strings.Split(string(text), "\n") {
		near := line == 0 || i+1 >= line-1 && i+1 <= line+1
		if found := indicator.FindStringSubmatch(row); near && found != nil {
			fault.Line, fault.Column = i+1, utf8.RuneCountInString(found[1])+1
			fault.Message = fmt.Sprintf("is not YAML: put a value that begins with %s in quotes", found[2])
			break
		}
	}
	return fault
}

// maxDepth is how deep values may be nested.
const maxDepth = 100

// parseJSON reads the documents of a text into the trees that YAML would be.
func parseJSON(text []byte) (documents []*yaml.Node, fault *Problem) {
	p := jsonParser{dec: json.NewDecoder(bytes.NewReader(text)), text: text, Place: Place{Line: 1, Column: 1}}
	p.dec.UseNumber()
	for {
		document, err := p.value(0)
		switch {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			p.advance(p.dec.InputOffset())
			return documents, &Problem{p.Place, "is not JSON: " + err.Error()}
		}
		documents = append(documents, document)
	}
}

// jsonParser makes trees of JSON. It is at a place of the text.
type jsonParser struct {
	Place

	dec  *json.Decoder
	text []byte
	at   int64
}

func (p *jsonParser) advance(to int64) {
	passed := p.text[p.at:to]
	if newline := bytes.LastIndexByte(passed, '\n'); newline >= 0 {
		p.Line += bytes.Count(passed, []byte("\n"))
		p.Column, passed = 1, passed[newline+1:]
	}
	p.Column += utf8.RuneCount(passed)
	p.at = to
}

// value reads a value, or the key of one.
func (p *jsonParser) value(depth int) (*yaml.Node, error) {
	begin := p.dec.InputOffset()
	token, err := p.dec.Token()
	if err != nil {
		if depth > 0 && errors.Is(err, io.EOF) {
			err = errors.New("it ends too early")
		}
		return nil, err
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested more than %d deep", maxDepth)
	}
	rest := p.text[begin:]
	p.advance(begin + int64(len(rest)-len(bytes.TrimLeft(rest, " \t\r\n,:"))))
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: p.Line, Column: p.Column}
	switch token := token.(type) {
	case string:
		n.Tag, n.Value, n.Style = tagText, token, yaml.DoubleQuotedStyle
	case json.Number:
		n.Tag, n.Value, n.Style = tagFloat, token.String(), yaml.FlowStyle // not plain YAML
	case bool:
		n.Tag, n.Value = tagBool, strconv.FormatBool(token)
	case nil:
		n.Tag, n.Value = tagNull, "null"
	case json.Delim:
		n.Kind = yaml.MappingNode
		if token == '[' {
			n.Kind = yaml.SequenceNode
		}
		for p.dec.More() {
			inner, err := p.value(depth + 1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, inner)
		}
		if _, err := p.dec.Token(); errors.Is(err, io.EOF) {
			return nil, errors.New("it ends too early")
		} else if err != nil {
			return nil, err
		}
	}
	return n, nil
}

var (
	decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)

	// twice finds text that YAML 1.1 takes for a truth value, a number of base 60, a date or the like.
	twice = regexp.MustCompile(`^(?i:y|n|yes|no|on|off)$|^=$|^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$|^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?$`)
)

// isAmbiguous reports whether readers of YAML 1.1 and 1.2 take a plain value for different things,
// or for a number that is not written as in JSON.
func isAmbiguous(n *yaml.Node) bool {
	switch n.Tag {
	case tagText:
		return twice.MatchString(n.Value)
	case tagInt, tagFloat:
		return !decimal.MatchString(n.Value)
	case tagBool, tagNull:
		return false
	}
	return true // a date, or << for a merge
}

// strict reports whether a tree has only values that everybody reads alike. Anchors, aliases and
// tags are refused as well, because they mean something that stands elsewhere.
func (r *reader) strict(n *yaml.Node, depth int) bool {
	before := len(r.problems)
	switch {
	case depth > maxDepth:
		r.problemf(r.at(n), "is nested more than %d deep", maxDepth)
		return false
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.problemf(r.at(n), "anchors (&) and aliases (*) are not read: write the value out, or put text that begins so in quotes")
		return false
	case n.Style&yaml.TaggedStyle != 0:
		r.problemf(r.at(n), "tags such as %s are not read: leave it out, or put text that begins with ! in quotes", n.Tag)
	case n.Kind == yaml.ScalarNode && n.Style == 0 && isAmbiguous(n):
		r.problemf(r.at(n), "%s means different things to readers of YAML: put text in quotes, and write a number in decimal, true or false", n.Value)
	}
	if n.Kind == yaml.MappingNode {
		seen := map[string]bool{}
		for key := range pairs(n) {
			switch {
			case key.Kind != yaml.ScalarNode:
				r.problemf(r.at(key), "a key must be text")
			case seen[key.Value]:
				r.problemf(r.at(key), "the key %s is there twice", key.Value)
			}
			seen[key.Value] = true
		}
	}
	for _, inner := range n.Content {
		r.strict(inner, depth+1)
	}
	return len(r.problems) == before
}

func (r *reader) at(n *yaml.Node) Place { return Place{r.file, n.Line, n.Column} }

// pairs are the keys and values of a mapping.
func pairs(n *yaml.Node) func(yield func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// member finds a key of a mapping and its value, or nil.
func member(n *yaml.Node, name string) (key, value *yaml.Node) {
	for key, value := range pairs(n) {
		if key.Value == name {
			return key, value
		}
	}
	return nil, nil
}

// asJSON appends a tree, which is strict, as JSON.
func asJSON(text []byte, n *yaml.Node) []byte {
	switch {
	case n.Kind == yaml.MappingNode:
		text = append(text, '{')
		for key, value := range pairs(n) {
			if text[len(text)-1] != '{' {
				text = append(text, ',')
			}
			text = asJSON(append(asText(text, key.Value), ':'), value)
		}
		return append(text, '}')
	case n.Kind == yaml.SequenceNode:
		text = append(text, '[')
		for i, item := range n.Content {
			if i > 0 {
				text = append(text, ',')
			}
			text = asJSON(text, item)
		}
		return append(text, ']')
	case n.Tag == tagNull:
		return append(text, "null"...)
	case n.Tag == tagBool:
		return append(text, strings.ToLower(n.Value)...)
	case n.Tag == tagText:
		return asText(text, n.Value)
	}
	return append(text, n.Value...) // a number
}

func asText(text []byte, value string) []byte {
	quoted, _ := plain.Encode(value) // texts always encode
	return append(text, quoted...)
}
