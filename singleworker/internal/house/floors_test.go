package house

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// floorsOf are the files of packages from the bottom up: each may mention what is declared on its
// own floor and below. So in package lease the values that decide are read, and tested, without the
// machine that carries their decisions out, in package runner the parts without the runner, in
// package admin the parts without the Client, in package web everything below the routes, in
// swctl's commands a line without a group to ask, and in its package render the times without a
// page.
var floorsOf = map[string][][]string{"internal/lease": {
	{"config.go", "event.go", "past.go"},
	{"peers.go", "skip.go"},
	{"crowd.go", "slot.go"},
	{"tally.go"},
	{"assign.go", "balance.go"},
	{"claim.go", "look.go", "machine.go", "own.go", "owned.go", "plan.go", "relieve.go", "round.go"},
}, "internal/runner": {
	{"config.go"},
	{"commit.go"},
	{"alarm.go"},
	{"line.go"},
	{"ask.go", "before.go", "hung.go", "runs.go", "stack.go"},
	{"decide.go", "runner.go"},
}, "admin": {
	{"clock.go", "errors.go", "hung.go"},
	{"places.go", "reader.go", "types.go"},
	{"basis.go"},
	{"after.go", "event.go", "limited.go", "parsed.go", "records.go", "round.go"},
	{"overdue.go", "watchticks.go", "writer.go"},
	{"parts.go"},
	{"client.go", "leader.go", "servers.go"},
	{"cancel.go", "foreign.go", "gone.go", "instances.go", "log.go", "names.go", "place.go", "repair.go", "roles.go"},
	{"clear.go", "declared.go", "everywhere.go", "group.go", "examine.go", "instance.go"},
	{"conditions.go", "shard.go", "status.go"},
	{"edit.go", "history.go"},
	{"await.go", "calendars.go", "freeze.go", "histories.go", "limits.go", "named.go", "pause.go", "requests.go", "undelete.go", "versions.go"},
	{"drain.go", "outage.go", "pasttick.go", "read.go", "request.go", "stop.go", "submit.go", "submitall.go", "trigger.go", "why.go"},
	{"backfill.go", "details.go", "watch.go", "watchhistories.go", "watchjob.go", "watchread.go", "watchslot.go", "watchtrouble.go"},
	{"disable.go", "json.go"},
}, "web": {
	{"answer.go", "client.go", "query.go", "state.go", "text.go"},
	{"history.go", "rights.go", "visitors.go"},
	{"faults.go", "outcomes.go"},
	{"attention.go", "readings.go"},
	{"group.go"},
	{"documents.go", "feed.go", "pages.go"},
	{"chart.go", "drawing.go", "instances.go", "job.go", "jobs.go", "owners.go", "problems.go", "timeline.go", "whodid.go"},
	{"calendars.go", "limits.go", "load.go"},
	{"calendar.go"},
	{"actions.go"}, {"put.go"}, {"edit.go"},
	{"web.go"},
}, "../cmd/swctl/internal/commands": {
	{"line.go", "listchoice.go", "listen.go", "notifyfile.go", "reply.go", "servetls.go", "store.go"},
	{"change.go", "historystore.go", "jobfiles.go", "meant.go"},
	{"call.go"},
	{"redraw.go", "submitfile.go"},
	{
		"acl.go", "apply.go", "audit.go", "calendars.go", "cancel.go", "clear.go", "completion.go", "config.go", "dev.go", "doctor.go", "drain.go",
		"files.go", "guard.go", "history.go", "import.go", "instance.go", "instances.go", "limits.go", "list.go", "log.go", "next.go", "notify.go", "once.go",
		"pause.go", "repair.go", "requests.go", "rollback.go", "runlog.go", "serve.go", "serverestore.go", "set.go", "show.go", "submit.go", "top.go", "tree.go",
		"trigger.go", "ui.go", "undelete.go", "version.go", "watch.go", "why.go",
	},
	{"backfill.go"},
	{"main.go"},
}, "../cmd/swctl/internal/render": {
	{"clock.go", "tree.go"},
	{"render.go"},
	{
		"audit.go", "calendars.go", "changes.go", "doctor.go", "effects.go", "events.go", "instance.go", "instances.go", "jobs.go", "limits.go", "log.go", "plan.go", "roles.go",
		"runs.go", "show.go", "top.go",
	},
	{"runlog.go"},
}}

// strangersOf is the floor of a package whose files mention nothing of each other.
var strangersOf = map[string]int{"../cmd/swctl/internal/commands": 4, "../cmd/swctl/internal/render": 2}

func TestFloors(t *testing.T) {
	t.Parallel()
	for of, listed := range floorsOf {
		dir := filepath.Join("..", "..", of)
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, path := range paths {
			if name := filepath.Base(path); !strings.HasSuffix(name, "_test.go") && name != "doc.go" {
				names = append(names, name)
			}
		}
		if all := slices.Sorted(slices.Values(slices.Concat(listed...))); !slices.Equal(all, names) {
			t.Fatalf("the floors of %s have the files %q, the package has %q", of, all, names)
		}
		floors := make([][]*ast.File, len(listed))
		for k, names := range listed {
			for _, name := range names {
				floors[k] = append(floors[k], parseMentions(t, filepath.Join(dir, name), nil))
			}
		}
		findings := mentionsAbove(floors)
		if floor, are := strangersOf[of]; are {
			findings = append(findings, mentionsBeside(floors[floor])...)
		}
		for _, finding := range findings {
			t.Errorf("%s: %s", of, finding)
		}
	}
}

// TestClientIsAFacade wants admin.Client to have the methods that its users call, and no others.
// The work is done by its parts, and no part knows the Client.
func TestClientIsAFacade(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join("..", "..", "admin", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if name := filepath.Base(path); !strings.HasSuffix(name, "_test.go") && name != "client.go" {
			files = append(files, parseMentions(t, path, nil))
		}
	}
	for _, finding := range insideFacade(files, "Client") {
		t.Error(finding)
	}
	most := map[string]int{"watcher": 39} // all that one round of Watch reads
	for name, n := range countMethods(files) {
		if name != "Client" && n > cmp.Or(most[name], maxMethods) {
			t.Errorf("admin.%s has %d methods, more than %d: it is two parts", name, n, cmp.Or(most[name], maxMethods))
		}
	}
}

func TestPartsThatKnowTheFacadeAreFound(t *testing.T) {
	t.Parallel()
	const source = `package p
func (c *front) Do() { c.part.do() }
func (c *front) do() {}
func (p part) other(c *front) {}
type keeps struct{ *front }
`
	wantFindings(t, insideFacade([]*ast.File{parseMentions(t, "p.go", source)}, "front"), []string{
		"front.do is not exported", "front is mentioned 2 times beside its methods",
	})
}

// insideFacade lists the methods of a type that are not exported, and how often others know the
// type.
func insideFacade(files []*ast.File, facade string) (findings []string) {
	methods, mentions := 0, 0
	for _, file := range files {
		for _, ident := range file.Unresolved {
			if ident.Name == facade {
				mentions++
			}
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil && types.ExprString(f.Recv.List[0].Type) == "*"+facade {
				if methods++; !f.Name.IsExported() {
					findings = append(findings, facade+"."+f.Name.Name+" is not exported")
				}
			}
		}
	}
	if mentions > methods {
		findings = append(findings, fmt.Sprintf("%s is mentioned %d times beside its methods", facade, mentions-methods))
	}
	return findings
}

func TestMentionsAboveAreFound(t *testing.T) {
	t.Parallel()
	const low = `package p
type low struct { high int; up *high; next *low }
func (l low) call(limit int) int { high := 1; return call(high + limit + l.high + fine) }
const fine = 1
`
	const top = `package p
type high struct{ low }
const limit = 2
func call(n int) int { return n + fine }
`
	wantFindings(t, mentionsAbove([][]*ast.File{
		{parseMentions(t, "low.go", low)}, {parseMentions(t, "top.go", top)},
	}), []string{"call is declared on floor 1 and mentioned on floor 0", "high is declared on floor 1 and mentioned on floor 0"})
	wantFindings(t, mentionsBeside([]*ast.File{parseMentions(t, "low.go", low), parseMentions(t, "top.go", top)}), []string{
		"call is declared in one file and mentioned in another one", "fine is declared in one file and mentioned in another one",
		"high is declared in one file and mentioned in another one", "low is declared in one file and mentioned in another one",
	})
}

func parseMentions(t *testing.T, name string, source any) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// mentionsAbove lists the names of a package that are mentioned on a floor below their own.
func mentionsAbove(floors [][]*ast.File) (findings []string) {
	lowest := make(map[string]int) // floor that mentions a name
	for k, files := range slices.Backward(floors) {
		for _, file := range files {
			for _, ident := range file.Unresolved {
				lowest[ident.Name] = k
			}
		}
	}
	for k, files := range floors {
		for _, file := range files {
			for name := range file.Scope.Objects {
				if mentioned, is := lowest[name]; is && mentioned < k {
					findings = append(findings, fmt.Sprintf("%s is declared on floor %d and mentioned on floor %d", name, k, mentioned))
				}
			}
		}
	}
	return findings
}

// mentionsBeside lists the names that one file declares and another one mentions.
func mentionsBeside(files []*ast.File) (findings []string) {
	for _, file := range files {
		for _, other := range files {
			for _, ident := range other.Unresolved {
				if other != file && file.Scope.Objects[ident.Name] != nil {
					findings = append(findings, ident.Name+" is declared in one file and mentioned in another one")
				}
			}
		}
	}
	return findings
}
