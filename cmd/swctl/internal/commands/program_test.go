package commands

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

// A program says its own name, in help, in errors and in hints, and changes nothing that others
// wrote.
func TestProgramNamesItself(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.Program = "swctl-sql"
	other := regexp.MustCompile(`(?m)(^|[^-/"\w])swctl($|[^-/\w])`) // which is no part of a path, or of JSON
	topics := [][]string{{"help"}, {"help", "exit-codes"}, {"help", "schedule"}, {"help", "help"}}
	for _, cmd := range h.Commands {
		topics = append(topics, []string{"help", cmd.Name})
	}
	for _, args := range topics {
		h.exec(args...)
		if text := h.out.String(); !strings.Contains(text, "swctl-sql ") && len(args) == 1 || other.MatchString(text) {
			t.Errorf("%q: %s", args, text)
		}
	}
	h.fake.fail["Get swctl job"] = errors.New("what swctl wrote")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"show", "nobody"}, "swctl-sql: job \"nobody\": "},
		{[]string{"show", "nobody"}, "\ntry: swctl-sql list shows the jobs of server type billing at "},
		{[]string{"show", "swctl job"}, "swctl-sql: what swctl wrote\n"},
		{[]string{"list", "--bogus"}, "\ntry: swctl-sql list --help; "},
		{[]string{"instances", "banana"}, "\ntry: swctl-sql instances, or swctl-sql instances show|"},
		{[]string{"history", "orphan"}, "swctl-sql: orphan has no history: "},
	} {
		h.exec(c.args...)
		if text := h.errs.String(); !strings.Contains(text, c.says) {
			t.Errorf("%q: %s", c.args, text)
		}
	}
	if h.exec("version"); !strings.HasPrefix(h.out.String(), "swctl-sql v0.3.0 ") {
		t.Error(h.out.String())
	}
}
