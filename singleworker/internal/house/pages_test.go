package house

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A page is one Markdown file of the module.
type page struct {
	name string // slash-separated, from the module's root
	text string
}

// pages reads all Markdown files of the module.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	err := fs.WalkDir(os.DirFS(moduleRoot), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case path.Ext(name) == ".md":
			all = append(all, page{name, readFile(t, name)})
		}
		return nil
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%d pages: %v", len(all), err)
	}
	return all
}

// readFile returns a file that is named from the module's root.
func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleRoot, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	const most = 150
	if n := strings.Count(readFile(t, "README.md"), "\n"); n > most {
		t.Errorf("README.md has %d lines, at most %d: the other pages have room", n, most)
	}
}

var (
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	fence     = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	inline    = regexp.MustCompile("`([^`\n]+)`")
	quotation = regexp.MustCompile(`'[^']*'|"[^"]*"`)
)

// anchors are the fragments by which a page's headings can be linked to.
func anchors(text string) []string {
	var all []string
	for _, found := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		plain := noAnchor.ReplaceAllString(strings.ToLower(found[1]), "")
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	return all
}

func TestLinksBetweenPages(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(fence.ReplaceAllString(p.text, ""), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(found[1], "#")
			target := p.name
			if file != "" {
				target = path.Join(path.Dir(p.name), file)
			}
			if _, err := os.Stat(filepath.Join(moduleRoot, filepath.FromSlash(target))); err != nil {
				t.Errorf("%s links to %s: %v", p.name, found[1], err)
			} else if anchor != "" && !slices.Contains(anchors(readFile(t, target)), anchor) {
				t.Errorf("%s links to %s: %s has no such heading", p.name, found[1], target)
			}
		}
	}
}

// Go files that a page names exist, relative to the page or to the module.
func TestFilesOnPages(t *testing.T) {
	t.Parallel()
	file := regexp.MustCompile(`^[\w/]+\.go$`)
	for _, p := range pages(t) {
		for _, found := range inline.FindAllStringSubmatch(p.text, -1) {
			if !file.MatchString(found[1]) {
				continue
			}
			exists := func(dir string) bool {
				_, err := os.Stat(filepath.Join(moduleRoot, filepath.FromSlash(dir), filepath.FromSlash(found[1])))
				return err == nil
			}
			if !slices.ContainsFunc([]string{path.Dir(p.name), "", "singleworker/internal"}, exists) {
				t.Errorf("%s: there is no file %s", p.name, found[1])
			}
		}
	}
}

// Tests that a page names by their package, such as house.TestWords, exist.
func TestTestsOnPages(t *testing.T) {
	t.Parallel()
	tests := make(map[string]bool)
	for _, file := range moduleFiles(t) {
		for _, f := range file.funcs {
			if file.test {
				tests[path.Base(path.Dir(file.name))+"."+f.name] = true
			}
		}
	}
	name := regexp.MustCompile(`^\w+\.Test\w+$`)
	for _, p := range pages(t) {
		for _, found := range inline.FindAllStringSubmatch(p.text, -1) {
			if name.MatchString(found[1]) && !tests[found[1]] {
				t.Errorf("%s: there is no test %s", p.name, found[1])
			}
		}
	}
}

// code lists the lines of code on a page: fenced, indented, and in its sentences.
func code(text string) []string {
	var lines []string
	for _, found := range fence.FindAllStringSubmatch(text, -1) {
		lines = append(lines, strings.Split(found[2], "\n")...)
	}
	text = fence.ReplaceAllString(text, "")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "    ") {
			lines = append(lines, line)
		}
	}
	for _, found := range inline.FindAllStringSubmatch(text, -1) {
		lines = append(lines, found[1])
	}
	return lines
}

// commands lists the calls of a program in a line of code, as words. A quoted text is one word.
func commands(program, line string) [][]string {
	words := strings.Fields(quotation.ReplaceAllString(line, "X"))
	var calls [][]string
	for i, word := range words {
		if word != program && (path.Base(word) != program || !strings.HasPrefix(word, "./")) {
			continue
		}
		call := words[i+1:]
		if end := slices.IndexFunc(call, endsCall); end >= 0 {
			call = call[:end]
		}
		calls = append(calls, call)
	}
	return calls
}

func endsCall(word string) bool {
	return slices.Contains([]string{"|", "||", "&&", ";", ">", "#", "--", "&"}, word)
}

// Every swctl command on a page exists and has the given flags, according to its help.
func TestCommandsOnPages(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		for _, line := range code(p.text) {
			for _, call := range commands("swctl", line) {
				if err := checkCall(call); err != nil {
					t.Errorf("%s: %q: %v", p.name, strings.TrimSpace(line), err)
				}
			}
		}
	}
}

// checkCall looks up a call in the golden files of swctl's help.
func checkCall(call []string) error {
	const help = "../../../cmd/swctl/internal/commands/testdata/help%s.golden"
	var verb []string
	for _, word := range call {
		if !strings.HasPrefix(word, "-") && word == strings.ToLower(word) && len(verb) < 2 {
			verb = append(verb, word)
		}
	}
	if len(call) == 0 || len(verb) == 0 || slices.Contains([]string{"list,", "dev,"}, call[0]) {
		return nil // swctl as such
	}
	if verb[0] == "help" && !slices.ContainsFunc(call, func(word string) bool { return strings.HasPrefix(word, "-") }) {
		verb = verb[1:]
	}
	var text []byte
	err := os.ErrNotExist
	for n := len(verb); n >= 0 && err != nil; n-- {
		if n == 0 && len(verb) > 0 {
			return fmt.Errorf("no such command: %w", err)
		}
		text, err = os.ReadFile(fmt.Sprintf(help, strings.Join(append([]string{""}, verb[:n]...), "-")))
	}
	if err != nil {
		return err
	}
	for _, word := range call {
		flag, _, _ := strings.Cut(word, "=")
		known := regexp.MustCompile(`(?m)(^|[\s,])` + regexp.QuoteMeta(flag) + `[\s,]`)
		if strings.HasPrefix(flag, "-") && !known.Match(text) {
			return fmt.Errorf("no such flag: %s", flag)
		}
	}
	return nil
}

// The check of calls finds errors.
func TestCheckCall(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"swctl list -o json | jq .":                    "",
		"./bin/swctl instances drain app-2 --wait # a": "",
		"swctl":                "",
		"swctl help schedule":  "",
		"swctl help --man DIR": "",
		"swctl help --men DIR": "no such flag: --men",
		"swctl set NAME --arg 'a --b=1' --retries=3": "",
		"swctl lst":                           "no such command",
		"swctl instances drain app-2 --force": "no such flag: --force",
		"SWCTL_ZK=a swctl list && swctl pause NAME --never": "no such flag: --never",
	} {
		var got error
		for _, call := range commands("swctl", line) {
			if err := checkCall(call); err != nil {
				got = err
			}
		}
		if want == "" && got != nil || want != "" && (got == nil || !strings.Contains(got.Error(), want)) {
			t.Errorf("%s: %v, want %q", line, got, want)
		}
	}
}

func TestMakeTargetsOnPages(t *testing.T) {
	t.Parallel()
	makefile := readFile(t, "Makefile")
	for _, p := range pages(t) {
		for _, line := range code(p.text) {
			for _, call := range commands("make", line) {
				if len(call) > 0 && !regexp.MustCompile(`(?m)^([a-z-]+ )*`+regexp.QuoteMeta(call[0])+`( [a-z-]+)*:`).MatchString(makefile) {
					t.Errorf("%s: %q: the Makefile has no target %s", p.name, strings.TrimSpace(line), call[0])
				}
			}
		}
	}
}

// Names such as Config.Servers exist in the API, and Go code is part of a file that compiles.
func TestGoOnPages(t *testing.T) {
	t.Parallel()
	api := readFile(t, "singleworker/internal/house/testdata/api.golden")
	name := regexp.MustCompile(`\b(Config|Job|Run|RunResult|Hooks|Manager|Latch)\.([A-Z]\w*)`)
	var source strings.Builder
	for _, file := range moduleFiles(t) {
		source.WriteString(unindented(readFile(t, file.name)))
	}
	for _, p := range pages(t) {
		for _, line := range code(p.text) {
			for _, found := range name.FindAllStringSubmatch(line, -1) {
				if !regexp.MustCompile(`(?m)(^\t|\) )` + found[2] + `\b`).MatchString(api) {
					t.Errorf("%s: %s is not in the API", p.name, found[0])
				}
			}
		}
		for _, found := range fence.FindAllStringSubmatch(p.text, -1) {
			if found[1] == "go" && !strings.Contains(source.String(), unindented(found[2])) {
				t.Errorf("%s: no Go file has this code; guide_test.go is the place for it:\n%s", p.name, found[2])
			}
		}
	}
}

// unindented is a text without the blanks at the beginning of its lines.
func unindented(text string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(text, "")
}

// The log messages that pages tell operators to look for exist in the code.
func TestLogMessagesOnPages(t *testing.T) {
	t.Parallel()
	const start = "## Log messages\n"
	_, section, found := strings.Cut(readFile(t, "singleworker/OPERATE.md"), start)
	if !found {
		t.Fatalf("OPERATE.md has no section %q", start)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var source strings.Builder
	for _, file := range moduleFiles(t) {
		if !file.test {
			source.WriteString(readFile(t, file.name))
		}
	}
	for row := range strings.Lines(section) {
		cells := strings.Split(row, "|")
		if len(cells) < 2 {
			continue
		}
		for _, message := range inline.FindAllStringSubmatch(cells[1], -1) {
			if !strings.Contains(source.String(), `"`+message[1]+`"`) {
				t.Errorf("OPERATE.md: nothing logs %q", message[1])
			}
		}
	}
}
