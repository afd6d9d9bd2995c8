package house

import (
	"fmt"
	"go/types"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	jsonPage = "singleworker/JSON.md"

	// madeBelow is the line of a page below which a test writes it. Its text is counted and checked
	// where it comes from.
	madeBelow = "<!-- Everything below is made from the types: go test ./singleworker/internal/house -run TestJSON -update -->\n"
)

// contract is all that is documented of JSON.
type contract struct {
	*library

	documents map[string][]types.Type // by kind: the types of their parts
	objects   []*types.Named          // that have a section, in the order in which they are met
	enums     []*types.Named          // likewise, those that are text
}

// unknown is in the type of an expression that depends on a package from elsewhere.
var unknown = regexp.MustCompile(`<nil>|invalid type`)

// newContract finds all documents of the module, and the types in them.
func newContract(t *testing.T) *contract {
	t.Helper()
	c := &contract{library: newLibrary(), documents: make(map[string][]types.Type)}
	searched := make(map[string]bool)
	for _, file := range moduleFiles(t) {
		if file.test || file.pkg != apiPath && !slices.Contains(file.imports, apiPath) || searched[file.pkg] {
			continue
		}
		searched[file.pkg] = true
		if _, err := c.Import(file.pkg); err != nil {
			t.Fatal(err)
		}
		for _, d := range c.library.documents(file.pkg) {
			before, is := fmt.Sprint(c.documents[d.kind]), fmt.Sprint(d.parts)
			switch {
			case unknown.MatchString(is): // another call must tell
			case before == "[]":
				c.documents[d.kind] = d.parts
			case before != is:
				t.Errorf("%s: there are documents of %v, and of %v", d.kind, before, is)
			}
		}
	}
	for _, kind := range append([]string{"Job"}, slices.Sorted(maps.Keys(c.documents))...) { // most is about jobs
		for _, part := range c.documents[kind] {
			c.meet(part)
		}
	}
	for _, at := range []string{apiPath + ".Error", modulePath + "/singleworker/notify.cloudEvent"} {
		root := c.named(t, at)
		c.objects = append(c.objects, root)
		for _, f := range c.fields(root) {
			c.meet(f.of.Type())
		}
	}
	return c
}

// named is a type by its import path and name.
func (c *contract) named(t *testing.T, at string) *types.Named {
	t.Helper()
	in, name := at[:strings.LastIndex(at, ".")], path.Ext(at)[1:]
	pkg, err := c.Import(in)
	if err != nil || pkg.Scope().Lookup(name) == nil {
		t.Fatalf("%s: not found: %v", at, err)
	}
	named, ok := pkg.Scope().Lookup(name).Type().(*types.Named)
	if !ok {
		t.Fatalf("%s is no named type", at)
	}
	return named
}

// meet notes the types in a type that have sections of their own.
func (c *contract) meet(t types.Type) {
	switch t := types.Unalias(t).(type) {
	case *types.Pointer:
		c.meet(t.Elem())
	case *types.Slice:
		c.meet(t.Elem())
	case *types.Map:
		c.meet(t.Elem())
	case *types.Struct:
		for _, f := range c.fields(t) {
			c.meet(f.of.Type())
		}
	case *types.Named:
		fields := c.fields(t)
		switch {
		case slices.Contains(c.objects, t) || slices.Contains(c.enums, t):
			return
		case len(c.valuesOf(t)) > 0 || isText(t) && t.Obj().Pkg().Path() != "time":
			c.enums = append(c.enums, t)
		case fields != nil && !isInline(t):
			c.objects = append(c.objects, t)
		}
		for _, f := range fields {
			c.meet(f.of.Type())
		}
	}
}

// isInline reports whether the fields of a type are told where it is used, because nobody else uses
// it.
func isInline(t *types.Named) bool {
	return !t.Obj().Exported() || t.TypeArgs().Len() > 0 || t.Obj().Pkg().Path() == apiPath && !slices.Contains([]string{"Change", "Paused", "Tick", "LeftOut", "ErrorBody"}, t.Obj().Name())
}

// title is the heading of a type.
func title(t *types.Named) string { return t.Obj().Pkg().Name() + "." + t.Obj().Name() }

func linked(t *types.Named) string {
	return fmt.Sprintf("[%s](#%s)", title(t), anchors("# " + title(t))[0])
}

// form says in words how a type is written in JSON.
func (c *contract) form(t types.Type) string {
	switch t := types.Unalias(t).(type) {
	case *types.Pointer:
		return c.form(t.Elem())
	case *types.Slice:
		return "list of " + c.form(t.Elem())
	case *types.Map:
		return "object of " + c.form(t.Elem()) + ", by " + c.form(t.Key())
	case *types.Named:
		switch known := t.Obj().Pkg().Path() + "." + t.Obj().Name(); {
		case known == "time.Time":
			return "time"
		case known == "time.Duration":
			return "duration"
		case known == "encoding/json.RawMessage":
			return "JSON"
		case slices.Contains(c.enums, t) || slices.Contains(c.objects, t):
			return linked(t)
		}
		return c.form(t.Underlying())
	case *types.Basic:
		switch info := t.Info(); {
		case info&types.IsBoolean != 0:
			return "boolean"
		case info&types.IsString != 0:
			return "text"
		case info&types.IsNumeric != 0:
			return "number"
		}
	}
	return fmt.Sprintf("%v, of which the page knows no form", t)
}

var (
	verb    = regexp.MustCompile(`^ (is|are|and|has|have|says|means|counts|names) `)
	goName  = regexp.MustCompile(`\[?\b(\w+\.)*[A-Z]\w*\]?`)
	several = regexp.MustCompile(`(\w+) \.\.\.$`) // "RunRunning ...": that constant and those after it
)

// negative has the constants of package job that stand for a negative duration.
var negative = map[string]string{"NoBackoff": "none", "NoAlarm": "none", "NoHung": "none", "KeepForever": "forever"}

// row is the line of a field in a table.
func (c *contract) row(f jsonField, siblings []jsonField) string {
	return fmt.Sprintf("| %s | %s | %s |\n", marked(f), c.formOf(f), c.meaning(f, siblings))
}

// formOf is the form of a field.
func (c *contract) formOf(f jsonField) string {
	if _, pointer := f.of.Type().(*types.Pointer); pointer && !f.optional {
		return c.form(f.of.Type()) + " or null"
	}
	return c.form(f.of.Type())
}

func marked(f jsonField) string {
	if f.optional {
		return "`" + f.name + "?`"
	}
	return "`" + f.name + "`"
}

// meaning is the comment of a field with the names that it has in JSON.
func (c *contract) meaning(f jsonField, siblings []jsonField) string {
	doc := c.docs[f.of.Pos()]
	if said := c.follows[f.of.Pos()]; doc == "" && said.IsValid() && regexp.MustCompile(`\b`+f.of.Name()+`\b`).MatchString(c.docs[said]) {
		for _, other := range siblings {
			if other.of.Pos() == said {
				return "see `" + other.name + "`"
			}
		}
	}
	doc = strings.Join(strings.Fields(doc), " ")
	if found := several.FindStringSubmatch(doc); found != nil {
		var texts []string
		for _, v := range c.values(c.blocks[f.of.Pkg().Scope().Lookup(found[1])]) {
			texts = append(texts, "`"+v.text+"`"+told(v.doc))
		}
		doc = strings.TrimSuffix(doc, found[0]) + strings.Join(texts, ", ")
	}
	return c.renamed(doc, f.of.Pkg(), siblings)
}

// told is the comment of a constant, in parentheses.
func told(doc string) string {
	if doc = strings.Join(strings.Fields(doc), " "); doc == "" {
		return ""
	}
	return " (" + strings.TrimSuffix(doc, ".") + ")"
}

// renamed puts the JSON names of fields, and the values of constants, in the place of their names
// in Go. A word at the beginning of a later sentence is a name if it has two capitals, or a verb
// follows.
func (c *contract) renamed(doc string, pkg *types.Package, siblings []jsonField) string {
	var text strings.Builder
	last := 0
	for _, at := range goName.FindAllStringIndex(doc, -1) {
		word := strings.Trim(doc[at[0]:at[1]], "[]") // which go doc makes a link
		before := strings.TrimSpace(doc[:at[0]])
		isWord := !isCamel(word) && (strings.HasSuffix(before, ".") && !verb.MatchString(doc[at[1]:]) || strings.HasPrefix(doc[at[1]:], " most") || before != "" && strings.ToUpper(word) == word)
		name := c.nameOf(word, pkg, siblings)
		if name == "" || isWord {
			name = word
		}
		text.WriteString(doc[last:at[0]] + name)
		last = at[1]
	}
	return strings.ReplaceAll(text.String()+doc[last:], "|", `\|`)
}

// isCamel reports whether a word has a capital and a small letter inside, as few words of English.
func isCamel(word string) bool {
	return strings.ToLower(word[1:]) != word[1:] && strings.ToUpper(word) != word
}

// nameOf is the name or the value in JSON of a name in Go, as code, and of a field of another
// object whose it is; "" if it has none.
func (c *contract) nameOf(word string, pkg *types.Package, siblings []jsonField) string {
	of, short := "", word[strings.LastIndex(word, ".")+1:]
	if short != word {
		of = path.Ext("." + strings.TrimSuffix(word, "."+short))[1:]
	}
	for _, f := range siblings {
		if of == "" && f.of.Name() == short {
			return "`" + f.name + "`"
		}
	}
	for _, object := range c.objects {
		if object.Obj().Name() != of && (of != "" || !isCamel(word)) {
			continue
		}
		for _, f := range c.fields(object) {
			if f.of.Name() == short {
				return "`" + f.name + "` of " + linked(object)
			}
		}
	}
	if text := negative[short]; text != "" {
		return "`" + text + "`"
	}
	for _, known := range c.packages {
		if known == pkg && of == "" || known.Name() == of {
			for _, v := range c.values([]types.Object{known.Scope().Lookup(short)}) {
				return "`" + v.text + "`"
			}
		}
	}
	return ""
}

// written is the made part of the page.
func (c *contract) written(given map[string][]string) string {
	var text strings.Builder
	text.WriteString("\n## Documents\n\n| kind | given by | fields besides `apiVersion` and `kind` |\n|---|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(c.documents)) {
		var fields []string
		for _, part := range c.documents[kind] {
			if named, ok := part.(*types.Named); ok && slices.Contains(c.objects, named) {
				fields = append(fields, "those of "+linked(named))
				continue
			}
			all := c.fields(part)
			for _, f := range all {
				fields = append(fields, marked(f)+": "+c.formOf(f)+told(c.meaning(f, all)))
			}
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s |\n", kind, strings.Join(given[kind], ", "), strings.Join(fields, ". "))
	}
	text.WriteString("\n## Objects\n")
	for _, object := range c.objects {
		all := c.fields(object)
		fmt.Fprintf(&text, "\n### %s\n%s\n| field | form | meaning |\n|---|---|---|\n", title(object), c.about(object, all))
		for _, f := range all {
			text.WriteString(c.row(f, all))
		}
	}
	text.WriteString("\n## Values\n")
	for _, enum := range c.enums {
		siblings := c.users(enum)
		fmt.Fprintf(&text, "\n### %s\n%s", title(enum), c.about(enum, siblings))
		for i, v := range c.valuesOf(enum) {
			if i == 0 {
				text.WriteString("\n| value | meaning |\n|---|---|\n")
			}
			fmt.Fprintf(&text, "| `%s` | %s |\n", v.text, c.renamed(strings.Join(strings.Fields(v.doc), " "), enum.Obj().Pkg(), siblings))
		}
	}
	return text.String()
}

// users are the fields of the first object that has a field of the type.
func (c *contract) users(enum *types.Named) []jsonField {
	for _, object := range c.objects {
		all := c.fields(object)
		if slices.ContainsFunc(all, func(f jsonField) bool { return types.Identical(f.of.Type(), enum) }) {
			return all
		}
	}
	return nil
}

// about is a paragraph with the comment of a type; "" if it has none.
func (c *contract) about(t *types.Named, siblings []jsonField) string {
	name, doc, _ := strings.Cut(strings.Join(strings.Fields(c.docs[t.Obj().Pos()]), " "), " ")
	if doc == "" {
		return ""
	}
	return "\n" + name + " " + c.renamed(doc, t.Obj().Pkg(), siblings) + "\n"
}
