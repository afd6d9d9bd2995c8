package output

import (
	"bytes"
	"testing"
)

func TestYAML(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"a"`: "a\n", `{}`: "{}\n", `[]`: "[]\n", `null`: "null\n", `-1.5e3`: "-1500\n",
		`{"name":"nightly","spec":{"schedule":"0 3 * * *","args":{},"on":true,"time_zone":"Europe/Berlin"},"n":12}`: "name: nightly\nspec:\n  schedule: \"0 3 * * *\"\n  args: {}\n  \"on\": true\n  time_zone: Europe/Berlin\n\"n\": 12\n",
		`{"d":"two\nlines","e":["# one\n- more\n"],"f":"a\n b","g":"a\n\nb"}`:                                       "d: |-\n  two\n  lines\ne:\n  - |\n    # one\n    - more\nf: \"a\\n b\"\ng: \"a\\n\\nb\"\n",
		`{"items":[{"name":"a","shards":[1,[2,3],[]]},{},null]}`:                                                    "items:\n  - name: a\n    shards:\n      - 1\n      - - 2\n        - 3\n      - []\n  - {}\n  - null\n",
		`["no","~","1","2026-01-01T00:00:00Z","a: b","a #b","-a"," a","a ","","<<","two words"]`:                    "- \"no\"\n- \"~\"\n- \"1\"\n- \"2026-01-01T00:00:00Z\"\n- \"a: b\"\n- \"a #b\"\n- \"-a\"\n- \" a\"\n- \"a \"\n- \"\"\n- \"<<\"\n- two words\n",
		"[\"two\\nlines\\u001b[31m\\u202e\",\"レポート😀\",\"\\udb40\\udc41\"]":                                          "- \"two\\nlines\\x1b[31m\\u202e\"\n- \"レポート😀\"\n- \"\\U000e0041\"\n",
	} {
		var out bytes.Buffer
		if err := YAML(&out, []byte(text)); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s--- want\n%s", text, err, out.String(), want)
		}
	}
	for _, text := range []string{"", "{", `{"a":`, "[1"} {
		if err := YAML(&bytes.Buffer{}, []byte(text)); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"items":[{"name":"a","run_id":"r"},{"name":"b\u001b"}]}`:                         "a\nb\ufffd\n",
		`{"items":[{"outcome":"paused","job":{"name":"a"}}]}`:                              "a\n",
		`{"items":[{"tick":"x","run_id":"r"},{"tick":"x","run_id":"","instance_id":"i"}]}`: "r\n",
		`{"items":[{"instance_id":"app-1","state":"active"}]}`:                             "app-1\n",
		`{"items":[{"id":"q","run_id":"r"}]}`:                                              "q\n",
		`{"event":"run_begun","job":"a"}`:                                                  "a\n",
		`{"items":[]}`:                                                                     "",
	} {
		var out bytes.Buffer
		if named, err := Names(&out, []byte(text)); err != nil || !named || out.String() != want {
			t.Errorf("%s: %v, %v\n%s", text, named, err, out.String())
		}
	}
	var out bytes.Buffer
	if named, err := Names(&out, []byte(`{"items":[{"tick":"x"}]}`)); err != nil || named || out.Len() > 0 {
		t.Errorf("%v, %v", named, err)
	}
	if _, err := Names(&out, []byte(`{`)); err == nil {
		t.Error("no error")
	}
}
