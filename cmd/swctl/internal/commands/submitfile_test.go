package commands

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
)

// file writes a file for a test and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSubmitFile(t *testing.T) {
	t.Parallel()
	list := file(t, "jobs.json", `[{"name":"weekly","schedule":"@weekly","retries":3},{"name":"hourly","schedule":"@hourly","backoff":"1m0s"}]`)
	one := file(t, "one.json", ` {"name":"sync","schedule":"0 0 3 * * ?","shards":2,"shard_params":{"0":"a"}}`)
	onGroup(t, func(t *testing.T, h *harness) {
		t.Helper()
		for _, step := range []struct {
			args []string
			code cmdline.ExitCode
			want []string
		}{
			{[]string{"--file", list, "--dry-run"}, cmdline.ExitOK, []string{"would create weekly", "would create hourly"}},
			{[]string{"--file", list}, cmdline.ExitOK, []string{"created weekly v1", "created hourly v1"}},
			{[]string{"--file", list}, cmdline.ExitOK, []string{"unchanged weekly v1", "unchanged hourly v1"}},
			{[]string{"--file", one, "-o", "json"}, cmdline.ExitOK, []string{`"kind": "SubmitResultList"`, `"shards": 2`}},
			{
				[]string{"--file", file(t, "a.json", `[{"name":"weekly","schedule":"@daily"},{"name":"later","schedule":"@daily"}]`)},
				cmdline.ExitConflict, []string{"swctl show weekly", "it and 1 job after it were not submitted"},
			},
			{
				[]string{"--file", file(t, "over.json", `[{"name":"first","schedule":"@daily"},{"name":"over","schedule":"@at 2020-01-01T00:00:00Z"}]`)},
				cmdline.ExitUsage, []string{"never fires again", "nothing was submitted"},
			},
		} {
			code := h.exec(append([]string{"submit"}, step.args...)...)
			text := h.out.String() + h.errs.String()
			if code != step.code || slices.ContainsFunc(step.want, func(want string) bool { return !strings.Contains(text, want) }) {
				t.Errorf("submit %q: exit %d, want %d and %q:\n%s", step.args, code, step.code, step.want, text)
			}
		}
		if code := h.exec("show", "first"); code != cmdline.ExitNotFound {
			t.Errorf("the first of a file with a job that is over was submitted: %s", h.out.String())
		}
		h.exec("show", "sync", "-o", "json")
		if !strings.Contains(h.out.String(), `"0": "a"`) {
			t.Errorf("sync is shown as %s", h.out.String())
		}
	})
}

// Nothing of a file is submitted if any of its jobs is wrong.
func TestSubmitFileIsCheckedFirst(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                               "has no jobs",
		`[{"name":"a","schedule":`:       "JSON",
		`{"name":"a","cron":"@daily"}`:   "is not a field of a job",
		`{"name":"a","schedule":"@odd"}`: "@odd",
		`[{"name":"a","schedule":"@daily"},{"name":"b/c","schedule":"@daily"}]`: "nothing was changed",
		`[{"name":"a","schedule":"@daily"},{"name":"a","schedule":"@weekly"}]`:  "is there twice",
		strings.Repeat("[", 1<<20):  "nested more than",
		strings.Repeat(" ", 17<<20): "has more than 16 MiB",
	} {
		h := newHarness(t)
		code := h.exec("submit", "--file", file(t, "jobs.json", text))
		if code != cmdline.ExitUsage || !strings.Contains(h.errs.String(), want) || len(h.fake.calls) > 0 {
			t.Errorf("%.60s: exit %d, calls %q, want %q in %s", text, code, h.fake.calls, want, h.errs.String())
		}
	}
	h := newHarness(t)
	for _, args := range [][]string{{"weekly", "--file", "-"}, {"--file", "-", "--retries", "3"}, {"--file", "absent.json"}} {
		if code := h.exec(append([]string{"submit"}, args...)...); code != cmdline.ExitUsage || len(h.fake.calls) > 0 {
			t.Errorf("submit %q: exit %d, calls %q", args, code, h.fake.calls)
		}
	}
}
