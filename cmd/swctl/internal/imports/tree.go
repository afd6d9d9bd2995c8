package imports

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The limits of an XML document. Its entities cannot grow it: encoding/xml knows only the five of
// XML itself.
const (
	maxDepth    = 32
	maxElements = 500_000
)

// element is one of an XML document, with its texts and its children. It is read as a tree, not
// into types, so that what nobody expects is seen.
type element struct {
	name     string
	text     string
	raw      []byte // the text so far
	children []*element
	used     bool // somebody asked for it
}

func parseXML(text []byte) (*element, error) {
	dec := xml.NewDecoder(bytes.NewReader(text))
	top := &element{}
	stack, elements := []*element{top}, 0
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("is not XML: %w", err)
		}
		open := stack[len(stack)-1]
		switch token := token.(type) {
		case xml.StartElement:
			if elements++; elements > maxElements || len(stack) > maxDepth {
				return nil, fmt.Errorf("has more than %d elements, or some within %d others", maxElements, maxDepth)
			}
			e := &element{name: token.Name.Local}
			open.children = append(open.children, e)
			stack = append(stack, e)
		case xml.EndElement:
			open.text, open.raw = strings.TrimSpace(string(open.raw)), nil
			stack = stack[:len(stack)-1]
		case xml.CharData:
			open.raw = append(open.raw, token...)
		}
	}
	if len(top.children) != 1 {
		return nil, errors.New("has no root element")
	}
	return top.children[0], nil
}

// all are the children of a name.
func (e *element) all(name string) (found []*element) {
	for _, child := range e.children {
		if child.name == name {
			child.used = true
			found = append(found, child)
		}
	}
	return found
}

// one is the first child of a name, or an empty element; others stay unused.
func (e *element) one(name string) *element {
	for _, child := range e.children {
		if child.name == name {
			child.used = true
			return child
		}
	}
	return &element{}
}

// get is the text of a child.
func (e *element) get(name string) string { return e.one(name).text }

// unused are the names and texts of the children that nobody asked for.
func (e *element) unused() (found []*element) {
	for _, child := range e.children {
		if !child.used {
			found = append(found, child)
		}
	}
	return found
}
