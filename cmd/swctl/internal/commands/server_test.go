package commands

import (
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// The commands on a real client and a server, with no instance there: the fake client's promises
// are admin's.
func TestOnAServer(t *testing.T) {
	t.Parallel()
	server := zkdev.Start(t, zkdev.Config{})
	h := newHarness(t)
	h.app.dial, h.Now = group.Dial, time.Now
	h.vars[cmdline.EnvZK] = server.Addr()
	for _, c := range []struct {
		line string // "~" stands for a blank
		want cmdline.ExitCode
		says string // on stdout, or on stderr of what fails
	}{
		{"submit job @hourly --retries 2 --args-json [1]", cmdline.ExitOK, "created job v1"},
		{"set job --retries 3 --arg a=1", cmdline.ExitOK, "retries  2  ->  3"},
		{"set job --retries 3", cmdline.ExitOK, "unchanged job v2"},
		{"set nobody --retries 3", cmdline.ExitNotFound, `job "nobody": no such job`},
		{"pause job --for 24h --reason db~migration", cmdline.ExitOK, "(in 23h59m), by alice@host: db migration"},
		{"pause nobody", cmdline.ExitNotFound, "pause: no such job: nobody"},
		{"list", cmdline.ExitOK, "by alice@host: db migration"},
		{"show job", cmdline.ExitOK, "Paused      until "},
		{"why job", cmdline.ExitOK, "will not run: the job is paused by alice@host from "},
		{"why job --at 2001-02-03", cmdline.ExitOK, `The schedule "@hourly" has no tick at or before 2001-02-03 00:00:00 UTC`},
		{"resume job --missed once", cmdline.ExitOK, "resumed job; no tick came while it was paused"},
		{"resume job", cmdline.ExitOK, "unchanged job: it is not paused"},
		{"history job", cmdline.ExitOK, "TICK"},
		{"history nobody", cmdline.ExitNotFound, `history of "nobody": no such job`},
		{"trigger job", cmdline.ExitConflict, `trigger job: no instance can run the job: no instance has registered handler "job"`},
		{"trigger job --wait --timeout 500ms", cmdline.ExitTimeout, "manual run of job: it has not started: no instance has registered"},
		{"stop-run job", cmdline.ExitConflict, "job is not running: the job never ran"},
		{"cancel job --yes", cmdline.ExitOK, "canceled job"},
		{"why job", cmdline.ExitNotFound, `why "job": no such job`},
	} {
		var args []string
		for arg := range strings.FieldsSeq(c.line) {
			args = append(args, strings.ReplaceAll(arg, "~", " "))
		}
		code := h.exec(args...)
		text := h.out.String()
		if c.want != cmdline.ExitOK {
			text = h.errs.String()
		}
		if code != c.want || !strings.Contains(text, c.says) {
			t.Errorf("%s: exit %d, want %d %s\nstdout %s\nstderr %s", c.line, code, c.want, c.says, h.out.String(), h.errs.String())
		}
	}
}
