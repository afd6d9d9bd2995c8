package main

import (
	"strings"
	"testing"

	"github.com/swjobs/singleworker/sample/sql/child"
)

// The demonstration starts its own program twice; here that is the test's.
func TestMain(m *testing.M) { child.RunTests(m.Run, main) }

func TestLateWriteIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o, err := demonstrate(t.Context(), dir, t.Logf)
	if err != nil {
		child.PrintLogs(t.Output(), dir)
		t.Fatal(err)
	}
	show(o, t.Logf)
	for _, wrong := range judge(o) {
		t.Error(wrong)
	}
	if t.Failed() {
		child.PrintLogs(t.Output(), dir)
	}
}

// TestJudge changes one thing at a time in an outcome that is right.
func TestJudge(t *testing.T) {
	t.Parallel()
	late := report{Name: job, Total: 100, Writer: "app-1", Token: 8}
	next := report{Name: job, Total: 130, Writer: "app-2", Token: 9}
	right := func() outcome {
		return outcome{
			late: message{Report: late, Done: true, Fenced: answer{Refused: true, Err: "fenced off"}},
			next: message{Report: next, Done: true}, lease: 1500, stopped: 3000,
			fenced: next, fencedHistory: map[string]int{"app-1": 1, "app-2": 1},
			plain: late, plainHistory: map[string]int{"app-1": 2, "app-2": 1},
		}
	}
	if wrong := judge(right()); len(wrong) > 0 {
		t.Fatalf("a right outcome is judged wrong: %s", strings.Join(wrong, "; "))
	}
	for what, change := range map[string]func(*outcome){
		"nobody took over":            func(o *outcome) { o.next.Report.Writer = "app-1" },
		"the token did not grow":      func(o *outcome) { o.next.Report.Token = 8 },
		"within the lease":            func(o *outcome) { o.stopped = 1500 },
		"the late write is no older":  func(o *outcome) { o.late.Report.Total = 130 },
		"the fence let it pass":       func(o *outcome) { o.late.Fenced = answer{} },
		"another error kept it out":   func(o *outcome) { o.late.Fenced.Refused = false },
		"refused, but written":        func(o *outcome) { o.fenced = late },
		"refused, but in the history": func(o *outcome) { o.fencedHistory["app-1"] = 2 },
		"the late write went nowhere": func(o *outcome) { o.late.Plain.Err = "disk full" },
		"the late write changed nothing": func(o *outcome) {
			o.plain = next
		},
		"the late write left no history": func(o *outcome) { o.plainHistory["app-1"] = 1 },
	} {
		o := right()
		if change(&o); len(judge(o)) == 0 {
			t.Errorf("judge does not see: %s", what)
		}
	}
}
