package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
)

func TestManGolden(t *testing.T) {
	t.Parallel()
	h, dir := newHarness(t), filepath.Join(t.TempDir(), "man1")
	if code := h.exec("help", "--man", dir); code != cmdline.ExitOK || !strings.Contains(h.out.String(), " pages are in "+dir) {
		t.Fatalf("exit %d, %s%s", code, h.out.String(), h.errs.String())
	}
	var texts []string
	for _, name := range []string{"swctl-instances-disable.1", "swctl-notify.1", "swctl-exit-codes.1"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	golden(t, "man", strings.Join(texts, "\n"))
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if want := len(h.Commands) + len([]string{"swctl", "help", "exit-codes", "schedule"}); err != nil || len(pages) != want {
		t.Errorf("%d pages, %v, want %d", len(pages), err, want)
	}
	for _, args := range [][]string{{"help", "list", "--man", dir}, {"help", "--man", "/dev/null/x"}, {"help", "--man", ""}} {
		if code := h.exec(args...); code != cmdline.ExitUsage {
			t.Errorf("%q: exit %d, %s", args, code, h.errs.String())
		}
	}
}

// A page has each word of the help that it is made of.
func TestManSaysWhatHelpSays(t *testing.T) {
	t.Parallel()
	h, dir := newHarness(t), t.TempDir()
	h.exec("help", "--man", dir)
	unescape := strings.NewReplacer(`\e`, `\`, `\-`, "-", `\(aq`, "'", `\(ga`, "`", `\(ha`, "^", `\(ti`, "~", `\fB`, "", `\fR`, "", `\&`, "")
	for _, cmd := range h.Commands {
		text, err := os.ReadFile(filepath.Join(dir, "swctl-"+strings.ReplaceAll(cmd.Name, " ", "-")+".1"))
		if err != nil {
			t.Fatal(err)
		}
		said := " " + strings.Join(strings.Fields(unescape.Replace(string(text))), " ") + " "
		h.exec("help", cmd.Name)
		for word := range strings.FieldsSeq(h.out.String()) {
			if !strings.HasSuffix(word, ":") && !strings.Contains(said, " "+word+" ") && !strings.Contains(said, " "+strings.ToUpper(word)+" ") {
				t.Errorf("%s: %q is missing in %s", cmd.Name, word, said)
			}
		}
	}
}
