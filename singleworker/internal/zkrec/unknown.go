package zkrec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Unknown are the members of a JSON object that this version does not know, `"name":value`, in the
// order of their names. Mostly there are none. Every record that is read and written back keeps
// them, at every level. As a string they leave records comparable.
//
// A record that stands in another one has a MarshalJSON and an UnmarshalJSON, which call Encode and
// Decode with a type that has its fields and not its methods. It is embedded nowhere: the other one
// would get its methods. A struct that is embedded has the Unknown, and no such methods.
type Unknown string

// lastingPrefix begins the names of members that outlive the subject of the rest of a record, see
// the package's documentation.
const lastingPrefix = "slot_"

// Decode reads an object into the struct that record points to, and sets u to the members that are
// no fields of it.
func (u *Unknown) Decode(object []byte, record any) error {
	if err := json.Unmarshal(object, record); err != nil {
		return err
	}
	*u = ""
	names := namesOf(record)
	if names.haveAll(object) {
		return nil
	}
	members, err := membersOf(object)
	if err != nil {
		return err
	}
	take(members, names)
	*u = unknownOf(members)
	return nil
}

// Encode writes a struct, or what a pointer to it points to, as an object with those members of u
// that are no fields of it. It panics if a field cannot be encoded.
func (u Unknown) Encode(record any) []byte {
	data := mustJSON(record)
	if u == "" {
		return data
	}
	names := namesOf(record)
	more := u.only(func(name string) bool { return names.index(name) < 0 })
	if more == "" {
		return data
	}
	data = data[:len(data)-1]
	if len(data) > len("{") {
		data = append(data, ',')
	}
	return append(append(data, more...), '}')
}

// join has the members of both, which have different names.
func join(a, b Unknown) Unknown {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}

// only are those members whose names are wanted.
func (u Unknown) only(wanted func(name string) bool) Unknown {
	if u == "" {
		return ""
	}
	members, err := membersOf([]byte("{" + string(u) + "}"))
	if err != nil {
		panic(fmt.Sprintf("zkrec: decode unknown fields: %v", err)) // they were decoded before
	}
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return !wanted(name) })
	return unknownOf(members)
}

func isLasting(name string) bool { return strings.HasPrefix(name, lastingPrefix) }

func isPassing(name string) bool { return !isLasting(name) }

func membersOf(object []byte) (members map[string]json.RawMessage, err error) {
	err = json.Unmarshal(object, &members)
	return members, err
}

// unknownOf writes members as json.Marshal writes a record in a record, with <, > and & escaped, so
// that all are read back as they are kept.
func unknownOf(members map[string]json.RawMessage) Unknown {
	var out, compact bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		out.Write(mustJSON(name))
		out.WriteByte(':')
		compact.Reset()
		if err := json.Compact(&compact, members[name]); err != nil {
			panic(fmt.Sprintf("zkrec: encode %s: %v", excerpt(members[name]), err)) // it was decoded before
		}
		json.HTMLEscape(&out, compact.Bytes())
	}
	return Unknown(out.String())
}

// names are the JSON names of a struct's fields.
type names []string

// namesByType has the names of all records that were read.
var namesByType sync.Map

// namesOf has those of a struct, or of what a pointer to it points to.
func namesOf(record any) names {
	of := reflect.TypeOf(record)
	known, found := namesByType.Load(of)
	if !found {
		known, _ = namesByType.LoadOrStore(of, jsonNames(reflect.Indirect(reflect.ValueOf(record)).Type()))
	}
	all, _ := known.(names)
	return all
}

func jsonNames(record reflect.Type) (all names) {
	for _, field := range reflect.VisibleFields(record) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			all = append(all, name)
		}
	}
	return all
}

// index is where a name is, in any case as json.Unmarshal takes it, or -1.
func (n names) index(name string) int {
	return slices.IndexFunc(n, func(known string) bool { return strings.EqualFold(known, name) })
}

// haveAll reports whether all members of an object, which is valid JSON, have these names in their
// usual spelling.
func (n names) haveAll(object []byte) bool {
	depth, last := 0, object[:0] // the last string
	for i := 0; i < len(object); i++ {
		switch object[i] {
		case '"':
			begin := i + 1
			for i++; object[i] != '"'; i++ {
				if object[i] == '\\' {
					i++
				}
			}
			last = object[begin:i]
		case ':':
			if depth == 1 && !slices.Contains(n, string(last)) {
				return false
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
	}
	return true
}

// take moves the named members out of an object.
func take(object map[string]json.RawMessage, names names) map[string]json.RawMessage {
	taken := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(object)) { // capitals first: the correct spelling wins
		if i := names.index(name); i >= 0 {
			taken[names[i]] = object[name]
			delete(object, name)
		}
	}
	return taken
}
