package house

import (
	"encoding/json"
	"fmt"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// goldens have documents as programs get them, in the output of commands and in answers over HTTP.
var goldens = []string{"singleworker/admin/api/testdata/*.golden", "singleworker/web/testdata/*.golden", "cmd/swctl/internal/commands/testdata/*.golden"}

// sample is a document that a golden file has.
type sample struct {
	from    string // the line above it: the command, or the request
	content map[string]any
}

// masked stands in golden files for values that differ from run to run.
const masked = "..."

// samples reads the documents of all golden files.
func samples(t *testing.T) []sample {
	t.Helper()
	var all []sample
	for _, pattern := range goldens {
		names, err := filepath.Glob(filepath.Join(moduleRoot, filepath.FromSlash(pattern)))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(names), err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, samplesIn(strings.ReplaceAll(string(text), `": ...`, `": "`+masked+`"`))...)
		}
	}
	return all
}

func samplesIn(text string) (all []sample) {
	from := ""
	for len(text) > 0 {
		line, rest, _ := strings.Cut(text, "\n")
		text, line = rest, strings.TrimPrefix(line, "stderr: ")
		if strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "# ") {
			from = line
		}
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var content map[string]any
		if line == "{" {
			line += "\n" + rest
		}
		decoder := json.NewDecoder(strings.NewReader(line))
		if err := decoder.Decode(&content); err == nil && (content["kind"] != nil && content["apiVersion"] != nil || content["error"] != nil) {
			all = append(all, sample{from, content})
		}
	}
	return all
}

// givers says for each kind which commands and requests answer with it: commands of which a golden
// file has such an answer, and the requests that package web lists.
func givers(t *testing.T, all []sample) map[string][]string {
	t.Helper()
	given := map[string][]string{ // commands that keep running, or need a broken record
		"Notifier": {"`swctl notify`"}, "RunLogReader": {"`swctl runlog`"}, "UIServer": {"`swctl ui`"}, "Repair": {"`swctl repair`"},
		"SubmitResultList": {"`swctl submit --file`"},
	}
	call := regexp.MustCompile(`^\$ (swctl( [a-z-]+)+)`)
	for _, s := range all {
		kind, _ := s.content["kind"].(string)
		if found := call.FindStringSubmatch(s.from); found != nil {
			words := strings.Fields(found[1])
			for len(words) > 1 && helped(words) != nil {
				words = words[:len(words)-1]
			}
			if len(words) > 1 { // one word is another name of a command
				add(given, kind, strings.Join(words, " "))
			}
		}
	}
	request := regexp.MustCompile(`(?m)^//\tapi/v1/([\w/-]+)\S* +(?:a stream of )?(\w+)`)
	reads, acts, _ := strings.Cut(readFile(t, "singleworker/web/doc.go"), "POST requests")
	acts, puts, _ := strings.Cut(acts, "PUT requests")
	for method, text := range map[string]string{"GET": reads, "POST": acts, "PUT": puts} {
		for _, found := range request.FindAllStringSubmatch(text, -1) {
			add(given, found[2], method+" api/v1/"+found[1])
		}
	}
	return given
}

func add(given map[string][]string, kind, call string) {
	if call = "`" + call + "`"; !slices.Contains(given[kind], call) {
		given[kind] = append(given[kind], call)
		slices.Sort(given[kind])
	}
}

// helped is nil if a command has a page of help.
func helped(words []string) error {
	_, err := os.Stat(filepath.Join(moduleRoot, "cmd/swctl/internal/commands/testdata", "help-"+strings.Join(words[1:], "-")+".golden"))
	return err
}

// TestJSON compares JSON.md with the types of which it is made, and documents of golden files with
// both. A difference is a decision: programs read the names, so fields are added and never renamed
// or removed.
func TestJSON(t *testing.T) {
	t.Parallel()
	c, all := newContract(t), samples(t)
	checkPage(t, c, all)
	checkDocuments(t, c, all)
	checkIsStrict(t, c)
}

func checkPage(t *testing.T, c *contract, all []sample) {
	t.Helper()
	given := givers(t, all)
	for kind := range c.documents {
		if len(given[kind]) == 0 {
			t.Errorf("%s: no golden file has one, nor does package web list it: who gives it?", kind)
		}
	}
	page := readFile(t, jsonPage)
	before, _, found := strings.Cut(page, madeBelow)
	if !found {
		t.Fatalf("%s has no line %q", jsonPage, madeBelow)
	}
	want := before + madeBelow + c.written(given)
	if *update {
		if err := os.WriteFile(filepath.Join(moduleRoot, filepath.FromSlash(jsonPage)), []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if page != want {
		t.Errorf("the JSON has changed; if that is intended, run the test with -update\n%s", difference(page, want))
	}
}

// checkDocuments wants the fields that the page describes in the documents, and no others.
func checkDocuments(t *testing.T, c *contract, all []sample) {
	t.Helper()
	seen := make(map[string]bool)
	for _, s := range all {
		kind, isDocument := s.content["kind"].(string)
		parts := c.documents[kind]
		if !isDocument {
			parts = []types.Type{c.named(t, apiPath+".Error")}
		} else if parts == nil {
			t.Errorf("%s: kind %s is unknown", s.from, kind)
			continue
		}
		seen[kind] = true
		var fields []jsonField
		for _, part := range parts {
			fields = append(fields, c.fields(part)...)
		}
		if isDocument {
			delete(s.content, "apiVersion")
			delete(s.content, "kind")
			if mark, stale := s.content["stale"].(map[string]any); stale { // any document can have it
				if err := c.hasFields(mark, c.fields(c.named(t, apiPath+".Stale"))); err != nil {
					t.Errorf("%s: %s: stale: %v", s.from, kind, err)
				}
				delete(s.content, "stale")
			}
		}
		if err := c.hasFields(s.content, fields); err != nil {
			t.Errorf("%s: %s: %v", s.from, kind, err)
		}
	}
	if len(seen) < len(c.documents)-5 {
		t.Errorf("%d of %d kinds seen: %v", len(seen), len(c.documents), seen)
	}
}

// checkIsStrict plants faults in a document.
func checkIsStrict(t *testing.T, c *contract) {
	t.Helper()
	alarm := c.fields(c.named(t, modulePath+"/singleworker/admin.Alarm"))
	result := c.fields(c.named(t, modulePath+"/singleworker/admin.OrderResult"))
	for text, want := range map[string]string{
		`{"instance_id":"a","at":"2026-11-21T08:19:05Z"}`:    "",
		`{"at":"2026-11-21T08:19:05Z"}`:                      "field instance_id is missing",
		`{"instance_id":"a","who":"b"}`:                      "field who is not described",
		`{"instance_id":7}`:                                  "7 is no text",
		`{"instance_id":"a","at":"yesterday"}`:               "yesterday is no time",
		`{"instance_id":["a"]}`:                              "[a] is no text",
		`{"outcome":"ordered","order":null,"instance":null}`: "",
		`{"outcome":"odd","order":null,"instance":null}`:     "none of the values of admin.Outcome",
	} {
		var object map[string]any
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		fields := alarm
		if object["outcome"] != nil {
			fields = result
		}
		if err := c.hasFields(object, fields); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// hasFields compares an object with the fields that it should have.
func (c *contract) hasFields(object map[string]any, fields []jsonField) error {
	for name, v := range object {
		i := slices.IndexFunc(fields, func(f jsonField) bool { return f.name == name })
		if i < 0 {
			return fmt.Errorf("field %s is not described", name)
		}
		if name == "handlers" && v == nil {
			continue // an instance that does not publish them
		}
		if err := c.conforms(v, fields[i].of.Type()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, f := range fields {
		if _, has := object[f.name]; !has && !f.optional {
			return fmt.Errorf("field %s is missing", f.name)
		}
	}
	return nil
}

// conforms compares a value with the form of a type.
func (c *contract) conforms(v any, t types.Type) error {
	t = types.Unalias(t)
	if v == masked {
		return nil
	}
	switch form := t.(type) {
	case *types.Pointer:
		if v == nil {
			return nil
		}
		return c.conforms(v, form.Elem())
	case *types.Slice:
		list, ok := v.([]any)
		if !ok {
			return fmt.Errorf("%v is no list", v)
		}
		for _, one := range list {
			if err := c.conforms(one, form.Elem()); err != nil {
				return err
			}
		}
		return nil
	case *types.Map:
		object, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("%v is no object", v)
		}
		for _, one := range object {
			if err := c.conforms(one, form.Elem()); err != nil {
				return err
			}
		}
		return nil
	}
	is := ""
	switch v := v.(type) {
	case map[string]any:
		if fields := c.fields(t); fields != nil {
			return c.hasFields(v, fields)
		}
	case string:
		is = "text"
		if _, err := time.Parse(time.RFC3339, v); err == nil && c.form(t) == "time" {
			return nil
		}
		if named, ok := t.(*types.Named); ok && slices.Contains(c.enums, named) {
			known := c.valuesOf(named)
			closed := !strings.Contains(c.docs[named.Obj().Pos()], " ...)") // else it has those of another type, too
			if len(known) > 0 && closed && v != "" && !slices.ContainsFunc(known, func(k value) bool { return k.text == v }) {
				return fmt.Errorf("%q is none of the values of %s", v, title(named))
			}
			return nil
		}
		if c.form(t) == "duration" {
			return nil
		}
	case float64:
		is = "number"
	case bool:
		is = "boolean"
	}
	if want := c.form(t); is != want && want != "JSON" {
		return fmt.Errorf("%v is no %s", v, want)
	}
	return nil
}
