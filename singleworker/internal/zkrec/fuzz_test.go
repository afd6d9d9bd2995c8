package zkrec_test

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// For any data in a node, no reader panics, and a record that it accepts is read
// back as the same after writing it.

func FuzzParseSpec(f *testing.F) {
	for _, seed := range []string{
		"", "0 0 3 * * ?", " @daily\n", "{}", `{"schema":1,"schedule":"@daily","time_zone":"Asia/Tokyo"}`,
		`{"schema":2}`, `{"schedule":" {"}`, `{"args":{"a":"1","a":null},"Args":{"b":"<>"},"extra":[1, 2]}`,
		`{"Schedule":"x","schedule":"y"}`, `{"ſchedule":"x"}`, "{\"\xff\":1,\"\xfe\":2}", "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := zkrec.ParseSpec("job", data)
		if err != nil {
			return
		}
		written := first.Encode()
		if len(written) > zkrec.MaxRecordBytes {
			return // characters that JSON escapes
		}
		second, err := zkrec.ParseSpec("job", written)
		if err != nil {
			t.Fatalf("%q is written as %q, which is not read: %v", data, written, err)
		}
		if !reflect.DeepEqual(first.Job, second.Job) || first.Declared != second.Declared {
			t.Fatalf("%q is read as\n%+v, written and read again as\n%+v", data, first, second)
		}
		if again := second.Encode(); !bytes.Equal(written, again) {
			t.Fatalf("%q is written as\n%q, then as\n%q", data, written, again)
		}
	})
}

func FuzzParseTick(f *testing.F) {
	for _, seed := range []string{
		"", "null", "0", "{}", `{"schema":1,"tick":1798131600000,"run_id":"r","sid":"s","token":9,"state":"running"}`,
		`{"schema":2}`, `{"error":"\ud800"}`, "{\"error\":\"\xff\"}", `{"tick":1e3}`, `{"attempt":-1,"ended":7}`, `{"asked":{"asked_by":"a","x":1},"held":{"asked":{"stopped_by":"\ud800"}}}`, `{"asked":null}`, `{"asked":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := zkrec.ParseTick(data, time.Time{})
		if err != nil {
			return
		}
		second, err := zkrec.ParseTick(first.Encode(), time.Time{})
		if err != nil {
			t.Fatalf("%q is written as %q, which is not read: %v", data, first.Encode(), err)
		}
		if len(first.Error) > zkrec.MaxErrorBytes {
			first.Error = second.Error // capped
		}
		first.Schema = zkrec.Schema // of the last writer
		if first != second {
			t.Fatalf("%q is read as\n%+v, written and read again as\n%+v", data, first, second)
		}
	})
}

func FuzzParseOwner(f *testing.F) {
	for _, seed := range []string{
		"", " ", "null", "{}", "1798131600000", `{"sid":"s","incarnation":"i"}`, `{"offer":"o"}`, `{"SID":"s"}`, `{"sid":"s","relieved":{"sid":"r","incarnation":"i"}}`, `{"relieved":{}}`, "{\"sid\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := zkrec.ParseOwner(data)
		if err != nil {
			if first != (zkrec.Owner{}) {
				t.Fatalf("%q names %+v in spite of %v", data, first, err)
			}
			return
		}
		if second, err := zkrec.ParseOwner(first.Encode()); err != nil || first != second {
			t.Fatalf("%q is read as %+v, written and read again as %+v, %v", data, first, second, err)
		}
	})
}

func FuzzParseSwitch(f *testing.F) {
	for _, seed := range []string{
		"", " ", "null", "{}", "7", `{"schema":2}`, `{"schema":1,"opened":3}`, `{"opened":-1,"extra":[1]}`,
		`{"paused":{"since":1,"for":"1m0s","by":"a","extra":{}}}`, `{"paused":{"over":true,"missed":"all"}}`, `{"paused":{"for":"x"}}`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := zkrec.ParseSwitch(data)
		if err != nil {
			if !reflect.DeepEqual(first, zkrec.Switch{}) {
				t.Fatalf("%q is %+v in spite of %v", data, first, err)
			}
			return
		}
		second, err := zkrec.ParseSwitch(first.Encode())
		first.Schema, second.Schema = 0, 0 // of the last writer
		if len(first.Encode()) <= zkrec.MaxRecordBytes && (err != nil || !reflect.DeepEqual(first, second)) {
			t.Fatalf("%q is read as %+v, written and read again as %+v, %v", data, first, second, err)
		}
	})
}

// Records that are only ever written whole are read back as they were read.
func FuzzParseWhole(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "null", `{"schema":9}`, `{"schema":1,"sid":"s","last":-1}`, `{"started_at":"0000-01-01T00:00:00Z"}`, `{"session":"1s","unread":"x"}`,
		`{"run_id":"r","text":"\ud800","at":"2026-01-01T00:00:00+01:00"}`, `{"since":1,"until":1e99}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		again(t, data, zkrec.ParseDeparted, func(d *zkrec.Departed) { d.Schema = zkrec.Schema })
		again(t, data, zkrec.ParseStack, func(s *zkrec.Stack) { s.Schema = zkrec.Schema })
	})
}

// again reads a record, writes it, and reads it again. written sets what only the writer says.
func again[R interface{ Encode() []byte }](t *testing.T, data []byte, parse func([]byte) (R, error), written func(*R)) {
	t.Helper()
	first, err := parse(data)
	if err != nil {
		return
	}
	second, err := parse(first.Encode())
	if written(&first); err != nil || !reflect.DeepEqual(first, second) {
		t.Fatalf("%q is read as\n%+v, written and read again as\n%+v, %v", data, first, second, err)
	}
}
