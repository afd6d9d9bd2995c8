// Package fields is all that swctl knows of each field of a job: its flag, its line in show, its
// name in a difference, and its errors. Its form in JSON is job.Job's.
package fields

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// field is one field of a job on the command line.
type field struct {
	of string // its name in job.Job, as in an *invalid.FieldError

	flag      string // without dashes
	usage     string
	setOnly   bool   // submit has no such flag
	fixed     bool   // set has no such flag
	repeated  bool   // the flag may be
	preset    string // the value of a key that the flag has without one; "": each needs one
	words     []string
	kind      cmdline.Kind // of its values, which complete it, unless words are all that it can have
	drop      string       // the flag of set that removes it, or one of its keys
	dropUsage string
	try       string // what to do about an error

	title    string               // of its line in show; empty: it has none
	optional bool                 // no line if there is nothing to say
	line     func(job.Job) string // what show says; nil: its values
	name     string               // in a difference
	schema   map[string]any       // of its value in a file

	// read makes of the flag, which was given, a change of a job.
	read func(c *cmdline.Call, f field) (func(*job.Job), error)
	// remove is read for the drop flag.
	remove func(c *cmdline.Call, f field) func(*job.Job)
	values func(job.Job) []value
}

// value is the content of a field, or of one of its keys.
type value struct{ key, text string }

func (v value) String() string {
	if v.key == "" {
		return v.text
	}
	return v.key + "=" + v.text
}

// single is a field that has one text, which parse reads.
func single[T any](f field, at func(*job.Job) *T, format func(T) string, parse func(c *cmdline.Call, f field, text string) (T, error)) field {
	f.values = func(j job.Job) []value { return []value{{"", format(*at(&j))}} }
	f.read = func(c *cmdline.Call, f field) (func(*job.Job), error) {
		parsed, err := parse(c, f, c.Flags.String(f.flag))
		return func(j *job.Job) { *at(j) = parsed }, err
	}
	f.remove = func(*cmdline.Call, field) func(*job.Job) {
		var none T
		return func(j *job.Job) { *at(j) = none }
	}
	return f
}

func text[T ~string](f field, at func(*job.Job) *T, allowed ...T) field {
	f.schema = anyText
	if len(allowed) > 0 {
		f.schema = map[string]any{"enum": allowed}
	}
	return single(f, at, func(value T) string { return string(value) },
		func(_ *cmdline.Call, _ field, text string) (T, error) { return T(text), nil })
}

// yes is a flag without a value.
func yes(f field, at func(*job.Job) *bool) field {
	f.schema = map[string]any{"type": "boolean"}
	return single(f, at, func(is bool) string {
		if is {
			return "yes"
		}
		return ""
	}, func(c *cmdline.Call, f field, _ string) (bool, error) { return c.Flags.Bool(f.flag), nil })
}

// number does not take 0 for fields with another default: a job takes it for that.
func number(f field, least, most int, at func(*job.Job) *int) field {
	f.schema = map[string]any{"type": "integer", "minimum": least, "maximum": most}
	format := func(n int) string {
		if n < least { // a job that is not divided
			return ""
		}
		return strconv.Itoa(n)
	}
	return single(f, at, format, func(c *cmdline.Call, f field, _ string) (int, error) {
		return c.Number(f.flag, 0, least, most)
	})
}

// duration leaves it to the job to refuse a negative one.
func duration(f field, at func(*job.Job) *time.Duration) field {
	f.schema = matching(durationPattern)
	return single(f, at, plain.Exact, func(_ *cmdline.Call, f field, text string) (time.Duration, error) {
		d, err := job.ParseDuration(text)
		if err != nil {
			err = cmdline.Usage("--%s %q: want a duration such as 10s or 1m30s", f.flag, text)
		}
		return d, err
	})
}

// durationOr does not take 0, which a job takes for the default, and names other than a duration
// only: job.NoBackoff and the others have one value.
func durationOr(name string, f field, at func(*job.Job) *time.Duration) field {
	const none = job.NoBackoff
	f.schema = matching(name + "|" + durationPattern)
	format := func(d time.Duration) string {
		if d == none {
			return name
		}
		return unlessZero(d)
	}
	return single(f, at, format, func(_ *cmdline.Call, f field, text string) (time.Duration, error) {
		d, err := job.ParseDuration(text)
		switch {
		case text == name:
			return none, nil
		case err != nil || d == 0:
			err = cmdline.Usage("--%s %q: want a duration such as 10s or 1m30s, or %s", f.flag, text, name)
		case d == none:
			err = cmdline.Usage("--%s %q: is negative", f.flag, text)
		}
		return d, err
	})
}

// list has texts that are set beside those that the job has.
func list(f field, at func(*job.Job) *[]string) field {
	f.repeated, f.schema = true, map[string]any{"type": "array", "items": anyText}
	f.values = func(j job.Job) []value { return []value{{"", strings.Join(*at(&j), ", ")}} }
	f.read = func(c *cmdline.Call, f field) (func(*job.Job), error) {
		given := c.Flags.StringSlice(f.flag)
		return func(j *job.Job) {
			for _, text := range given {
				if !slices.Contains(*at(j), text) {
					*at(j) = append(slices.Clone(*at(j)), text)
				}
			}
		}, nil
	}
	f.remove = func(c *cmdline.Call, f field) func(*job.Job) {
		texts := c.Flags.StringSlice(f.drop)
		return func(j *job.Job) {
			*at(j) = slices.DeleteFunc(slices.Clone(*at(j)), func(text string) bool { return slices.Contains(texts, text) })
		}
	}
	return f
}

// payload is the flag's text, or the content of the file or stream that it names.
func payload(f field, at func(*job.Job) *json.RawMessage) field {
	f.schema = map[string]any{}
	return single(f, at, func(text json.RawMessage) string { return string(text) }, readPayload)
}

func readPayload(c *cmdline.Call, f field, text string) (json.RawMessage, error) {
	payload := []byte(text)
	var err error
	if path, ok := strings.CutPrefix(text, "@"); ok {
		payload, err = os.ReadFile(path)
	} else if text == "-" {
		payload, err = io.ReadAll(c.Stdin)
	}
	var bad *json.SyntaxError
	isFile := text == "-" || strings.HasPrefix(text, "@")
	switch {
	case err != nil:
		err = cmdline.Usage("--%s: %w", f.flag, err).Try("--%s @FILE with the path of a file that you may read", f.flag)
	case len(strings.TrimSpace(string(payload))) == 0:
		err = cmdline.Usage("--%s %s holds nothing, want JSON", f.flag, text)
	case isFile && errors.As(json.Unmarshal(payload, new(any)), &bad):
		// Its content may be a secret that was named by mistake: no error repeats it.
		err = cmdline.Usage("--%s %s: is not JSON, from byte %d on", f.flag, text, bad.Offset)
	}
	return payload, err
}

// Flags are the flags of some fields, or of all; with those that remove, for set.
func Flags(set bool, only ...string) (flags []cmdline.Flag) {
	for _, f := range table {
		if len(only) > 0 && !slices.Contains(only, f.flag) || f.setOnly && !set || f.fixed && set {
			continue
		}
		flags = append(flags, cmdline.Flag{Name: f.flag, Usage: f.usage, Repeated: f.repeated, Values: f.words, Kind: f.kind})
		if set && f.drop != "" {
			flags = append(flags, cmdline.Flag{Name: f.drop, Usage: f.dropUsage, Repeated: f.repeated})
		}
	}
	return flags
}

// Changes reads the flags of fields, and returns whether any was given. Its result changes a job,
// and may do so again.
func Changes(c *cmdline.Call) (change func(*job.Job), given bool, err error) {
	var changes []func(*job.Job)
	for _, f := range table {
		dropped := f.drop != "" && c.Flags.IsSet(f.drop)
		if dropped {
			if !f.repeated && c.Flags.IsSet(f.flag) {
				return nil, false, cmdline.Usage("%s: --%s and --%s are mutually exclusive", c.Command, f.drop, f.flag).Try("one of the two")
			}
			changes = append(changes, f.remove(c, f))
		}
		if !c.Flags.IsSet(f.flag) {
			continue
		}
		change, err := f.read(c, f)
		if err != nil {
			return nil, false, err
		}
		changes = append(changes, change)
	}
	return func(j *job.Job) {
		for _, change := range changes {
			change(j)
		}
	}, len(changes) > 0, nil
}

// Difference is a part of a job that is to be changed, or was.
type Difference struct {
	Field string `json:"field"` // its name, with the key if it has several values
	From  string `json:"from"`  // empty if there was nothing
	To    string `json:"to"`
}

// Differences lists how a job differs from another one.
func Differences(before, after job.Job) (changes []Difference) {
	for _, f := range table {
		was, is := map[string]string{}, map[string]string{}
		var keys []string
		for _, v := range f.values(before) {
			was[v.key] = v.text
			keys = append(keys, v.key)
		}
		for _, v := range f.values(after) {
			is[v.key] = v.text
			keys = append(keys, v.key)
		}
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			if was[key] != is[key] {
				changes = append(changes, Difference{strings.TrimSpace(f.name + " " + key), was[key], is[key]})
			}
		}
	}
	return changes
}

// Refused puts an error about a field into the words of the command line: the
// flag instead of the field, and the way out. Other errors stay as they are.
func Refused(err error) error {
	refused := new(invalid.FieldError)
	if !errors.As(err, &refused) || refused.Of != "job" {
		return err
	}
	bad := func(what, try string) error {
		return cmdline.Usage("%s %q: %w", what, refused.Value, refused.Err).Try("%s", try)
	}
	if refused.Field == "Name" {
		return bad("name", "1 to 200 bytes of printable text without / and not beginning with _ or ending like [3]")
	}
	for _, f := range table {
		switch {
		case f.of != refused.Field:
		case f.flag != flagSchedule:
			return bad("--"+f.flag, f.try)
		default:
			if text := new(cronexpr.Error); errors.As(err, &text) { // it quotes the schedule itself
				return cmdline.Usage("%w", text).Try("%s", f.try)
			}
			return bad("schedule", f.try)
		}
	}
	return err
}
