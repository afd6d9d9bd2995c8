package job

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/swjobs/singleworker/singleworker/invalid"
)

// Invalid is the error of a field of a job.
func Invalid(field, value string, err error) *invalid.FieldError {
	return &invalid.FieldError{Of: "job", Field: field, Value: value, Err: err}
}

// Validate reports, as an *invalid.FieldError, the first field of the job that is not
// valid. It does not look at the clock: a schedule that never fires again is
// valid.
func (j Job) Validate() error {
	if err := CheckName(j.Name); err != nil {
		return Invalid("Name", j.Name, err)
	}
	if err := checkText(j.Description, MaxDescription, "\n"); err != nil {
		return Invalid("Description", excerpt([]byte(j.Description)), err)
	}
	if err := checkLabels("Labels", j.Labels, MaxLabels); err != nil {
		return err
	}
	if err := checkLabels("Require", j.Require, MaxRequire); err != nil {
		return err
	}
	if err := checkInstances(j.Instances); err != nil {
		return err
	}
	if j.Handler != "" {
		if err := CheckNodeName(j.Handler); err != nil {
			return Invalid("Handler", j.Handler, err)
		}
	}
	if _, err := j.timetable(); err != nil {
		return err
	}
	if err := CheckPayload(j.Payload); err != nil { // before it is encoded
		return err
	}
	if err := j.checkPolicies(); err != nil {
		return err
	}
	if err := j.checkAlways(); err != nil {
		return err
	}
	if err := CheckShards(j.Shards, j.ShardParameters); err != nil {
		return err
	}
	if err := j.checkEverywhere(); err != nil {
		return err
	}
	if err := j.checkWindow(); err != nil {
		return err
	}
	if err := cmp.Or(j.checkBeforeTick(), j.checkAfter(), j.checkLimits()); err != nil {
		return err
	}
	if err := j.checkNotify(); err != nil {
		return err
	}
	// To encode it costs more than all the rest, and nearly every job is short, however it is encoded.
	if maxEscape*j.textBytes()+maxNames <= MaxBytes {
		return nil
	}
	j.Name = "" // the node's name says it
	text, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("job: %w", err)
	}
	return j.CheckSize(len(text))
}

// How many bytes of JSON one byte of text takes at most, and all that is no text.
const (
	maxEscape = 6
	maxNames  = 4 << 10
)

// textBytes is the length of the job's texts, with room for JSON's punctuation between the texts of
// a map.
func (j Job) textBytes() int {
	const between = 24
	n := len(j.Description) + len(j.Schedule) + len(j.TimeZone) + len(j.Handler) + len(j.BeforeTick) + len(j.Payload)
	for _, texts := range []map[string]string{j.Labels, j.Args, j.Require} {
		for key, value := range texts {
			n += len(key) + len(value) + between
		}
	}
	for _, names := range [][]string{j.Instances, j.Calendars, j.After, j.LimitNames()} {
		for _, name := range names {
			n += len(name) + between
		}
	}
	for target, kinds := range j.Notify {
		n += len(target) + (1+len(kinds))*between
	}
	for _, parameter := range j.ShardParameters {
		n += len(parameter) + between
	}
	return n
}

// CheckSize reports, as an *invalid.FieldError of the largest field, that a record of the
// job which takes so many bytes is longer than MaxBytes.
func (j Job) CheckSize(size int) error {
	if size <= MaxBytes {
		return nil
	}
	largest, most := "Args", 0
	for _, field := range []struct {
		name string
		only Job
	}{
		{"Args", Job{Args: j.Args}}, {"Payload", Job{Payload: j.Payload}},
		{"ShardParameters", Job{ShardParameters: j.ShardParameters}}, {"Labels", Job{Labels: j.Labels}},
		{"Require", Job{Require: j.Require}}, {"Instances", Job{Instances: j.Instances}},
	} {
		if text, err := json.Marshal(field.only); err == nil && len(text) > most {
			largest, most = field.name, len(text)
		}
	}
	return Invalid(largest, fmt.Sprintf("%d bytes", size), fmt.Errorf("is too long: a job has at most %d bytes", MaxBytes))
}

// CheckInstanceLabels reports why an instance cannot have these labels.
func CheckInstanceLabels(labels map[string]string) error {
	refused := new(invalid.FieldError)
	if errors.As(checkLabels("Labels", labels, MaxRequire), &refused) {
		return fmt.Errorf("%s %w", refused.Value, refused.Err)
	}
	return nil
}

// CheckLine reports why a text is not one line of printable text of at most that many bytes.
func CheckLine(text string, limit int) error { return checkText(text, limit, "") }

func checkInstances(ids []string) error {
	if len(ids) > MaxInstances {
		return Invalid("Instances", fmt.Sprintf("%d instances", len(ids)), fmt.Errorf("are too many, at most %d are allowed", MaxInstances))
	}
	for i, id := range ids {
		err := CheckNodeName(id)
		if err == nil && slices.Contains(ids[:i], id) {
			err = errors.New("is there twice")
		}
		if err != nil {
			return Invalid("Instances", id, err)
		}
	}
	return nil
}

func checkLabels(field string, labels map[string]string, most int) error {
	if len(labels) > most {
		return Invalid(field, fmt.Sprintf("%d labels", len(labels)), fmt.Errorf("are too many, at most %d are allowed", most))
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		notOfKeys := func(r rune) bool {
			return !strings.ContainsRune("-_./", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		}
		err := checkText(key, MaxLabelKey, "")
		switch {
		case err != nil:
		case key == "":
			err = errors.New("has no key")
		case strings.ContainsFunc(key, notOfKeys):
			err = errors.New(`has a key with other characters than letters, digits and "-_./"`)
		default:
			err = checkText(labels[key], MaxLabelValue, "")
		}
		if err != nil {
			return Invalid(field, excerpt([]byte(key+"="+labels[key])), err)
		}
	}
	return nil
}

// checkText wants printable text of limited length. It may have the characters
// besides.
func checkText(text string, limit int, besides string) error {
	switch {
	case len(text) > limit:
		return fmt.Errorf("has %d bytes, at most %d are allowed", len(text), limit)
	case !utf8.ValidString(text):
		return errors.New("is not valid UTF-8")
	}
	for _, r := range text {
		if !unicode.IsPrint(r) && !strings.ContainsRune(besides, r) {
			return fmt.Errorf("contains %q, want printable characters", r)
		}
	}
	return nil
}

// CheckPayload reports, as an *invalid.FieldError, that a payload is not one JSON value. An empty
// payload is valid.
func CheckPayload(payload json.RawMessage) error {
	if len(payload) == 0 {
		return nil
	}
	if err := json.Unmarshal(payload, new(any)); err != nil {
		return Invalid("Payload", excerpt(payload), fmt.Errorf("is not JSON: %w", err))
	}
	return nil
}

func (j Job) checkPolicies() error {
	for _, field := range []struct {
		name  string
		value any
		err   error
	}{
		{"Misfire", j.Misfire, j.Misfire.Check()},
		{"MisfireGrace", j.MisfireGrace, notNegative(j.MisfireGrace)},
		{"Interrupted", j.Interrupted, oneOf(j.Interrupted, InterruptedRerun, InterruptedSkip, InterruptedAsk, InterruptedAskOrSkip)},
		{"MaxAttempts", j.MaxAttempts, upTo(j.MaxAttempts, MaxMaxAttempts)},
		{"Overlap", j.Overlap, oneOf(j.Overlap, OverlapSkip, OverlapQueue)},
		{"Timeout", j.Timeout, notNegative(j.Timeout)},
		{"Retries", j.Retries, upTo(j.Retries, MaxRetries)},
		{"PauseAfterFailures", j.PauseAfterFailures, upTo(j.PauseAfterFailures, MaxFailures)},
		{"Backoff", j.Backoff, noneOrNotNegative(j.Backoff)},
		{"AlarmAfter", j.AlarmAfter, noneOrNotNegative(j.AlarmAfter)},
		{"HungAfter", j.HungAfter, noneOrNotNegative(j.HungAfter)},
		{"KeepDone", j.KeepDone, noneOrNotNegative(j.KeepDone)},
	} {
		if field.err != nil {
			return Invalid(field.name, fmt.Sprint(field.value), field.err)
		}
	}
	return nil
}

// checkAlways refuses the policies that mean nothing for a job that always runs.
func (j Job) checkAlways() error {
	schedule, err := j.timetable()
	if err != nil || !schedule.Always() {
		return err
	}
	set := j.Normal()
	for _, field := range []struct {
		name  string
		value any
		isSet bool
		why   string
	}{
		{"Misfire", set.Misfire, set.Misfire != "", "it has no ticks to miss"},
		{"MisfireGrace", set.MisfireGrace, set.MisfireGrace != 0, "it has no ticks to miss"},
		{"Interrupted", set.Interrupted, set.Interrupted != "", "it runs again whatever its last run came to"},
		{"MaxAttempts", set.MaxAttempts, set.MaxAttempts != 0, "each of its runs is a first attempt, after a pause that grows"},
		{"Overlap", set.Overlap, set.Overlap != "", "no tick comes during its run"},
		{"Retries", set.Retries, set.Retries != 0, "it runs again whatever its last run came to"},
		{"Backoff", set.Backoff, set.Backoff == NoBackoff, "a run that fails at once would be repeated without a pause"},
		{"HungAfter", set.HungAfter, set.HungAfter != 0, "its run never ends"},
		{"KeepDone", set.KeepDone, set.KeepDone != 0, "it is never done"},
	} {
		if field.isSet {
			return Invalid(field.name, fmt.Sprint(field.value), fmt.Errorf("means nothing for a job that always runs (%s): %s", schedule, field.why))
		}
	}
	return nil
}

// CheckShards reports, as an *invalid.FieldError, why a job cannot have so many shards with
// these parameters.
func CheckShards(shards int, parameters map[int]string) error {
	if shards < 0 || shards > MaxShards {
		return Invalid("Shards", strconv.Itoa(shards), fmt.Errorf("is out of range, want 1 to %d", MaxShards))
	}
	for _, k := range slices.Sorted(maps.Keys(parameters)) {
		switch {
		case shards == 0:
			return Invalid("ShardParameters", strconv.Itoa(k), errors.New("is a parameter, but the job has no shards"))
		case k < 0 || k >= shards:
			return Invalid("ShardParameters", strconv.Itoa(k), fmt.Errorf("is no shard, want 0 to %d", shards-1))
		}
	}
	return nil
}

// Check reports why p is not a misfire policy. The empty one is the default.
func (p MisfirePolicy) Check() error { return oneOf(p, MisfireOnce, MisfireSkip, MisfireAll) }

func oneOf[T ~string](value T, known ...T) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return fmt.Errorf("is not known, want one of %s", listed(known))
}

func listed[T ~string](known []T) string {
	var names []string
	for _, name := range known {
		names = append(names, string(name))
	}
	return strings.Join(names, ", ")
}

func notNegative(d time.Duration) error {
	if d < 0 {
		return errors.New("is negative")
	}
	return nil
}

// noneOrNotNegative takes a duration, or the one value that stands for none, such as NoBackoff.
func noneOrNotNegative(d time.Duration) error {
	if d == NoBackoff {
		return nil
	}
	return notNegative(d)
}

func upTo(n, limit int) error {
	if n < 0 || n > limit {
		return fmt.Errorf("is out of range, want 0 to %d", limit)
	}
	return nil
}

// excerpt is as much of an input as fits in an error.
func excerpt(text []byte) string {
	const limit = 40
	if len(text) > limit {
		return string(text[:limit]) + "..."
	}
	return string(text)
}
