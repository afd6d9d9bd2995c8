package house

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// An arrow is a forbidden import. Packages are written from the module's
// root ("singleworker/admin"), others as they are imported; "a/..." stands for a and
// all below it, "..." for the whole module.
type arrow struct {
	from   string   // the packages that must not import
	except []string // those of them that may
	to     []string // what they must not import
	but    []string // of that, what they may
	tests  bool     // whether that holds for their tests, too
	reason string
}

// outside, as a forbidden import, is every package that is not in the standard library.
const outside = "outside the standard library"

// The dependencies, as arrows name them.
const (
	zkClient = "github.com/go-zookeeper/zk/..."
	gocron   = "github.com/go-co-op/gocron/v2/..."
	cliFlags = "github.com/urfave/cli/v2/..."
	yaml     = "go.yaml.in/yaml/v3"
)

// observers look at a group from outside.
var observers = []string{"singleworker/admin/...", "singleworker/notify", "singleworker/runlog/...", "singleworker/web"}

var forbidden = []arrow{
	{
		from: "...", except: []string{"singleworker/internal/zkconn"}, to: []string{zkClient},
		reason: "the client's traps (dropped events, calls without a context, a private timeout) are handled in one place",
	},
	{
		from: "...", except: []string{"singleworker/internal/runner", "sample/elector", "integration/compare/worker"}, to: []string{gocron},
		reason: "gocron is only an alarm clock; any other user would come to rely on its jobs, waits " +
			"and panics. The sample is an application that has it already, and takes the latch as its Elector; the " +
			"comparison is with it",
	},
	{
		from: "...", except: []string{"cmd/swctl/internal/cmdline"}, to: []string{cliFlags}, tests: true,
		reason: "an application that links the library must not link a flag parser",
	},
	{
		from: "...", except: []string{"cmd/swctl/internal/files", "cmd/swctl/internal/imports"}, to: []string{yaml}, tests: true,
		reason: "an application that links the library must not link a reader of YAML, and swctl has one way to read it",
	},
	{
		from: "singleworker", to: []string{"net/http/..."},
		reason: "an application that serves no HTTP must not link a server; package health answers probes",
	},
	{
		from: "singleworker", to: observers,
		reason: "an application links observers of the group only if it asks for them, as with admin.On",
	},
	{
		from: "singleworker/internal/...", except: []string{"singleworker/internal/swtest"}, to: observers,
		reason: "the engine runs jobs and does not depend on its observers",
	},
	{
		from: "singleworker/cronexpr", to: []string{outside},
		reason: "cron text to schedule is a grammar, of use to others as it is",
	},
	{
		from: "singleworker/invalid", to: []string{outside},
		reason: "an error that all packages return can depend on none",
	},
	{
		from: "singleworker/job", to: []string{outside}, but: []string{"singleworker/cronexpr", "singleworker/invalid"},
		reason: "applications, operators and files describe a job alike; what they share pulls nothing in",
	},
	{
		from: "singleworker/internal/lease", to: []string{outside}, but: []string{"singleworker/internal/preference"},
		reason: "the ownership protocol is arithmetic, checked without anything around it",
	},
	{
		from: "singleworker/internal/lease", to: []string{"net/...", "os/...", "context", "sync/...", "log/..."},
		reason: "the ownership protocol is a state machine: events and the time come in, actions go out",
	},
	{
		from: "singleworker/history", to: []string{"...", outside},
		reason: "the words for what became of a tick: whoever looks at a group has them",
	},
	{
		from: "singleworker/internal/preference", to: []string{outside},
		reason: "who comes first is arithmetic, of the protocol and of those who ask it for something",
	},
	{
		from: "singleworker/internal/ticks", to: []string{outside},
		but:    []string{"singleworker/internal/zkrec", "singleworker/history", "singleworker/cronexpr", "singleworker/job"},
		reason: "what becomes of a tick follows from its records and the time",
	},
	{
		from: "singleworker/internal/ticks", to: []string{"net/...", "os/...", "context", "sync/...", "log/..."},
		reason: "what becomes of a tick is a function: records and the time come in, a change goes out",
	},
	{
		from: "singleworker/internal/zkrec", to: []string{"net/...", zkClient, "singleworker/internal/zkconn"},
		reason: "records are bytes and paths, independent of the transport",
	},
	{
		from: "singleworker/internal/runner",
		to: []string{
			"singleworker/internal/zkconn", "singleworker/internal/coord", "singleworker/internal/journal",
			"singleworker/internal/lease", "singleworker/internal/zkrec",
		},
		reason: "the runner knows neither ZooKeeper nor other instances: it is told what to run and when to stop",
	},
	{
		from: "singleworker/internal/coord", to: []string{"singleworker/internal/runner", "singleworker/cronexpr"},
		reason: "package ticks parses schedules, once per version of a spec; package runner runs handlers",
	},
	{
		from: "singleworker/internal/election",
		to: []string{
			"singleworker", "singleworker/internal/coord", "singleworker/internal/runner", "singleworker/internal/zkrec",
		},
		reason: "an election knows one path and nothing of jobs: the latch and the Manager contend by it alike",
	},
	{
		from: "singleworker/latch",
		to: []string{
			"singleworker", "singleworker/admin", "singleworker/cronexpr", "singleworker/internal/coord",
			"singleworker/internal/runner", "singleworker/internal/ticks", "singleworker/internal/zkrec",
		},
		reason: "a program that only wants a leader links no scheduler",
	},
	{
		from: "singleworker/internal/task", to: []string{outside},
		reason: "everything starts its goroutines with it, so it depends on nothing",
	},
	{
		from: "...", except: []string{"singleworker/swtest", "singleworker/internal/swtest"},
		to:     []string{"singleworker/swtest", "singleworker/internal/swtest", "singleworker/internal/roomtest"},
		reason: "what helps tests must not end up in a production binary",
	},
	{
		from: "...", except: []string{"cmd/swctl/internal/commands", "cmd/swctl/internal/render"}, to: []string{"singleworker/txnaudit"},
		reason: "operators audit; an application links no reader of ZooKeeper's files",
	},
	{
		from: "...", except: []string{"singleworker/txnaudit", "singleworker/internal/swtest", "singleworker/swtest/txns"},
		to:     []string{"singleworker/internal/ledger"},
		reason: "operators audit; an application links no judge of what it does",
	},
	{
		from: "...", except: []string{
			"singleworker/txnaudit", "singleworker/internal/ledger", "singleworker/internal/swtest", "singleworker/swtest/txns",
			"singleworker/zkdev/...",
		},
		to:     []string{"singleworker/internal/txnlog"},
		reason: "operators audit, and a server has files; an application links no reader of ZooKeeper's files",
	},
	{
		from: "singleworker/internal/ledger", to: []string{outside},
		but:    []string{"singleworker/internal/zkrec", "singleworker/internal/zxids", "singleworker/internal/txnlog", "singleworker/history", "singleworker/cronexpr", "singleworker/job"},
		reason: "the rules must not learn from the code that they judge what it may do",
	},
	{
		from: "singleworker/internal/txnlog", to: []string{outside}, but: []string{"singleworker/internal/zxids"},
		reason: "a file format, read without anything around it",
	},
	{
		from: "singleworker/swtest/audit", to: []string{outside},
		reason: "the auditor of runs must not learn from the library which ticks were due",
	},
	{
		from: "...",
		except: []string{
			"cmd/swctl/internal/commands", "sample/demo", "sample/elector", "sample/embedded", "sample/sql/fencing", "sample/sql/shards", "singleworker/zkdev/...", "singleworker/swtest", "singleworker/internal/swtest",
			"singleworker/internal/roomtest",
		},
		to:     []string{"singleworker/zkdev/..."},
		reason: "a server for development must not end up in a production binary; swctl dev and the examples that start processes are marked as such",
	},
	{
		from: "singleworker/zkdev/...",
		to: []string{
			zkClient, gocron, cliFlags, "github.com/google/uuid", "singleworker", "singleworker/internal/...",
		},
		but:    []string{"singleworker/internal/txnlog", "singleworker/internal/zxids"},
		reason: "a server for development is of use to programs that know nothing of jobs, and must not pull anything in",
	},
	{
		from: "singleworker/admin", to: []string{
			"singleworker", "singleworker/internal/lease", "singleworker/internal/coord", "singleworker/internal/runner", "singleworker/guard",
		},
		reason: "an operator reads and changes records; owning and running are up to instances",
	},
	{
		from: "singleworker/admin/reason", to: []string{outside}, but: []string{"singleworker/job"},
		reason: "what is wrong with a job is a value with a sentence; who finds out is package admin",
	},
	{
		from: "singleworker/admin/api", to: []string{"singleworker/internal/...", "cmd/..."}, tests: true,
		reason: "what swctl prints as JSON, an HTTP API can answer with",
	},
	{
		from: "singleworker/notify", to: []string{
			"singleworker", "cmd/...", "singleworker/internal/lease", "singleworker/internal/coord", "singleworker/internal/runner",
		},
		reason: "who tells people reads what is on record, in or beside any program",
	},
	{
		from: "singleworker/web", to: []string{"singleworker/internal/...", "cmd/...", outside},
		but:    []string{"singleworker/admin/...", "singleworker/history", "singleworker/invalid", "singleworker/job", "singleworker/cronexpr", "singleworker/runlog"},
		reason: "the pages show what package admin tells, as any application's own page could",
	},
	{
		from: "singleworker/guard", to: []string{"singleworker", "singleworker/internal/lease", "singleworker/internal/coord", "singleworker/internal/runner"},
		reason: "a guard knows one process and its registration, nothing of jobs",
	},
	{
		from: "cmd/...", to: []string{"singleworker/internal/..."}, tests: true,
		reason: "swctl is the first user of the public packages: what it lacks, others lack",
	},
	{
		from: "cmd/swctl/internal/output", to: []string{outside}, but: []string{"singleworker/admin/plain"}, tests: true,
		reason: "tables know nothing of jobs",
	},
	{
		from: "singleworker/admin/plain", to: []string{outside}, tests: true,
		reason: "times and escaping know nothing of jobs",
	},
	{
		from: "singleworker/admin/words", to: []string{"singleworker/internal/...", "cmd/...", "net/..."}, tests: true,
		reason: "a status becomes sentences, whatever prints them",
	},
	{
		from: "cmd/swctl/internal/supervise", to: []string{outside}, tests: true,
		reason: "the parent of a process knows nothing of the registration that it guards",
	},
	{
		from: "cmd/swctl/internal/cmdline", to: []string{"cmd/..."}, but: []string{"cmd/swctl/internal/output"}, tests: true,
		reason: "a line is read before anything is asked or printed",
	},
	{
		from: "cmd/swctl/internal/fields", to: []string{"cmd/...", "singleworker/admin/..."}, tests: true,
		but:    []string{"singleworker/admin/plain", "cmd/swctl/internal/cmdline"},
		reason: "a field of a job is a flag, a line and an error, for all commands alike",
	},
	{
		from: "cmd/swctl/internal/files", to: []string{"cmd/...", "net/...", "context"}, but: []string{"cmd/swctl/internal/fields", "cmd/swctl/internal/output"}, tests: true,
		reason: "files and a reading of the group become a plan: nobody is asked",
	},
	{
		from: "cmd/swctl/internal/imports", to: []string{outside, "net/...", "os/..."}, but: []string{"singleworker/invalid", "singleworker/job", yaml},
		reason: "what other schedulers keep becomes jobs and remarks: bytes come in, nothing is asked",
	},
	{
		from: "cmd/swctl/internal/effects", to: []string{outside, "database/..."}, but: []string{"singleworker/history", "singleworker/runlog"}, tests: true,
		reason: "markers and a log come in, differences go out; swctl links no database",
	},
	{
		from: "cmd/swctl/internal/group", to: []string{"cmd/..."}, tests: true,
		but:    []string{"cmd/swctl/internal/cmdline", "cmd/swctl/internal/fields"},
		reason: "what talks to the group prints nothing",
	},
	{
		from: "cmd/swctl/internal/render", to: []string{"cmd/..."}, tests: true,
		but:    []string{"cmd/swctl/internal/output", "cmd/swctl/internal/effects", "cmd/swctl/internal/fields", "cmd/swctl/internal/files"},
		reason: "what prints for people asks nobody: the commands put the rooms together",
	},
	{
		from: "singleworker/prom/...", to: []string{"singleworker/internal/..."}, tests: true,
		reason: "a module beside the library knows what users know, and can be written by them for another system",
	},
	{
		from: "singleworker/otel/...", to: []string{"singleworker/internal/..."}, tests: true,
		reason: "as of singleworker/prom",
	},
	{
		from: "singleworker/once", to: []string{outside}, but: []string{"singleworker", "singleworker/internal/sqltext"},
		reason: "a run and a transaction are all that exactly once is about, and the drivers are the application's",
	},
	{
		from: "singleworker/internal/sqltext", to: []string{outside},
		reason: "how statements are written is text",
	},
	{
		from: "singleworker/runlog", to: []string{"database/sql/...", "net/...", "os/...", "singleworker"},
		reason: "what is new in a history follows from it and from the position of the log; where that is kept is the stores' business",
	},
	{
		from: "...", to: []string{"singleworker/runlog/storetest"},
		reason: "what helps tests must not end up in a production binary",
	},
	{
		from: "jobs/...", to: []string{"singleworker/internal/..."}, tests: true,
		reason: "the ready-made handlers show how to write one",
	},
	{
		from: "sample/...", to: []string{"singleworker/internal/..."}, tests: true,
		reason: "the sample is an application as a new user would write it",
	},
	{
		from: "...", except: []string{"sample/..."}, to: []string{"sample/..."}, tests: true,
		reason: "the sample is there to be read; the operator's binary does not carry it",
	},
	{
		from: "sample/record", to: []string{outside}, but: []string{"singleworker/swtest/audit"}, tests: true,
		reason: "the auditor of runs must not learn from the library which ticks were due",
	},
	{
		from: "sample/demo", to: []string{"singleworker/..."}, but: []string{"singleworker/admin", "singleworker/history", "singleworker/job", "singleworker/zkdev"}, tests: true,
		reason: "the demo does what an operator can: it starts processes, sends signals and calls admin",
	},
	{
		from: "integration/...", to: []string{"singleworker/internal/..."}, tests: true,
		reason: "integration tests see what users and operators see",
	},
}

// dependencies are the allowed direct dependencies. Another one needs a written reason
// and must not be used by the library's packages.
var dependencies = []string{
	"github.com/go-co-op/gocron/v2",
	"github.com/go-zookeeper/zk",
	"github.com/google/uuid",
	"github.com/urfave/cli/v2",
	"go.yaml.in/yaml/v3",
}

func TestForbiddenArrows(t *testing.T) {
	t.Parallel()
	for _, found := range brokenArrows(moduleFiles(t), forbidden) {
		t.Error(found)
	}
}

// TestArrowsAreNotStale fails if a rule names something that no longer exists: it would
// hold in any case.
func TestArrowsAreNotStale(t *testing.T) {
	t.Parallel()
	for _, found := range staleArrows(moduleFiles(t), forbidden) {
		t.Error(found)
	}
}

func TestDirectDependencies(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(moduleRoot, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	wantFindings(t, directDependencies(string(text)), dependencies)
}

// brokenArrows describes the imports in files that rules forbid.
func brokenArrows(files []sourceFile, rules []arrow) []string {
	var found []string
	for _, rule := range rules {
		for _, file := range files {
			if file.test && !rule.tests || !rule.holdsFor(file.pkg) {
				continue
			}
			for _, imported := range file.imports {
				if rule.forbids(imported) {
					found = append(found, fmt.Sprintf("%s imports %s: %s", file.name, imported, rule.reason))
				}
			}
		}
	}
	return found
}

// staleArrows describes the parts of rules that match nothing, and exceptions that are
// not needed.
func staleArrows(files []sourceFile, rules []arrow) []string {
	var found []string
	for _, rule := range rules {
		if !slices.ContainsFunc(files, func(f sourceFile) bool { return matches(rule.from, f.pkg) }) {
			found = append(found, fmt.Sprintf("rule for %s: no such package", rule.from))
		}
		for _, to := range rule.to {
			if !exists(files, to) {
				found = append(found, fmt.Sprintf("rule for %s: forbids %s, which does not exist", rule.from, to))
			}
		}
		for _, but := range rule.but {
			alone := arrow{from: rule.from, except: rule.except, to: []string{but}, tests: rule.tests}
			if len(brokenArrows(files, []arrow{alone})) == 0 {
				found = append(found, fmt.Sprintf("rule for %s: allows %s, which is not imported", rule.from, but))
			}
		}
		for _, except := range rule.except {
			alone := arrow{from: except, to: rule.to, tests: rule.tests}
			if len(brokenArrows(files, []arrow{alone})) == 0 {
				found = append(found, fmt.Sprintf("rule for %s: %s does not need its exception", rule.from, except))
			}
		}
	}
	return found
}

func (a arrow) forbids(imported string) bool {
	isImported := func(pattern string) bool { return matches(pattern, imported) }
	return slices.ContainsFunc(a.to, isImported) && !slices.ContainsFunc(a.but, isImported)
}

func (a arrow) holdsFor(pkg string) bool {
	return matches(a.from, pkg) &&
		!slices.ContainsFunc(a.except, func(except string) bool { return matches(except, pkg) })
}

// matches reports whether a package, given by its import path, matches a pattern
// of an arrow speaks of.
func matches(pattern, pkg string) bool {
	if pattern == outside {
		return !inStandardLibrary(pkg)
	}
	base, below := strings.CutSuffix(absolute(pattern), "/...")
	return pkg == base || below && strings.HasPrefix(pkg, base+"/")
}

// absolute makes a full import path of a pattern that starts at the module's root.
func absolute(pattern string) string {
	switch first, _, _ := strings.Cut(pattern, "/"); first {
	case "...", "cmd", "integration", "jobs", "sample", "singleworker":
		return path.Join(modulePath, pattern)
	}
	return pattern
}

// exists reports whether there is anything to forbid: a package of this module or of the
// standard library, or a direct dependency.
func exists(files []sourceFile, pattern string) bool {
	if pattern == outside || slices.ContainsFunc(files, func(f sourceFile) bool { return matches(pattern, f.pkg) }) {
		return true
	}
	pkg := strings.TrimSuffix(pattern, "/...")
	if slices.Contains(dependencies, pkg) {
		return true
	}
	stat, err := os.Stat(filepath.Join(goroot(), "src", pkg))
	return err == nil && stat.IsDir()
}

// goroot is where the standard library is. Tests that were built with -trimpath know only from the
// go command.
var goroot = sync.OnceValue(func() string {
	text, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(text))
})

// inStandardLibrary tells by the path, as the go command does: a module's begins with
// a host name.
func inStandardLibrary(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".")
}

// directDependencies are the modules that a go.mod file requires and does not call
// indirect.
func directDependencies(text string) []string {
	requirement := regexp.MustCompile(`^(?:require)?\s+(\S+) v\S+$`)
	var modules []string
	for line := range strings.Lines(text) {
		if m := requirement.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
			modules = append(modules, m[1])
		}
	}
	return modules
}

func TestBrokenArrowsAreFound(t *testing.T) {
	t.Parallel()
	pure := arrow{
		from: "singleworker/pure", to: []string{outside, "net/..."}, but: []string{"singleworker/purely"}, reason: "why",
	}
	client := arrow{from: "...", except: []string{"singleworker/conn"}, to: []string{zkClient}, reason: "why"}
	tool := arrow{from: "cmd/...", to: []string{"singleworker/internal/..."}, tests: true, reason: "why"}
	imports := func(name, imported string) sourceFile {
		return mustParse(t, name, fmt.Sprintf("package p\nimport _ %q\n", imported))
	}
	files := []sourceFile{
		imports("singleworker/pure/ok.go", "strings"),
		imports("singleworker/pure/ok_test.go", "net"), // the rule is not for tests
		imports("singleworker/pure/net.go", "net"),
		imports("singleworker/pure/http.go", "net/http"),
		imports("singleworker/pure/own.go", modulePath+"/singleworker"),
		imports("singleworker/pure/but.go", modulePath+"/singleworker/purely"),
		imports("singleworker/purely/ok.go", "net"), // not below pure

		imports("singleworker/conn/ok.go", "github.com/go-zookeeper/zk"),
		imports("singleworker/zk.go", "github.com/go-zookeeper/zk"),
		imports("main.go", "github.com/go-zookeeper/zk"),
		imports("ok.go", "github.com/go-zookeeper/zkcli"),

		imports("cmd/tool/internal_test.go", modulePath+"/singleworker/internal/lease"),
		imports("cmd/tool/ok.go", modulePath+"/singleworker"),
	}
	wantFindings(t, brokenArrows(files, []arrow{pure, client, tool}), []string{
		"singleworker/pure/net.go imports net: why",
		"singleworker/pure/http.go imports net/http: why",
		"singleworker/pure/own.go imports " + modulePath + "/singleworker: why",
		"singleworker/zk.go imports github.com/go-zookeeper/zk: why",
		"main.go imports github.com/go-zookeeper/zk: why",
		"cmd/tool/internal_test.go imports " + modulePath + "/singleworker/internal/lease: why",
	})
}

func TestStaleArrowsAreFound(t *testing.T) {
	t.Parallel()
	files := []sourceFile{
		mustParse(t, "singleworker/a/a.go", "package a\nimport _ \"net\"\n"),
		mustParse(t, "singleworker/b/b.go", "package b\n"),
	}
	rules := []arrow{
		{from: "singleworker/a", to: []string{"singleworker/b", "net/...", "log/slog", gocron, outside}},
		{from: "singleworker/a", to: []string{outside}, but: []string{"singleworker/b"}},
		{from: "singleworker/gone", to: []string{"net"}},
		{from: "singleworker/a", to: []string{"singleworker/gone/...", "log/gone", "example.com/gone"}},
		{from: "singleworker/...", except: []string{"singleworker/a", "singleworker/b"}, to: []string{"net"}},
	}
	wantFindings(t, staleArrows(files, rules), []string{
		"rule for singleworker/a: allows singleworker/b, which is not imported",
		"rule for singleworker/gone: no such package",
		"rule for singleworker/a: forbids singleworker/gone/..., which does not exist",
		"rule for singleworker/a: forbids log/gone, which does not exist",
		"rule for singleworker/a: forbids example.com/gone, which does not exist",
		"rule for singleworker/...: singleworker/b does not need its exception",
	})
}

func TestDirectDependenciesAreRead(t *testing.T) {
	t.Parallel()
	const text = `module example.com/m

go 1.25.0

require example.com/alone v1.0.0

require (
	example.com/direct/v2 v2.0.1
	example.com/indirect v0.1.0 // indirect
)
`
	wantFindings(t, directDependencies(text), []string{"example.com/alone", "example.com/direct/v2"})
}
