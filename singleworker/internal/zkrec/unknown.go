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

// unknown are the members of a JSON object that this version does not know, `"name":value`, in the
// order of their names; mostly "". Every record that is read and written back keeps them, at every
// level. As a string they leave records comparable.
type unknown string

// lastingPrefix begins the names of members that outlive what the rest of a record is about, see
// the package's documentation.
const lastingPrefix = "slot_"

// decode reads an object into a struct, and returns the members that are no fields of it.
func decode(object []byte, record any) (unknown, error) {
	if err := json.Unmarshal(object, record); err != nil {
		return "", err
	}
	names := namesOf(reflect.TypeOf(record).Elem())
	if names.haveAll(object) {
		return "", nil
	}
	members, err := membersOf(object)
	if err != nil {
		return "", err
	}
	take(members, names)
	return unknownOf(members), nil
}

// encode writes a struct as an object, with members that are no fields of it.
func encode(record any, more unknown) []byte {
	data := mustJSON(record)
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
func join(a, b unknown) unknown {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}

// only are those members whose names are wanted.
func (u unknown) only(wanted func(name string) bool) unknown {
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

func unknownOf(members map[string]json.RawMessage) unknown {
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		out.Write(mustJSON(name))
		out.WriteByte(':')
		if err := json.Compact(&out, members[name]); err != nil {
			panic(fmt.Sprintf("zkrec: encode %s: %v", excerpt(members[name]), err)) // it was decoded before
		}
	}
	return unknown(out.String())
}

// names are the JSON names of a struct's fields.
type names []string

// namesByType has those of all records that were read.
var namesByType sync.Map

func namesOf(record reflect.Type) names {
	known, found := namesByType.Load(record)
	if !found {
		known, _ = namesByType.LoadOrStore(record, jsonNames(record))
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

// take moves the named members out of an object. Names are known in any case, as
// json.Unmarshal takes them.
func take(object map[string]json.RawMessage, names names) map[string]json.RawMessage {
	taken := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(object)) { // capitals first: the correct spelling wins
		i := slices.IndexFunc(names, func(known string) bool { return strings.EqualFold(known, name) })
		if i >= 0 {
			taken[names[i]] = object[name]
			delete(object, name)
		}
	}
	return taken
}
