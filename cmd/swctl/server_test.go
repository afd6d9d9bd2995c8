package main

import (
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// The commands on a real client and a server, with no instance there: what
// the fake client promises is what admin does.
func TestOnAServer(t *testing.T) {
	t.Parallel()
	server := zkdev.Start(t, zkdev.Config{})
	h := newHarness(t)
	h.dial, h.now = dialAdmin, time.Now
	h.vars[envZK] = server.Addr()
	for _, c := range []struct {
		line string // "~" stands for a blank
		want exitCode
		says string // on stdout, or on stderr of what fails
	}{
		{"submit job @hourly --retries 2 --args-json [1]", exitOK, "created job v0"},
		{"set job --retries 3 --arg a=1", exitOK, "retries  2  ->  3"},
		{"set job --retries 3", exitOK, "unchanged job v1"},
		{"set nobody --retries 3", exitNotFound, "set nobody: no such job"},
		{"pause job --for 24h --reason db~migration", exitOK, "(in 23h59m), by alice@host: db migration"},
		{"pause nobody", exitNotFound, "pause: no such job: nobody"},
		{"list", exitOK, "by alice@host: db migration; no instance has registered handler \"job\""},
		{"show job", exitOK, "Paused      until "},
		{"why job", exitOK, "will not run: the job is paused by alice@host from "},
		{"why job --at 2001-02-03", exitOK, `The schedule "@hourly" has no tick at or before 2001-02-03 00:00:00 UTC`},
		{"resume job --missed once", exitOK, "resumed job; no tick came while it was paused"},
		{"resume job", exitOK, "unchanged job: it is not paused"},
		{"history job", exitOK, "TICK"},
		{"history nobody", exitNotFound, `history of "nobody": no such job`},
		{"trigger job", exitConflict, `trigger job: no instance can run it: no instance has registered handler "job"`},
		{"trigger job --wait --timeout 500ms", exitTimeout, "manual run of job: nobody has begun it: no instance has registered"},
		{"stop-run job", exitConflict, "it is not running: the job never ran"},
		{"cancel job --yes", exitOK, "cancelled job"},
		{"why job", exitNotFound, `why "job": no such job`},
	} {
		var args []string
		for arg := range strings.FieldsSeq(c.line) {
			args = append(args, strings.ReplaceAll(arg, "~", " "))
		}
		code := h.exec(args...)
		text := h.out.String()
		if c.want != exitOK {
			text = h.errs.String()
		}
		if code != c.want || !strings.Contains(text, c.says) {
			t.Errorf("%s: exit %d, want %d %s\nstdout %s\nstderr %s", c.line, code, c.want, c.says, h.out.String(), h.errs.String())
		}
	}
}
