package notify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// values are what somebody may have written in place of any field.
var values = []string{
	"null", "true", "-1", "0", "9223372036854775807", "9223372036854775808", "1e400", "1.5", `""`, `"x"`, "[]", "{}", "[null]", `{"a":null}`,
	"[[]]", `{"":{}}`, `"a\n- b failed\u001b[2J\u202e"`,
}

const (
	goodSlot = `{"episodes":[{"kind":"failed","id":"g","tick":1,"at":1,"count":1,"last":1}]}`
	slotOf   = `{"created":1,"number":1,"rev":1,"retry":@retry@,"episodes":[@episode@],"to":{"hook":["failed"]}}`
)

// broken lists a slot's record with each of its fields in turn replaced by each value.
func broken() (records []string) {
	fields := func(text string) (each []string) {
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			panic(err)
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			for _, value := range values {
				was := object[name]
				object[name] = json.RawMessage(value)
				parts := make([]string, 0, len(object))
				for other, v := range object {
					parts = append(parts, fmt.Sprintf("%q:%s", other, v))
				}
				object[name] = was
				each = append(each, "{"+strings.Join(parts, ",")+"}")
			}
		}
		return each
	}
	const failure = `{"kind":"failed","id":"x","tick":1,"at":1,"count":1,"text":"t","sid":"s"}`
	const ep = `{"kind":"failed","id":"x","tick":1,"at":1,"count":1,"text":"t","sid":"s","last":1,"ended":2,"gone":false,"sent":{"ops":1}}`
	whole := func(retry, episode string) string {
		return strings.NewReplacer("@retry@", retry, "@episode@", episode).Replace(slotOf)
	}
	records = append(append(records, values...), fields(whole(failure, ep))...)
	for _, f := range append(fields(failure), values...) {
		records = append(records, whole(f, ep))
	}
	for _, e := range append(fields(ep), values...) {
		records = append(records, whole("null", e))
	}
	return append(records, "", "{", "garbage", "\x00", strings.Repeat(" ", 33<<10), strings.Repeat("[", 20_000))
}

// Whatever stands in place of a slot's record, the others of its part are told, and its text can be
// sent.
func TestBrokenRecordsOfSlots(t *testing.T) {
	t.Parallel()
	const good = "good"
	number := partOf(good)
	bad := ""
	for i := 0; bad == ""; i++ {
		if name := fmt.Sprintf("bad%d", i); partOf(name) == number {
			bad = name
		}
	}
	left := 0
	for _, text := range broken() {
		b := newBook("billing", []string{"ops"}, []Rule{{Jobs: "*", To: []string{"ops"}, On: kinds}})
		data := fmt.Sprintf(`{"schema":1,"slots":{%q:%s,%q:%s}}`, bad, text, good, goodSlot)
		err := b.parts[number].parse(number, []byte(data))
		if !json.Valid([]byte(data)) { // then nothing of the part can be read
			if err == nil || !b.parts[number].dirty {
				t.Errorf("%.100s: %v", text, err)
			}
			continue
		}
		if err != nil {
			left++
		}
		if kept := b.parts[number].slots[bad] != nil; kept == (err != nil) || b.parts[number].dirty == kept {
			t.Errorf("%.200s: kept %v, dirty %v: %v", text, kept, b.parts[number].dirty, err)
		}
		told := 0
		for _, o := range b.owed(b.targets)["ops"] {
			if o.slot == good {
				told++
			}
			if sent, err := json.Marshal(o.item); err != nil || bytes.ContainsAny(sent, "\u202e") || strings.Contains(string(sent), `\u00`) ||
				strings.Contains(string(sent), `\n`) {
				t.Errorf("%.200s: %s is said, %v", text, sent, err)
			}
		}
		if told != 1 {
			t.Errorf("%.200s: of the other slot %d is told", text, told)
		}
	}
	if all := len(broken()); left < all/2 || left == all {
		t.Errorf("%d of %d records were left out", left, all)
	}
}

// A record in the part of another one, and a part that no sender writes, are left out.
func TestBrokenParts(t *testing.T) {
	t.Parallel()
	number := partOf("job")
	swells := strings.Repeat(`{"kind":"late","of":"`+strings.Repeat("<", maxRecord/2)+`"},`, 25)
	for text, wrong := range map[string]string{
		"": "", "null": "", "{}": "", `{"schema":1,"slots":{"job":` + goodSlot + `}}`: "",
		"garbage": "invalid character", "[]": "cannot unmarshal array", `{"schema":2}`: "no schema", `{"schema":-1}`: "no schema",
		`{"slots":{"\u001b[2Jother":` + goodSlot + `}}`:                                              "\ufffd[2Jother\": it belongs to part",
		`{"slots":{"job":{"episodes":[null]}}}`:                                                      "an episode is null",
		`{"slots":{"job":{"last":"` + strings.Repeat("x", maxRecord) + `"}}}`:                        "too many",
		`{"slots":{"job":{"episodes":[` + swells + `{"kind":"late"}]}}}`:                             "writes them, are too many",
		`{"slots":{"job":` + goodSlot + `},"of":"` + strings.Repeat("x", maxRecord) + `"}`:           "too many",
		`{"slots":{"job":{"episodes":[{"kind":"recovered"}]}}}`:                                      `"recovered" is no kind of failure`,
		`{"slots":{"job":{"episodes":[{"kind":"late","sent":{"ops":3}}]}}}`:                          "3 says nothing",
		`{"slots":{"job":{"episodes":[{"kind":"late","tick":253402300800000}]}}}`:                    "not a time",
		`{"slots":{"job":{"episodes":[{"kind":"late","ended":253402300800000}]}}}`:                   "not a time",
		`{"slots":{"job":{"retry":{"kind":"failed","count":-1}}}}`:                                   "-1 is no count",
		`{"slots":{"job":{"created":7,"number":1,"rev":-1}}}`:                                        "entry 1, of write -1",
		`{"slots":{"job":{"to":{"a/b":[]}}}}`:                                                        "no job names such targets",
		`{"slots":{"job":{"episodes":[{"kind":"late","id":"x","last":1,"ended":253402300799999}]}}}`: "",
	} {
		var p part
		switch err := p.parse(number, []byte(text)); {
		case wrong == "" && err != nil, wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("%.100s: %v, want %q", text, err, wrong)
		case (err != nil) != p.dirty || p.slots == nil:
			t.Errorf("%.100s: written over: %v", text, p.dirty)
		}
	}
}

// newer are a head and a part of the book as a newer version writes them, with a field more at each
// level.
const (
	newerHead = `{"schema":1,"sender":"n1","term":7,"cursor":9,"of":"head"}`
	newerPart = `{"schema":1,"slots":{"job":{"created":1,"number":2,"rev":3,` +
		`"retry":{"kind":"failed","id":"r","tick":4,"at":5,"count":1,"text":"t","sid":"s","last":7,"of":"retry"},` +
		`"episodes":[{"kind":"failed","id":"e","tick":1,"at":2,"count":1,"last":1,"ended":3,"gone":true,"sent":{"ops":1},"of":{"the":["episode"]}}],` +
		`"to":{"ops":["failed"]},"of":"slot"}},"of":"part"}`
)

// Whatever a newer version adds, at any level of a record, is still there after the record was read
// and written.
func TestUnknownFieldsSurviveARewrite(t *testing.T) {
	t.Parallel()
	h, err := parseHead([]byte(newerHead), 100)
	if got := h.encode(); err != nil || string(got) != newerHead {
		t.Errorf("%s\nis rewritten as\n%s, %v", newerHead, got, err)
	}
	var p part
	err = p.parse(partOf("job"), []byte(newerPart))
	if got := p.encode(); err != nil || string(got) != newerPart {
		t.Errorf("%s\nis rewritten as\n%s, %v", newerPart, got, err)
	}
}

// A failure that was to be retried, and is followed by another tick, has in its episode what is not
// known of it, unless an episode uses the name for something else.
func TestUnknownFieldsOfAFailure(t *testing.T) {
	t.Parallel()
	b := newBook("billing", []string{"ops"}, []Rule{{Jobs: "*", To: []string{"ops"}, On: kinds}})
	p := &b.parts[partOf("job")]
	if err := p.parse(partOf("job"), []byte(newerPart)); err != nil {
		t.Fatal(err)
	}
	b.begun("job", 6, 1)
	const want = `,{"kind":"failed","id":"r","tick":4,"at":5,"count":1,"text":"t","sid":"s","last":4,"of":"retry"}],`
	if got := string(p.encode()); !strings.Contains(got, want) {
		t.Errorf("the part is\n%s, want in it\n%s", got, want)
	}
}

// Of a head that no sender of this ensemble can have written, the time at which it was written is
// left; one of a newer version is refused.
func TestBrokenHeads(t *testing.T) {
	t.Parallel()
	const written = 100
	for text, wrong := range map[string]string{
		"": "", "null": "", "{}": "", `{"schema":1,"sender":"x","term":7,"cursor":100}`: "",
		`{"cursor":1,"of":"` + strings.Repeat("x", maxRecord) + `"}`: "too many",
		"garbage": "invalid character", `{"schema":-1}`: "no schema", `{"schema":9223372036854775807}`: "no schema", `{"term":-1}`: "no transaction",
		`{"cursor":-1}`: "no transaction", `{"term":101}`: "no transaction", `{"cursor":101}`: "no transaction",
	} {
		h, err := parseHead([]byte(text), written)
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong) || h != head{Cursor: written}) {
			t.Errorf("%s: %+v, %v; want %q", text, h, err, wrong)
		}
	}
	if _, err := parseHead([]byte(`{"schema":2,"term":-1}`), written); !errors.As(err, new(*zkrec.SchemaError)) {
		t.Errorf("of a newer version: %v", err)
	}
}
