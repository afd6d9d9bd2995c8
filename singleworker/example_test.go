package singleworker_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
)

// The program of the package's documentation. It is compiled but not run because it has no
// Output comment: it needs a ZooKeeper server, and runs until interrupted.
func Example() { //nolint:testableexamples // see above
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	m, err := singleworker.New(singleworker.Config{Servers: "zk1:2181,zk2:2181/prod", ServerType: "billing"})
	if err != nil {
		panic(err)
	}
	err = m.Handle("daily-stats", func(ctx context.Context, run *singleworker.Run) error {
		run.Logger().InfoContext(ctx, "counting", "day", run.Tick)
		return nil
	})
	if err != nil {
		panic(err)
	}
	err = m.Schedule(singleworker.Job{Name: "daily-stats", Schedule: "0 0 3 * * ?", TimeZone: "Asia/Shanghai"})
	if err != nil {
		panic(err)
	}
	err = m.Run(ctx) // blocks until ctx is done and every job is handed back
	if err != nil {
		slog.Error("stopped", "err", err)
	}
}

// A handler plans a job for later, and another one cancels it. It is compiled but not run, as
// above.
func ExampleManager_ScheduleContext() { //nolint:testableexamples // see above
	m, err := singleworker.New(singleworker.Config{Servers: "127.0.0.1:2181", ServerType: "billing"})
	if err != nil {
		panic(err)
	}
	err = m.Handle("invoice", func(ctx context.Context, run *singleworker.Run) error {
		remind := singleworker.Job{Name: "remind-" + run.Args["customer"], Schedule: "@every 24h", Handler: "remind", Args: run.Args}
		return m.ScheduleContext(ctx, remind) // nil means that ZooKeeper has it
	})
	if err != nil {
		panic(err)
	}
	err = m.Handle("paid", func(ctx context.Context, run *singleworker.Run) error {
		_, err := admin.On(m).Cancel(ctx, "remind-"+run.Args["customer"])
		if errors.Is(err, admin.ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		panic(err)
	}
	if err := m.Run(context.Background()); err != nil {
		slog.Error("stopped", "err", err)
	}
}

// TestDocumentationIsTheExample compares the code in the package's documentation, line by
// line, with the Example, which compiles.
func TestDocumentationIsTheExample(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := codeIn(file.Doc)
	if len(lines) != 4 {
		t.Errorf("the documentation has %d lines of code, want the four-line program:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	for _, line := range lines {
		line = strings.TrimSuffix(line, " ... })") // the body of a function
		if !strings.Contains(string(example), "\n\t"+line) {
			t.Errorf("the documentation has a line that the Example has not:\n%s", line)
		}
	}
}

// codeIn lists the lines that godoc shows as code.
func codeIn(doc *ast.CommentGroup) []string {
	var lines []string
	for line := range strings.Lines(doc.Text()) {
		if code, ok := strings.CutPrefix(line, "\t"); ok {
			lines = append(lines, strings.TrimSuffix(code, "\n"))
		}
	}
	return lines
}
