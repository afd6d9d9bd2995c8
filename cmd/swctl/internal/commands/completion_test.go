package commands

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/singleworker/admin"
)

// completed are the values for the last word of a line.
func (h *harness) completed(t *testing.T, line string) string {
	t.Helper()
	code := h.exec(append([]string{"__complete"}, strings.Split(line, " ")...)...)
	if code != cmdline.ExitOK || h.errs.Len() > 0 {
		t.Errorf("%q: exit %d, stderr %q", line, code, h.errs.String())
	}
	var values []string
	for text := range strings.Lines(h.out.String()) {
		value, about, ok := strings.Cut(strings.TrimSuffix(text, "\n"), "\t")
		if !ok || value == "" && about != "files" {
			t.Errorf("%q: the line %q", line, text)
		}
		if value == "" {
			value = "<files>"
		}
		values = append(values, value)
	}
	return strings.Join(values, " ")
}

// In virtual time, so that no answer comes too late.
func TestCompletion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		for line, want := range map[string]string{
			"sho":                               "show",
			"instances d":                       "drain disable",
			"requests ":                         "cancel broken nightly orphan レポート",
			"show n":                            "nightly",
			"show -- n":                         "nightly",
			"show nightly ":                     "",
			"--zk z -o json show レ":             "レポート",
			"pause nightly ":                    "broken orphan レポート",
			"pause nightly --missed ":           "once skip all",
			"cancel --yes n":                    "nightly",
			"set nightly --handler ":            "export report",
			"set report --handler=re":           "--handler=report",
			"set nightly --misfire=":            "--misfire=once --misfire=skip --misfire=all",
			"set nightly --interrupted r":       "rerun",
			"submit a @daily --before-tick e":   "export",
			"set nightly --drop-instance app-1": "app-1",
			"instances drain ":                  "app-1 app-2",
			"instances disable app-1 --job ni":  "nightly",
			"--server-type ":                    "billing",
			"list --server-type=b":              "--server-type=billing",
			"list -o js":                        "json jsonl",
			"list --tim":                        "--time --timeout",
			"list --auth-file ":                 "<files>",
			"list --tls-ca=/etc/":               "<files>",
			"list --lab":                        "--label",
			"list --hel":                        "--help",
			"list -o":                           "-o",
			"list ":                             "broken nightly orphan レポート",
			"runlog ":                           "",
			"import ":                           "crontab quartz elasticjob",
			"import crontab ":                   "<files>",
			"import elasticjob ":                "",
			"next --cron ":                      "",
			"guard -- ":                         "<files>",
			"guard -- app --":                   "<files>",
			"help exit":                         "exit-codes",
			"help wa":                           "watch",
			"completion z":                      "zsh",
			"frobnicate ":                       "",
			"runlog --bogus ":                   "",
			"list --bogus=":                     "",
			"show --timeout x n":                "",
		} {
			if got := h.completed(t, line); got != want {
				t.Errorf("%q is completed by %q, want %q", line, got, want)
			}
		}
		if h.completed(t, "runlog --zk a --server-type b "); h.config.ServerType == "b" {
			t.Error("a server was asked for nothing")
		}
		if h.completed(t, "show --zk a --server-type b n"); h.config.Servers != "a" || h.config.ServerType != "b" {
			t.Errorf("asked were %+v", h.config)
		}
		h.vars[cmdline.EnvServerType] = ""
		if got := h.completed(t, "--server-type "); got != "billing" {
			t.Errorf("without a server type: %q", got)
		}
	})
}

// Nobody waits for a server, or for a resolver of names, that does not answer.
func TestCompletionDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, answer := newHarness(t), make(chan struct{})
		h.app.dial = func(context.Context, admin.Config) (group.Client, error) {
			<-answer // whatever its context says
			return nil, admin.ErrUnavailable
		}
		began := time.Now()
		if got := h.completed(t, "show "); got != "" || time.Since(began) != 200*time.Millisecond {
			t.Errorf("%q after %v", got, time.Since(began))
		}
		close(answer)
	})
}

// Text of others cannot be taken for another line.
func TestCompletionIsPlain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.fake.jobs["a\tb\nc"], h.fake.jobs["a\x1b[31m"], h.fake.jobs["a b"] = h.fake.jobs["orphan"], h.fake.jobs["orphan"], h.fake.jobs["orphan"]
		if got := h.completed(t, "show a"); got != "a b" {
			t.Errorf("%q", got)
		}
	})
}

// Each program prints scripts for itself.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.Program = "swctl-sql"
	for _, shell := range shells {
		code := h.exec("completion", shell)
		if script := h.out.String(); code != cmdline.ExitOK || !strings.Contains(script, "swctl-sql __complete ") || strings.Contains(strings.ReplaceAll(script, "swctl-sql", ""), "swctl") {
			t.Errorf("%s: exit %d, %s", shell, code, script)
		}
	}
	for _, args := range [][]string{{"completion"}, {"completion", "tcsh"}, {"completion", "bash", "zsh"}} {
		if code := h.exec(args...); code != cmdline.ExitUsage {
			t.Errorf("%q: exit %d", args, code)
		}
	}
}
