package commands

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// filesOf writes files into a directory, and removes others that are there.
func filesOf(t *testing.T, dir string, texts map[string]string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// yamlOf is a document for each name.
func yamlOf(schedule string, names ...string) string {
	var text strings.Builder
	for _, name := range names {
		fmt.Fprintf(&text, "---\nname: %s\nschedule: '%s'\n", name, schedule)
	}
	return text.String()
}

// Somebody's jobs in files: what apply says and does.
func TestApply(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jobs := filepath.Join(dir, "jobs")
	onGroup(t, func(t *testing.T, h *harness) {
		t.Helper()
		step := func(code cmdline.ExitCode, want string, args ...string) {
			t.Helper()
			got := h.exec(args...)
			text := strings.ReplaceAll(h.out.String()+h.errs.String(), dir+"/", "")
			if got != code || !strings.HasPrefix(text, want) {
				t.Errorf("%q: exit %d, want %d and\n%s\ngot\n%s", args, got, code, want, text)
			}
		}
		filesOf(t, jobs, map[string]string{"a.yaml": yamlOf("0 4 * * 1", "weekly", "sync"), "b.json": `[{"name":"hourly","schedule":"@hourly","retries":2}]`})
		step(cmdline.ExitNo, "create weekly  jobs/a.yaml:2:1\ncreate sync  jobs/a.yaml:5:1\ncreate hourly  jobs/b.json:1:2\n3 create\n", "diff", "-f", jobs, "--exit-code")
		step(cmdline.ExitOK, "create weekly", "apply", "-f", jobs, "--dry-run")
		step(cmdline.ExitNotFound, "", "show", "weekly")
		step(cmdline.ExitOK, "created weekly  jobs/a.yaml:2:1\ncreated sync  jobs/a.yaml:5:1\ncreated hourly  jobs/b.json:1:2\n3 created\n", "apply", "-f", jobs, "--set", "prod")
		step(cmdline.ExitOK, "3 unchanged\n", "apply", "-f", jobs, "--set", "prod", "--prune")
		step(cmdline.ExitOK, "3 unchanged\n", "apply", "-f", jobs)
		step(cmdline.ExitOK, "3 unchanged\n", "diff", "-f", jobs, "--exit-code")

		// An operator pauses one, which stays, and edits another, which is said.
		step(cmdline.ExitOK, "paused weekly", "pause", "weekly")
		step(cmdline.ExitOK, "changed hourly", "set", "hourly", "--retries", "5", "--by", "bob")
		step(cmdline.ExitOK, "replaced hourly  jobs/b.json:1:2\n  retries  5  ->  2\n  bob had changed it", "apply", "-f", jobs, "--set", "prod")
		step(cmdline.ExitOK, "3 unchanged\n", "apply", "-f", jobs, "--set", "prod")
		h.exec("show", "weekly")
		if !strings.Contains(h.out.String(), "paused") {
			t.Errorf("apply has resumed weekly: %s", h.out.String())
		}
		step(cmdline.ExitOK, "replaced weekly  stdin:1:1\n  paused  yes  ->  no\n1 replaced\n", applyStdin(h, "name: weekly\nschedule: 0 4 * * 1\npaused: false")...)
		step(cmdline.ExitOK, "replaced weekly  stdin:1:1\n  paused  no  ->  yes\n1 replaced\n", applyStdin(h, "name: weekly\nschedule: 0 4 * * 1\npaused: true")...)
		step(cmdline.ExitOK, "1 unchanged\n", applyStdin(h, "name: weekly\nschedule: 0 4 * * 1\npaused: true")...)

		// Conflicts: code, and another set. The rest is done.
		conflicts := yamlOf("0 5 * * *", "nightly", "weekly", "orphan")
		step(cmdline.ExitConflict, `conflict nightly  stdin:2:1
  schedule   0 3 * * *        ->  0 5 * * *`, append(applyStdin(h, conflicts), "--set", "other")...)
		text := h.out.String() + h.errs.String()
		for _, want := range []string{"\n  code declares it: app-2 (devel)\n", "\n  it belongs to the set prod\n", "\nreplaced orphan ", "\n1 replaced, 2 conflict\n", "2 of 3 jobs failed"} {
			if !strings.Contains(text, want) {
				t.Errorf("want %q in\n%s", want, text)
			}
		}
		step(cmdline.ExitOK, "replaced nightly", append(applyStdin(h, conflicts), "--set", "other", "--force")...)
	})
}

// The plan, and its documents.
func TestApplyGolden(t *testing.T) {
	t.Parallel()
	onGroup(t, func(t *testing.T, h *harness) {
		t.Helper()
		var texts []string
		for _, args := range [][]string{
			{"apply", "-f", "-", "--set", "prod", "--dry-run"}, {"apply", "-f", "-", "--set", "prod"}, {"apply", "-f", "-", "--set", "prod"},
			{"show", "orphan", "-o", "json"}, {"export", "orphan"}, {"export", "orphan", "weekly", "-o", "json"},
			{"diff", "-f", "-", "--set", "prod", "-o", "json"}, {"set", "orphan", "--description", "x", "--by", "bob"}, {"apply", "-f", "-", "--set", "prod"},
		} {
			h.Stdin = strings.NewReader(yamlOf("0 4 * * *", "weekly", "orphan", "nightly"))
			texts = append(texts, h.script([][]string{args}))
		}
		golden(t, "apply", strings.Join(texts, "\n"))
	})
}

func applyStdin(h *harness, text string) []string {
	h.Stdin = strings.NewReader(text)
	return []string{"apply", "-f", "-"}
}

// Jobs are pruned that the set had, and no others; many only by their number.
func TestPrune(t *testing.T) {
	t.Parallel()
	jobs := filepath.Join(t.TempDir(), "jobs")
	onCluster(t, func(t *testing.T, h *harness, cluster *swtest.Cluster) {
		t.Helper()
		step := func(code cmdline.ExitCode, want string, args ...string) {
			t.Helper()
			got := h.exec(append(args, "-f", jobs)...)
			if text := h.out.String() + h.errs.String(); got != code || !strings.Contains(text, want) {
				t.Errorf("%q: exit %d, want %d and %q\n%s", args, got, code, want, text)
			}
		}
		left := func(want string) {
			t.Helper()
			h.exec("export")
			var names []string
			for line := range strings.Lines(h.out.String()) {
				if name, ok := strings.CutPrefix(line, "name: "); ok {
					names = append(names, strings.TrimSpace(name))
				}
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("the jobs are %s, want %s", got, want)
			}
		}
		filesOf(t, jobs, map[string]string{"a.yaml": yamlOf("@daily", "other")})
		step(cmdline.ExitOK, "1 created", "apply", "--set", "theirs")
		filesOf(t, jobs, map[string]string{"a.yaml": yamlOf("@daily", "a", "b", "c", "d", "declared", "taken")})
		step(cmdline.ExitOK, "6 created", "apply", "--set", "ours")
		cluster.Submit(job.Job{Name: "submitted", Schedule: "@daily"})
		done := func(context.Context, *singleworker.Run) error { return nil }
		cluster.Start("app-1", map[string]singleworker.Handler{"declared": done}, job.Job{Name: "declared", Schedule: "@hourly"})
		if code := h.exec("submit", "taken", "@weekly", "--replace"); code != cmdline.ExitOK {
			t.Fatalf("exit %d: %s", code, h.errs.String())
		}

		filesOf(t, jobs, map[string]string{"a.yaml": yamlOf("@daily", "a", "b", "c")})
		step(cmdline.ExitUsage, "--prune needs --set", "apply", "--prune")
		step(cmdline.ExitOK, "prune d", "diff", "--set", "ours", "--prune")
		step(cmdline.ExitOK, "1 pruned, 3 unchanged", "apply", "--set", "ours", "--prune")
		left("a b c declared other submitted taken")

		filesOf(t, jobs, map[string]string{"a.yaml": yamlOf("@daily", "a")})
		step(cmdline.ExitUnconfirmed, "2 of the 4 jobs of the set ours are not in the files; nothing was changed", "apply", "--set", "ours", "--prune")
		step(cmdline.ExitUnconfirmed, "--confirm 2", "apply", "--set", "ours", "--prune", "--confirm", "3")
		left("a b c declared other submitted taken")
		step(cmdline.ExitOK, "2 pruned, 1 unchanged", "apply", "--set", "ours", "--prune", "--confirm", "2")
		left("a declared other submitted taken")

		// Nothing to read is no empty set.
		for name, texts := range map[string]map[string]string{
			"has no files that end in": {"README.md": ""}, "a.yaml: has no jobs": {"a.yaml": "# a"}, "cannot be read: no such file": nil,
		} {
			filesOf(t, jobs, texts)
			step(cmdline.ExitUsage, name, "apply", "--set", "ours", "--prune", "--confirm", "1")
		}
		left("a declared other submitted taken")
	})
}

// With --if-version a job is changed only as it was when the file was made.
func TestApplyIfVersion(t *testing.T) {
	t.Parallel()
	onGroup(t, func(t *testing.T, h *harness) {
		t.Helper()
		h.exec("list", "-o", "json")
		listed := strings.ReplaceAll(h.out.String(), "0 12 * * *", "0 13 * * *")
		apply := func(text string) cmdline.ExitCode { return h.exec(append(applyStdin(h, text), "--if-version")...) }
		if code := apply(listed); code != cmdline.ExitOK || !strings.Contains(h.out.String(), "1 replaced, 2 unchanged") {
			t.Errorf("exit %d: %s%s", code, h.out.String(), h.errs.String())
		}
		if code := apply(listed); code != cmdline.ExitConflict || !strings.Contains(h.out.String(), "it is v1, and the file was made from v0") {
			t.Errorf("again: exit %d: %s%s", code, h.out.String(), h.errs.String())
		}
		if code := apply(yamlOf("@daily", "a")); code != cmdline.ExitUsage || !strings.Contains(h.errs.String(), "stdin:2:1: the document tells no version") {
			t.Errorf("without: exit %d: %s%s", code, h.out.String(), h.errs.String())
		}
	})
}

// A plan names who edited a job since its files were applied, however they did it.
func TestApplyNamesWhoEdited(t *testing.T) {
	t.Parallel()
	jobs := filepath.Join(t.TempDir(), "jobs")
	filesOf(t, jobs, map[string]string{"a.yaml": yamlOf("@daily", "a")})
	onCluster(t, func(t *testing.T, h *harness, _ *swtest.Cluster) {
		t.Helper()
		for _, line := range []string{
			"apply --set ours -f " + jobs, "set a --retries 2 --by ann", "set a --retries 3 --by bob", "rollback a --to 2 --by carol",
		} {
			if code := h.exec(strings.Fields(line)...); code != cmdline.ExitOK {
				t.Fatalf("%s: exit %d: %s", line, code, h.errs.String())
			}
		}
		h.exec("diff", "--set", "ours", "-f", jobs)
		if text := h.out.String(); !strings.Contains(text, "carol") || strings.Contains(text, "bob") {
			t.Error(text)
		}
	})
}

// Who is killed after any of the transactions, and starts again, ends where nobody was killed.
func TestApplyIsCompletedByTheSameCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before, after := filepath.Join(dir, "before"), filepath.Join(dir, "after")
	filesOf(t, before, map[string]string{"a.yaml": yamlOf("@daily", "a", "b", "c", "gone", "d", "e")})
	filesOf(t, after, map[string]string{"a.yaml": yamlOf("@weekly", "a", "b") + yamlOf("@daily", "c", "d", "e", "new")})
	const transactions = 4
	for killed := range transactions + 1 {
		onCluster(t, func(t *testing.T, h *harness, cluster *swtest.Cluster) {
			t.Helper()
			if code := h.exec("apply", "-f", before, "--set", "s"); code != cmdline.ExitOK {
				t.Fatalf("exit %d: %s", code, h.errs.String())
			}
			ctx, kill := context.WithCancel(t.Context())
			n := 0
			stop := cluster.Server().ControlKeep(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action {
				if n++; n > killed {
					kill()
					return zkdev.CutAfter()
				}
				return zkdev.Pass()
			})
			args := []string{"apply", "-f", after, "--set", "s", "--prune"}
			h.Run(ctx, args)
			stop()
			kill()
			if code := h.exec(args...); code != cmdline.ExitOK {
				t.Errorf("killed after %d: exit %d: %s%s", killed, code, h.out.String(), h.errs.String())
			}
			h.exec("export")
			if got, want := h.out.String(), "name: a\nschedule: \"@weekly\"\n---\nname: b\nschedule: \"@weekly\"\n---\nname: c\nschedule: \"@daily\"\n---\n"+
				"name: d\nschedule: \"@daily\"\n---\nname: e\nschedule: \"@daily\"\n---\nname: new\nschedule: \"@daily\"\n"; got != want {
				t.Errorf("killed after %d: the group has\n%s", killed, got)
			}
			if code := h.exec(args...); code != cmdline.ExitOK || h.out.String() != "6 unchanged\n" {
				t.Errorf("once more: exit %d: %s%s", code, h.out.String(), h.errs.String())
			}
		})
	}
}

// With --atomic all jobs are changed, in one transaction, or none.
func TestApplyAtomic(t *testing.T) {
	t.Parallel()
	onGroup(t, func(t *testing.T, h *harness) {
		t.Helper()
		apply := func(text string) cmdline.ExitCode { return h.exec(append(applyStdin(h, text), "--atomic")...) }
		if code := apply(yamlOf("0 5 * * *", "a", "b", "orphan", "nightly")); code != cmdline.ExitConflict || !strings.Contains(h.errs.String(), "nothing was changed: stdin:11:1: nightly: code declares it") {
			t.Errorf("with a conflict: exit %d: %s%s", code, h.out.String(), h.errs.String())
		}
		if code := h.exec("show", "a"); code != cmdline.ExitNotFound {
			t.Errorf("a was created: exit %d", code)
		}
		jobs := yamlOf("0 5 * * *", "a", "b", "orphan")
		if code := apply(jobs); code != cmdline.ExitOK || !strings.HasSuffix(h.out.String(), "\n2 created, 1 replaced\n") {
			t.Errorf("exit %d: %s%s", code, h.out.String(), h.errs.String())
		}
		if code := apply(jobs); code != cmdline.ExitOK || h.out.String() != "3 unchanged\n" {
			t.Errorf("again: exit %d: %s%s", code, h.out.String(), h.errs.String())
		}
		h.exec("log", "a", "-o", "json")
		if text := h.out.String(); strings.Count(text, `"kind": "replace"`) != 1 || !strings.Contains(text, `"orphan"`) {
			t.Errorf("the log has %s", text)
		}
		var many strings.Builder
		for i := range 20 {
			fmt.Fprintf(&many, "---\nname: m%d\nschedule: '@daily'\nargs: {k: %s}\n", i, strings.Repeat("x", 50_000))
		}
		if code := apply(many.String()); code != cmdline.ExitConflict || !strings.Contains(h.errs.String(), "too much for one transaction: 20 jobs\ntry: fewer jobs at once") {
			t.Errorf("too many: exit %d: %s", code, h.errs.String())
		}
		if code := h.exec(append(applyStdin(h, jobs), "--atomic", "--prune", "--set", "s")...); code != cmdline.ExitUsage {
			t.Errorf("with --prune: exit %d: %s", code, h.errs.String())
		}
	})
}

// What export writes, apply reads: nothing changes.
func TestExport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	onGroup(t, func(t *testing.T, h *harness) {
		t.Helper()
		for _, to := range [][]string{{"--to", dir + "/all.yaml"}, {"--to", dir + "/all.json"}, {"--to", dir + "/each/"}, {"orphan", "-o", "json"}, nil} {
			if code := h.exec(append([]string{"export"}, to...)...); code != cmdline.ExitOK {
				t.Errorf("export %q: exit %d: %s", to, code, h.errs.String())
			}
			args := []string{"apply", "-f", "-"}
			if h.out.Len() == 0 {
				args[2] = to[1]
			}
			h.Stdin = strings.NewReader(h.out.String())
			if code := h.exec(args...); code != cmdline.ExitOK || !strings.HasSuffix(h.out.String(), " unchanged\n") || strings.Contains(h.out.String(), ",") {
				t.Errorf("export %q, apply: exit %d: %s%s", to, code, h.out.String(), h.errs.String())
			}
		}
		if code := h.exec("export", "--to", dir+"/all.yaml"); code != cmdline.ExitUsage || !strings.Contains(h.errs.String(), "no file is overwritten") {
			t.Errorf("again: exit %d: %s", code, h.errs.String())
		}
		if code := h.exec("export", "nobody"); code != cmdline.ExitNotFound {
			t.Errorf("nobody: exit %d: %s", code, h.errs.String())
		}
	})
}

func TestValidateGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var texts []string
	for _, args := range [][]string{
		{"validate", "--schema"}, {"validate", "-f", "-"}, {"validate", "-f", "-", "-o", "json"}, {"validate"}, {"validate", "jobs"}, {"apply", "-f", "-"},
	} {
		h.Stdin = strings.NewReader(yamlOf("@daily", "a", "b") + "retries: 200\n" + yamlOf("0 0 25 * * ?", "c"))
		texts = append(texts, h.transcript(args...))
	}
	golden(t, "validate", strings.Join(texts, "\n"))
	if len(h.fake.calls) > 0 {
		t.Errorf("the server was asked: %q", h.fake.calls)
	}
}
