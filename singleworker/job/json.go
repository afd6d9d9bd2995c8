package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// none is a duration that is left out on purpose: NoBackoff or NoAlarm; KeepForever is forever.
const none, forever = "none", "forever"

// negative is the text for a negative duration of the field.
func (f field) negative() string {
	if f.name == "keep_done" {
		return forever
	}
	return none
}

// field is a field of Job in JSON.
type field struct {
	index     int
	name      string
	omitEmpty bool
}

var fields = fieldsOf(reflect.TypeFor[Job]())

func fieldsOf(job reflect.Type) []field {
	var list []field
	for i := range job.NumField() {
		if !job.Field(i).IsExported() {
			continue
		}
		name, options, _ := strings.Cut(job.Field(i).Tag.Get("json"), ",")
		list = append(list, field{i, name, options == "omitempty"})
	}
	return list
}

// MarshalJSON writes the fields that are set, in the order of the type, and
// durations as Go writes them: "1m30s", or "none".
func (j Job) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // up to who asked for JSON
	separator := `{"`
	of := reflect.ValueOf(&j).Elem()
	for _, f := range fields {
		value := of.Field(f.index)
		if f.omitEmpty && isEmpty(value) {
			continue
		}
		out.WriteString(separator)
		out.WriteString(f.name)
		out.WriteString(`":`)
		separator = `,"`
		form := value.Addr().Interface() // which is not copied
		if d, ok := form.(*time.Duration); ok {
			form = d.String()
			if *d < 0 {
				form = f.negative()
			}
		}
		if err := enc.Encode(form); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		out.Truncate(out.Len() - 1) // Encode ends with a line break
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

func isEmpty(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Map, reflect.Slice:
		return value.Len() == 0
	default:
		return value.IsZero()
	}
}

// UnmarshalJSON reads the output of MarshalJSON. It replaces all of j, and refuses fields that are
// not a job's and values that are not a field's with a *invalid.FieldError. For text that is not
// JSON, it returns encoding/json's errors. It does not judge the job: see [Job.Validate].
func (j *Job) UnmarshalJSON(data []byte) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return fmt.Errorf("job: %w", err)
	}
	var read Job
	for _, name := range slices.Sorted(maps.Keys(object)) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			return Invalid(name, excerpt(object[name]), errors.New("is not a field of a job"))
		}
		if string(object[name]) == "null" {
			continue
		}
		if err := fields[i].read(reflect.ValueOf(&read).Elem().Field(fields[i].index), object[name]); err != nil {
			return Invalid(name, excerpt(object[name]), err)
		}
	}
	*j = read
	return nil
}

func (f field) read(into reflect.Value, data json.RawMessage) error {
	d, ok := reflect.TypeAssert[*time.Duration](into.Addr())
	if !ok {
		return json.Unmarshal(data, into.Addr().Interface())
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return errors.New(`want a duration such as "1m30s"`)
	}
	if text == f.negative() {
		*d = -1
		return nil
	}
	parsed, err := ParseDuration(text)
	if err != nil {
		return errors.New(`want a duration such as "1m30s"`)
	}
	*d = parsed
	return nil
}
