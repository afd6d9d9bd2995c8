package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/swjobs/singleworker/sample/record"
)

// printer prints the progress. It ignores write errors, because then there is no reader.
type printer struct {
	out   io.Writer
	color bool
	begun time.Time
}

const margin = "         "

// sayf prints a line with the time.
func (p printer) sayf(format string, args ...any) {
	at := fmt.Sprintf("%5.1f s", time.Since(p.begun).Seconds())
	fmt.Fprintf(p.out, "%s  %s\n", p.bold(at), fmt.Sprintf(format, args...))
}

// commandf prints a command that the reader could type.
func (p printer) commandf(format string, args ...any) { p.indent("$ " + fmt.Sprintf(format, args...)) }

func (p printer) indent(text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(p.out, "%s%s\n", margin, strings.TrimSuffix(line, "\n"))
	}
}

// table prints rows whose cells are separated by tabs.
func (p printer) table(rows []string) {
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, strings.Join(rows, "\n"))
	_ = columns.Flush() // a strings.Builder never fails
	p.indent(text.String())
}

// showLogs prints the ends of the instances' logs.
func (p printer) showLogs(dir string) {
	const enough = 15
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log")) // the pattern is valid
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil || len(text) == 0 {
			continue
		}
		lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
		fmt.Fprintf(p.out, "end of %s:\n", filepath.Base(log))
		p.indent(string(bytes.Join(lines[max(0, len(lines)-enough):], []byte("\n"))))
	}
}

// conclude prints the last line.
func (p printer) conclude(v record.Verdict) {
	color := "31"
	if v.Pass {
		color = "32"
	}
	word, text, _ := strings.Cut(v.String(), " ")
	fmt.Fprintf(p.out, "%s %s\n", p.paint("1;"+color, word), text)
}

func (p printer) bold(text string) string { return p.paint("1", text) }
func (p printer) red(text string) string  { return p.paint("31", text) }

func (p printer) paint(style, text string) string {
	if !p.color {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}
