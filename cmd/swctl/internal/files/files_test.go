package files

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// text reads one text, as YAML unless it begins as JSON.
func text(text string) ([]Entry, []Problem) {
	found, problems := Read([]string{"-"}, strings.NewReader(text))
	return found.Jobs, problems
}

const list = `{"apiVersion":"swctl/v1","kind":"JobList","items":[{"name":"nightly","spec":{"name":"nightly","schedule":"@daily","handler":"nightly"},
 "version":3,"declared":false,"state":"owned","reason":"x","reason_code":"y","owner":null,"registered":["app-1"],"last_run":null,
 "paused":{"since":"2026-11-21T08:00:00Z","by":"ann","reason":"disk","missed":"skip"}}]}`

// Each form of a document is read as the same jobs.
func TestForms(t *testing.T) {
	t.Parallel()
	nightly := job.Job{Name: "nightly", Schedule: "@daily"}
	weekly := job.Job{
		Name: "weekly", Schedule: "0 3 * * 1", Args: map[string]string{"on": "yes", "k": "7"}, Backoff: job.NoBackoff, Timeout: 90 * time.Second,
		Payload: json.RawMessage(`{"b":[1,-2.5,true,null,"<é>"],"a":{}}`), Description: "one\ntwo\n", Shards: 2, ShardParameters: map[int]string{0: "a"},
	}
	for source, want := range map[string][]job.Job{
		`{"name":"nightly","schedule":"@daily"}`:                                                       {nightly},
		"\t[{\"name\":\"nightly\",\"schedule\":\"@daily\"}]\n":                                         {nightly},
		"{\"name\":\"nightly\",\"schedule\":\"@daily\"}\n{\"name\":\"other\",\"schedule\":\"@daily\"}": {nightly, {Name: "other", Schedule: "@daily"}},
		"name: nightly\nschedule: '@daily'":                                                            {nightly},
		"- name: nightly\n  schedule: \"@daily\"\n":                                                    {nightly},
		"# jobs\n---\nname: nightly\nschedule: '@daily' # each day\n---\n":                             {nightly},
		`apiVersion: swctl/v1
kind: JobSpecList
items:
- name: weekly
  schedule: 0 3 * * 1
  args: {"on": "yes", k: "7"}
  backoff: none
  timeout: 1m30s
  shards: 2
  shard_params: {0: a}
  description: |
    one
    two
  payload: {b: [1, -2.5, true, null, <é>], a: {}}
`: {weekly},
	} {
		entries, problems := text(source)
		var got []job.Job
		for _, e := range entries {
			got = append(got, e.Job)
		}
		if len(problems) > 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nis read as %+v\nwant       %+v\nproblems %v", source, got, want, problems)
		}
	}
}

// A job's status, as swctl list prints it, also tells its version and its pause.
func TestStatusIsRead(t *testing.T) {
	t.Parallel()
	entries, problems := text(list)
	if len(problems) > 0 || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, problems)
	}
	e := entries[0]
	if e.Job.Handler != "nightly" || *e.Version != 3 || e.Pause.By != "ann" || e.Place != (Place{"stdin", 1, 52}) {
		t.Errorf("%+v at %s, v%d, %+v", e.Job, e.Place, *e.Version, e.Pause)
	}
	over := admin.Pause{Until: time.Unix(100, 0)}
	if (Entry{Pause: &over}).PauseOptions(time.Unix(100, 0)) != nil || (Entry{Pause: &over}).PauseOptions(time.Unix(99, 0)) == nil {
		t.Error("a pause that is over counts, or one that is not does not")
	}
	for source, want := range map[string]string{"paused: true": "&{} false", "paused: false": "<nil> true", "paused: ~": "<nil> false", "handler: h": "<nil> false"} {
		entries, problems := text("name: a\nschedule: 0 3 * * *\n" + source)
		if len(problems) > 0 || strings.HasPrefix(want, "&") != (entries[0].Pause != nil) || strings.HasSuffix(want, "true") != entries[0].Resume {
			t.Errorf("%s: %+v, %v, want %s", source, entries, problems, want)
		}
	}
}

// Each fault is told with its place.
func TestProblems(t *testing.T) {
	t.Parallel()
	const valid = "name: a\nschedule: 0 3 * * *\n"
	for source, want := range map[string]string{
		"":                                                     `stdin: has no jobs`,
		"# nothing\n":                                          `stdin: has no jobs`,
		"text":                                                 `stdin:1:1: want a job`,
		"name: a\nschedule: 0 0 25 * * ?":                      `stdin:2:15: schedule "0 0 25 * * ?": hour at column 5`,
		"name: a\nschedule: '0 0 25 * * ?'":                    `stdin:2:16: schedule "0 0 25 * * ?": hour at column 5`,
		"name: a\nschedule: */5 * * * *":                       `stdin:2:11: is not YAML: put a value that begins with * in quotes`,
		"name: a\nschedule: @daily":                            `stdin:2:11: is not YAML: put a value that begins with @ in quotes`,
		"name: a\nschedule: *a":                                `stdin:2:11: is not YAML: put a value that begins with * in quotes`,
		"name: [a\n":                                           `stdin:1:1: is not YAML: did not find`,
		"name: &x a\nschedule: *x":                             `stdin:1:7: anchors (&) and aliases (*) are not read`,
		valid + "args: !!map {}":                               `stdin:3:7: tags such as !!map are not read`,
		valid + "handler: !x h":                                `stdin:3:10: tags such as !x are not read`,
		valid + "retries: 1\nretries: 2":                       `stdin:4:1: the key retries is there twice`,
		valid + "retrys: 1":                                    `stdin:3:1: retrys is not a field of a job`,
		valid + "retries: many":                                `stdin:3:10: retries "\"many\"": json: cannot unmarshal string`,
		valid + "retries: 012":                                 `stdin:3:10: 012 means different things`,
		valid + "retries: 0o7":                                 `stdin:3:10: 0o7 means different things`,
		valid + "retries: 1_0":                                 `stdin:3:10: 1_0 means different things`,
		valid + "retries: 1e1":                                 `stdin:3:10: 1e1 means different things`,
		valid + "retries: 101":                                 `stdin:3:10: retries "101": is out of range`,
		valid + "everywhere: yes":                              `stdin:3:13: yes means different things`,
		valid + "args:\n  a: b\n  c: off":                      `stdin:5:6: off means different things`,
		valid + "args:\n  a: b\n  n: x":                        `stdin:5:3: n means different things`,
		valid + "args:\n  a: b\n  c: 1:30":                     `stdin:5:6: 1:30 means different things`,
		valid + "args: {c: 2026-11-21}":                        `stdin:3:11: 2026-11-21 means different things`,
		valid + "args:\n  <<: {a: b}":                          `stdin:4:3: << means different things`,
		valid + "args:\n  a: b\n  c: 30":                       `stdin:5:6: args "{\"a\":\"b\",\"c\":30}": is a number, want text: put it in quotes`,
		valid + "labels:\n  a: b\n  c!: d":                     `stdin:5:7: labels`,
		valid + "args:\n  ? [a]\n  : b":                        `stdin:4:5: a key must be text`,
		valid + "timeout: 60":                                  `stdin:3:10: timeout "60": want a duration`,
		valid + "paused: 3":                                    `stdin:3:9: paused: want true, false`,
		"schedule: 0 3 * * *":                                  `stdin:1:1: name: is empty`,
		"name: a\nschedule: 0 3 * * *\nversion: 3":             `stdin:3:1: version is not a field of a job`,
		"spec: {name: a, schedule: 0 3 * * *}\nshoe: 1":        `stdin:2:1: shoe is not a key beside spec`,
		"spec: {name: a, schedule: 0 3 * * *}\nversion: x":     `stdin:2:10: version: want a number`,
		"kind: InstanceList\nitems: []":                        `stdin:1:7: kind is "InstanceList": want JobList`,
		"apiVersion: v2\nitems: []":                            `stdin:1:13: apiVersion is "v2": want swctl/v1`,
		valid + "---\n" + valid:                                `stdin:4:1: the job a is there twice: it is at stdin:1:1, too`,
		`{"name":"a",` + "\n" + `  "schedule":"0 0 25 * * ?"}`: `stdin:2:19: schedule "0 0 25 * * ?": hour at column 5`,
		`{"name":"a","name":"b","schedule":"@daily"}`:          `stdin:1:13: the key name is there twice`,
		`{"name":"a",`:                                         `stdin:1:13: is not JSON: it ends too early`,
		`{"name" "a"}`:                                         `stdin:1:9: is not JSON: invalid character`,
		strings.Repeat("[", 1<<20):                             `stdin:1:103: is not JSON: it is nested more than 100 deep`,
		"name: " + strings.Repeat("[", 200) + strings.Repeat("]", 200): `stdin:1:107: is nested more than 100 deep`,
		strings.Repeat(" ", MaxFile+1):                                 `stdin: cannot be read: has more than 16 MiB`,
	} {
		entries, problems := text(source)
		if len(problems) == 0 || !strings.HasPrefix(problems[0].String(), want) || want[5] == ':' && len(entries) > 1 {
			t.Errorf("%.80s\nproblems %v\nwant     %s", source, problems, want)
		}
	}
}

// A directory stands for its files and all below it. A file that cannot be read is a problem.
func TestDirectories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": "name: a\nschedule: 0 3 * * *", "sub/b.yml": "name: b\nschedule: 0 3 * * *", "c.json": `{"name":"c","schedule":"@daily"}`,
		".git/d.yaml": "?", ".e.yaml": "?", "README.md": "?",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, dir + "/", link} {
		found, problems := Read([]string{path}, nil)
		var names []string
		for _, e := range found.Jobs {
			names = append(names, e.Job.Name)
		}
		if got := fmt.Sprint(names); len(problems) > 0 || got != "[a c b]" {
			t.Errorf("%s: %s, %v", path, got, problems)
		}
	}
	empty := t.TempDir()
	for path, want := range map[string]string{
		empty: empty + ": has no files that end in .yaml, .yml, .json", dir + "/none.yaml": dir + "/none.yaml: cannot be read: no such file or directory",
	} {
		if _, problems := Read([]string{path}, nil); len(problems) != 1 || problems[0].String() != want {
			t.Errorf("%s: %v, want %s", path, problems, want)
		}
	}
}

// YAML that was written is read as the same job.
func FuzzYAML(f *testing.F) {
	for _, text := range []string{"plain", "yes", "1:30", "012", "2026-11-21", "<<", "null", "", " a ", "a: b", "# a", "- a", "a\nb", "\n a\n", "a\n\n", "é\u2028\x00\t", "*/5", "1e3", "-", "? a", "a #b", "\"'", "a\r\nb"} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		if key == "" {
			key = "k"
		}
		key, value = strings.ToValidUTF8(key, "?"), strings.ToValidUTF8(value, "?")
		payload, err := json.Marshal(map[string]any{key: []any{value, 1.5e30, 3}})
		if err != nil {
			t.Fatal(err)
		}
		want := job.Job{Name: "a", Schedule: "@daily", Args: map[string]string{key: value}, Payload: payload}
		if want.Validate() != nil {
			return
		}
		written, err := YAML(want, job.Job{Name: "b", Schedule: "@daily"})
		if err != nil {
			t.Fatal(err)
		}
		entries, problems := text("# yaml\n" + string(written))
		if len(problems) > 0 || len(entries) != 2 {
			t.Fatalf("%q: %v, %v", written, entries, problems)
		}
		got := entries[0].Job
		var was, is any
		if json.Unmarshal(want.Payload, &was) != nil || json.Unmarshal(got.Payload, &is) != nil || !reflect.DeepEqual(was, is) || !reflect.DeepEqual(got.Args, want.Args) {
			t.Errorf("%q\nis read as %+v, %s\nwant       %+v, %s", written, got, got.Payload, want, want.Payload)
		}
	})
}

// Calendars stand beside jobs, and each fault has its place.
func TestCalendars(t *testing.T) {
	t.Parallel()
	found, problems := Read([]string{"-"}, strings.NewReader(`[{"kind":"Calendar","name":"a","calendar":{"weekdays":["sun"]},"jobs":["j"]},{"name":"j","schedule":"@daily","calendars":["-a"]}]`))
	if len(problems) > 0 || len(found.Jobs) != 1 || len(found.Calendars) != 1 || found.Calendars[0].Name != "a" || !found.Calendars[0].Is.Equal(job.Calendar{Weekdays: []string{"sun"}}) {
		t.Errorf("%+v, %v", found, problems)
	}
	for input, want := range map[string]string{
		"kind: Calendar\nname: a\ncalendar: {weekday: [sun]}":                                                                `stdin:3:11: json: unknown field "weekday"`,
		"kind: Calendar\nname: a\ncalendar:\n  weekdays: [someday]":                                                          "stdin:4:13: ",
		"kind: Calendar\nname: a\ncalendar: {dates: [2026-12-24]}":                                                           "stdin:3:20: 2026-12-24 means different things to readers of YAML",
		"kind: Calendar\nname: a":                                                                                            "stdin:1:1: ",
		"kind: Calendar\nname: -a\ncalendar: {weekdays: [sun]}":                                                              `stdin:1:1: name "-a": begins with "-"`,
		"kind: Calendar\nname: a\nschedule: x\ncalendar: {weekdays: [sun]}":                                                  "stdin:3:1: schedule is not a key of a Calendar",
		"kind: Calendar\nname: a\ncalendar: &c {weekdays: [sun]}":                                                            "stdin:3:11: anchors",
		"- {kind: Calendar, name: a, calendar: {weekdays: [sun]}}\n- {kind: Calendar, name: a, calendar: {weekdays: [sun]}}": "stdin:2:3: the calendar a is there twice",
	} {
		if _, problems := Read([]string{"-"}, strings.NewReader(input)); len(problems) == 0 || !strings.HasPrefix(problems[0].String(), want) {
			t.Errorf("%q: %v, want %s", input, problems, want)
		}
	}
}

// Jobs that run after others are submitted after these, wherever the files have them.
func TestGenerations(t *testing.T) {
	t.Parallel()
	jobs := []job.Job{
		{Name: "end", After: []string{"left", "right"}}, {Name: "left", After: []string{"top", "elsewhere"}}, {Name: "right", After: []string{"left"}},
		{Name: "top"}, {Name: "a", After: []string{"b"}}, {Name: "b", After: []string{"a"}},
	}
	if got := Generations(jobs); !slices.Equal(got[:4], []int{3, 1, 2, 0}) {
		t.Errorf("generations %v", got)
	}
}
