package commands

import (
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// allowStale are lines of the commands that a server without a quorum may answer. They end, and
// change nothing.
var allowStale = map[string]string{
	"acl check": "", "acl show": "", "calendars": "", "calendars show": "no-such", "doctor": "", "history": "nightly", "instances": "", "instances show": "app-1",
	"limits": "", "limits show": "no-such", "list": "", "log": "", "next": "nightly", "requests": "nightly", "show": "nightly", "top": "", "tree": "", "why": "nightly",
}

// Each of these commands lets such a server answer, and says first that it has. No other does,
// whatever it is given.
func TestWhoAllowsStale(t *testing.T) {
	t.Parallel()
	const says = "swctl: STALE: answered by a server that has no quorum, with what was true when that was lost; " +
		"the last sign of life of an instance in it is of 2026-11-21 08:21:05 UTC, 3m ago\n"
	others := map[string][]string{
		"watch": nil, "list": {"--watch"}, "tree": {"--watch"}, "runlog": {"--store", "file:" + t.TempDir()}, "ui": {"--listen", "127.0.0.1:0"},
		"pause": {"nightly"}, "resume": {"nightly"}, "submit": {"new", "@daily"}, "set": {"nightly", "--retries", "1"}, "cancel": {"nightly", "--yes"},
		"trigger": {"nightly"}, "stop-run": {"nightly"}, "freeze": nil, "unfreeze": nil, "export": nil, "rollback": {"nightly", "--to", "1"},
		"instances drain": {"app-1"}, "instances enable": {"app-1"}, "instances disable": {"app-1"}, "clear": {"--dry-run"},
	}
	for name, args := range allowStale {
		h := newHarness(t)
		h.fake.stale = true
		h.exec(append(strings.Fields(name), strings.Fields(args)...)...)
		if !h.config.AllowStale || !strings.HasPrefix(h.errs.String(), says) || strings.Count(h.errs.String(), "STALE") != 1 {
			t.Errorf("%s: allowed: %t, stderr %s", name, h.config.AllowStale, h.errs.String())
		}
	}
	for name, args := range others {
		h := newHarness(t)
		h.fake.fail["Watch"] = cmdline.Usage("no more")
		h.exec(append(append(strings.Fields(name), args...), "--timeout", "100ms")...)
		if h.config.Servers == "" || h.config.AllowStale {
			t.Errorf("%s: dialed %+v, stderr %s", name, h.config, h.errs.String())
		}
	}
}

// A server without a quorum has its mark on each answer, in each form, and on an error. It refuses
// changes, and swctl says why. With a quorum there is no mark.
func TestStale(t *testing.T) {
	t.Parallel()
	server := zkdev.Start(t, zkdev.Config{})
	h := newHarness(t)
	h.app.dial, h.Now = group.Dial, time.Now
	h.vars[cmdline.EnvZK] = server.Addr()
	if code := h.exec("submit", "job", "@hourly"); code != cmdline.ExitOK {
		t.Fatal(h.errs.String())
	}
	quorum := func(has bool) {
		if err := server.SetReadOnly(!has); err != nil {
			t.Fatal(err)
		}
	}
	quorum(false)
	const line = "swctl: STALE: answered by a server that has no quorum, with what was true when that was lost\n"
	for _, c := range []struct {
		args      string
		want      cmdline.ExitCode
		out, errs string
	}{
		{"list", cmdline.ExitOK, "@hourly", line},
		{"list -o name", cmdline.ExitOK, "job\n", line},
		{"list -o jsonl", cmdline.ExitOK, `{"apiVersion":"swctl/v1","kind":"JobList","stale":{},"items":[{"name":"job",`, ""},
		{"list -o yaml", cmdline.ExitOK, "kind: JobList\nstale: {}\n", ""},
		{"doctor -o jsonl", cmdline.ExitNo, `{"apiVersion":"swctl/v1","kind":"CheckList","stale":{},"items":[{"name":"quorum","severity":"broken",`, ""},
		{"show nobody", cmdline.ExitNotFound, "", line + `swctl: job "nobody": no such job`},
		{"show nobody -o json", cmdline.ExitNotFound, "", `{"error":{"code":"not_found","message":"job \"nobody\": no such job; STALE: answered by a server `},
		{"pause job", cmdline.ExitUnavailable, "", "ZooKeeper has no quorum: " + server.Addr() + " is read-only, because it has lost its quorum\ntry: start the servers that are away, "},
		{"submit job @daily --timeout 2s", cmdline.ExitUnavailable, "", "ZooKeeper has no quorum: " + server.Addr() + " is read-only, "},
	} {
		code := h.exec(strings.Fields(c.args)...)
		if code != c.want || !strings.Contains(h.out.String(), c.out) || !strings.Contains(h.errs.String(), c.errs) || c.errs == "" && h.errs.Len() > 0 {
			t.Errorf("%s: exit %d, want %d\nstdout %s\nstderr %s", c.args, code, c.want, h.out.String(), h.errs.String())
		}
	}
	quorum(true)
	for _, args := range [][]string{{"list"}, {"list", "-o", "json"}} {
		code := h.exec(args...)
		if said := h.out.String() + h.errs.String(); code != cmdline.ExitOK || strings.Contains(strings.ToLower(said), "stale") {
			t.Errorf("%q: exit %d, %s", args, code, said)
		}
	}
}
