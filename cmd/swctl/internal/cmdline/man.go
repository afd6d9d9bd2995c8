package cmdline

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const flagMan = "man"

// writeMan writes the help of the program, of its commands and of the topics as pages for man,
// which have the help's words.
func (a *App) writeMan(dir string) error {
	_, whole, _ := strings.Cut(string(a.appHelp()), "\n\n")
	pages := map[string]string{
		"":             roff(about, whole),
		topicExitCodes: roff("exit codes of "+a.Program, a.named(exitCodesHelp())),
		topicSchedule:  roff("when a job runs", a.named(scheduleHelp)),
	}
	for _, cmd := range a.commands() {
		_, rest, _ := strings.Cut(string(a.commandHelp(cmd)), "\n\n")
		pages[cmd.Name] = roff(a.named(cmd.Short), rest)
	}
	err := os.MkdirAll(dir, 0o755) //nolint:gosec // man pages are for everybody
	for name, page := range pages {
		title := strings.Join(strings.Fields(a.Program+" "+name), "-")
		page = fmt.Sprintf(".TH %s 1 %s\n.SH NAME\n%s \\- %s", escaped(strings.ToUpper(title)), a.Now().UTC().Format(time.DateOnly), escaped(title), page)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, title+".1"), []byte(page), 0o644) //nolint:gosec // as above
		}
	}
	if err != nil {
		return Usage("--%s: %w", flagMan, err)
	}
	return a.print(fmt.Appendf(nil, "%d pages are in %s\n", len(pages), dir))
}

var (
	manHeading = regexp.MustCompile(`^(Usage|Commands|Flags|Exit codes|Examples)\b.*:$`)
	manGap     = regexp.MustCompile(`  +`)
	manRow     = regexp.MustCompile(`^ *(.*?)(?:  +(.*))?$`)
)

// roff is the page of a text of help, from its name on. The lists of commands, flags and codes are
// tables there, and other indented lines stay as they are.
func roff(about, help string) string {
	var out strings.Builder
	out.WriteString(escaped(strings.TrimSuffix(strings.Join(strings.Fields(about), " "), ".")) + "\n")
	section, asIs, apart := "", false, false // apart: after an empty line
	for line := range strings.SplitSeq(strings.TrimRight(help, "\n"), "\n") {
		indented := strings.HasPrefix(line, " ")
		if asIs && !indented && line != "" {
			out.WriteString(".fi\n.RE\n")
			asIs, apart = false, true
		}
		if line == "" {
			apart = true
			if asIs {
				out.WriteString("\n")
			}
			continue
		}
		found := manHeading.FindStringSubmatch(line)
		switch {
		case found != nil:
			section, apart = found[1], false
			heading, _, _ := strings.Cut(strings.TrimSuffix(line, ":"), ",")
			fmt.Fprintf(&out, ".SH %s\n", escaped(strings.ToUpper(strings.Replace(heading, "Usage", "synopsis", 1))))
			continue
		case indented && section != "Usage" && section != "Examples" && section != "Description":
			row := manRow.FindStringSubmatch(line)
			fmt.Fprintf(&out, ".TP\n\\fB%s\\fR\n%s\n", escaped(row[1]), escaped(manGap.ReplaceAllString(row[2], ": ")))
		case indented && !asIs:
			out.WriteString(".RS 2\n.nf\n")
			asIs = true
			fallthrough
		case indented:
			out.WriteString(escaped(line[2:]) + "\n")
		case section == "" || section == "Usage":
			section = "Description"
			out.WriteString(".SH DESCRIPTION\n" + escaped(line) + "\n")
		case apart:
			out.WriteString(".PP\n" + escaped(line) + "\n")
		default:
			out.WriteString(escaped(line) + "\n")
		}
		apart = false
	}
	if asIs {
		out.WriteString(".fi\n.RE\n")
	}
	return out.String()
}

var roffSpecial = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// escaped is a text of which roff takes nothing for its own, and changes no sign that a shell
// knows.
func escaped(text string) string {
	text = roffSpecial.Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
