package swtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"runtime"
	"strings"
)

// test is a Go test that fails as f did, to be put beside the one that found it.
func (f *Failure) test(of string) string {
	name, _, _ := strings.Cut(of, "/")
	plan, known := planText()
	var b strings.Builder
	fmt.Fprintf(&b, "func %sAgain(t *testing.T) {\n", name)
	if known {
		fmt.Fprintf(&b, "\tplan := %s\n", plan)
	} else {
		fmt.Fprintf(&b, "\tvar plan swtest.Plan // the Plan of %s\n", name)
	}
	fmt.Fprintf(&b, "\tplan.Seed = %d\n\tplan.Faults = []swtest.Fault{", f.Seed)
	separator := "\n\t\t"
	const lines = 12
	for k, fault := range f.Faults {
		if k >= lines {
			separator = " "
		}
		fmt.Fprintf(&b, "%s%#v,", separator, fault)
	}
	if len(f.Faults) > 0 {
		b.WriteString("\n\t")
	}
	return b.String() + "}\n\tswtest.Explore(t, plan)\n}\n"
}

// planText is the Plan in the source of the call of Explore or Find, if it is a call, which can be
// written elsewhere.
func planText() (text string, known bool) {
	var pcs [50]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for frame, more := frames.Next(); more; frame, more = frames.Next() {
		if strings.HasSuffix(frame.Function, "/swtest.Explore") || strings.HasSuffix(frame.Function, "/swtest.Find") {
			caller, _ := frames.Next()
			return planAt(caller.File, caller.Line)
		}
	}
	return "", false
}

func planAt(name string, line int) (text string, known bool) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
	if err != nil {
		return "", false
	}
	ast.Inspect(file, func(n ast.Node) bool {
		called, is := n.(*ast.CallExpr)
		if !is || known || len(called.Args) != 2 || line < files.Position(called.Pos()).Line || line > files.Position(called.End()).Line {
			return true
		}
		if f, is := called.Fun.(*ast.SelectorExpr); !is || f.Sel.Name != "Explore" && f.Sel.Name != "Find" {
			return true
		}
		if _, is := called.Args[1].(*ast.CallExpr); is {
			var b bytes.Buffer
			known = printer.Fprint(&b, files, called.Args[1]) == nil
			text = b.String()
		}
		return false
	})
	return text, known
}
