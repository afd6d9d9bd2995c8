package imports

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/job"
)

var update = flag.Bool("update", false, "write the golden files")

var testNow = time.Date(2026, 11, 21, 8, 24, 5, 0, time.UTC)

// golden compares what became of a source with a file in testdata, or writes it with -update.
func golden(t *testing.T, name string, r Result) {
	t.Helper()
	var text bytes.Buffer
	for _, j := range r.Jobs {
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(j); err != nil {
			t.Fatal(err)
		}
	}
	for _, remark := range r.Remarks {
		kind := "note"
		if remark.Lost {
			kind = "lost"
		}
		fmt.Fprintf(&text, "%s | %s | %s | %s | do: %s\n", kind, remark.Job, remark.Field, remark.Text, remark.Do)
	}
	if strings.Contains(text.String(), "%!") {
		t.Errorf("a remark lacks an argument:\n%s", text.String())
	}
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test -update writes it", err)
	}
	if text.String() != string(want) {
		t.Errorf("%s differs.\n--- got\n%s--- want\n%s", path, text.String(), want)
	}
}

// testdata reads a file of it.
func testdata(tb testing.TB, name string) []byte {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// checkResult fails unless every job is valid, with its own name, and every remark says something.
func checkResult(tb testing.TB, r Result) {
	tb.Helper()
	names := map[string]bool{}
	for _, j := range r.Jobs {
		if err := j.Validate(); err != nil {
			tb.Errorf("an invalid job: %v", err)
		}
		if names[j.Name] {
			tb.Errorf("two jobs %q", j.Name)
		}
		names[j.Name] = true
	}
	for _, remark := range r.Remarks {
		if remark.Text == "" || len(remark.Text) > 1<<10 {
			tb.Errorf("remark %+v", remark)
		}
	}
}

// find returns the only job of that name.
func find(t *testing.T, r Result, name string) job.Job {
	t.Helper()
	for _, j := range r.Jobs {
		if j.Name == name {
			return j
		}
	}
	t.Fatalf("no job %q in %+v", name, r)
	return job.Job{}
}

func TestNamesAreValid(t *testing.T) {
	t.Parallel()
	m := newMaker(Options{})
	for _, text := range []string{
		"", "a", "a", "..", ".", "_x", "-_x", "a/b", "a[3]", "[3]", " a ", "\xff\xfe", "a\x00b", strings.Repeat("é", 300),
		strings.Repeat("é", 300), "-", "__", "[]", "\U0001F600", "a\u200b", "x\n",
	} {
		if name := m.unique(text); job.CheckName(name) != nil {
			t.Errorf("%q becomes %q: %v", text, name, job.CheckName(name))
		}
	}
	if len(m.names) != 21 {
		t.Errorf("%d names of 21 texts", len(m.names))
	}
}
