package swtest_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// odd are the values that a field of a record gets instead, as JSON.
var odd = []string{
	"null", "true", "-1", "0", "1", "7", "1.5", "1e400", "-62135596800001", "253402300800000", "9223372036854775807", "-9223372036854775808",
	"9223372036854775808", `""`, `"x"`, `"a/../b"`, `"\u001b[2J\u202e\u0000\n"`, `"2026-13-45T99:99:99Z"`, `"-9999h"`, `"@every 1s"`, `"5"`, "[]", "{}", "[null]",
	`{"a":null}`, `{"":{}}`, `[[]]`, `"` + strings.Repeat("x", 5000) + `"`, strings.Repeat("[", 500) + strings.Repeat("]", 500),
}

// forms stand in place of a record and are something else.
func forms(data []byte) [][]byte {
	text := string(data)
	all := [][]byte{bytes.ToUpper(data), append(slices.Clone(data), data...), bytes.Repeat([]byte{0}, 100)}
	for _, form := range []string{
		"", " ", "null", "true", "0", "-1", `"x"`, "[]", "{}", "[null]", "{", "}", "garbage", "\xff\xfe{}", "\xef\xbb\xbf" + text, "\x00", "\x1b[2J\u202e",
		strings.Repeat(" ", 33<<10), text + strings.Repeat(" ", 33<<10), `{"schema":1,"x":"` + strings.Repeat("x", 33<<10) + `"}`, `{"schema":99}`, `{"schema":-1}`,
		`{"schema":9223372036854775807}`, strings.Repeat("[", 20_000), strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000), "<script>alert(1)</script>",
		`{"schema":1,"entries":[],"x":"` + strings.Repeat(" ", 40<<10) + `"}`, `{"schema":1,"entries":[null]}`,
	} {
		all = append(all, []byte(form))
	}
	return all
}

// corrupted returns n corrupted copies of a record: up to half of them are something else, most of
// the others have one field that has another value, or is missing, and the rest is cut, or has
// wrong bytes.
func corrupted(data []byte, n int, rng *rand.Rand) (all [][]byte) {
	some := func(of [][]byte, most int) {
		rng.Shuffle(len(of), func(i, k int) { of[i], of[k] = of[k], of[i] })
		all = append(all, of[:min(most, len(of), n-len(all))]...)
	}
	const wrong = "\x00\x1b\xff\u202e\",:{}[]0-e"
	some(forms(data), n/2)
	some(fields(data), 3*(n-len(all))/4)
	for len(all) < n {
		bad := slices.Clone(data)
		for range 1 + rng.IntN(3) {
			at := rng.IntN(len(bad) + 1)
			switch rng.IntN(4) {
			case 0:
				bad = bad[:at]
			case 1:
				bad = slices.Insert(bad, at, wrong[rng.IntN(len(wrong))])
			case 2:
				bad = append(bad[:at], bad[min(len(bad), at+1+rng.IntN(10)):]...)
			case 3:
				if at < len(bad) {
					bad[at] ^= 1 << rng.IntN(8)
				}
			}
		}
		all = append(all, bad)
	}
	return all
}

// fields lists the record with each of its fields, at any depth, in turn missing or with each odd
// value. It is empty if the record is no JSON.
func fields(data []byte) (all [][]byte) {
	var record any
	if json.Unmarshal(data, &record) != nil {
		return nil
	}
	var walk func(value any, put func(any))
	walk = func(value any, put func(any)) {
		render := func(other any) {
			put(other)
			text, err := json.Marshal(record)
			if err != nil {
				panic(err)
			}
			all = append(all, text)
			put(value)
		}
		for _, other := range odd {
			render(json.RawMessage(other))
		}
		switch value := value.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(value)) {
				own := value[name]
				delete(value, name)
				render(value)
				value[name] = own
				walk(own, func(other any) { value[name] = other })
			}
		case []any:
			for i, own := range value {
				walk(own, func(other any) { value[i] = other })
			}
		}
	}
	walk(record, func(other any) { record = other })
	return all
}

// keyOf names a corrupted thing.
func keyOf(prefix string, i int) string { return prefix + "-" + strconv.Itoa(i) }
