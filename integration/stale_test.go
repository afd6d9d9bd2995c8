package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
)

// The last server of an ensemble that serves reads without a quorum answers swctl's reading
// commands, which say that it is stale. Changes are refused, and instances start nothing, until the
// quorum is back.
func TestStaleWithoutQuorum(t *testing.T) {
	t.Parallel()
	e := zkserver.StartReadOnlyEnsemble(t, 3)
	left := e.Servers()[0]
	c := newCluster(t, left)
	c.servers = e.Addr()
	ctl := c.swctl(buildSwctl(t))
	c.submit("job", work)
	c.start(options{ID: "app-1", Session: 2 * time.Second})
	c.awaitRun("job", time.Time{})
	ctl.run(exitOK, "list")
	for _, s := range e.Servers()[1:] {
		s.Kill()
	}

	const mark = "swctl: STALE: answered by a server that has no quorum, with what was true when that was lost; the last sign of life of an instance in it is of "
	c.eventually("a stale list", func() error {
		out, code := ctl.try("list")
		if code != exitOK || !strings.HasPrefix(out.stderr, mark) || !strings.Contains(out.stdout, "app-1") {
			return fmt.Errorf("exit %d, stdout %s, stderr %s", code, out.stdout, out.stderr)
		}
		t.Logf("swctl list takes %v:\n%s%s", out.took.Round(time.Millisecond), out.stderr, out.stdout)
		return nil
	})
	lost := len(c.runs("job"))
	for _, want := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{"list", "-o", "jsonl"}, exitOK, `"kind":"JobList","stale":{"last_sign":"`, ""},
		{[]string{"show", "job"}, exitOK, "app-1", mark},
		{[]string{"history", "job"}, exitOK, "TICK", mark},
		{[]string{"instances"}, exitOK, "app-1", mark},
		{[]string{"doctor"}, exitNo, "ZooKeeper has no quorum, and all else is as it was when that was lost", mark},
		{[]string{"pause", "job"}, exitUnavailable, "", "ZooKeeper has no quorum: " + left.Addr() + " is read-only, because it has lost its quorum"},
		{[]string{"watch", "--timeout", "3s"}, exitUnavailable, "", left.Addr() + " is read-only, because it has lost its quorum"},
	} {
		out, code := ctl.try(want.args...)
		if code != want.code || !strings.Contains(out.stdout, want.stdout) || !strings.Contains(out.stderr, want.stderr) {
			t.Errorf("swctl %q: exit %d, want %d\nstdout: %s\nstderr: %s", want.args, code, want.code, out.stdout, out.stderr)
		}
	}
	if runs := len(c.runs("job")); runs > lost {
		t.Errorf("%d runs began without a quorum", runs-lost)
	}

	for _, s := range e.Servers()[1:] {
		s.Begin()
	}
	e.Await()
	c.eventually("a list that is not stale", func() error {
		if out, code := ctl.try("list"); code != exitOK || out.stderr != "" {
			return fmt.Errorf("exit %d, stderr %s", code, out.stderr)
		}
		return nil
	})
	c.awaitRun("job", time.Now())
	ctl.run(exitOK, "pause", "job")
	if out, _ := ctl.try("list", "-o", "json"); strings.Contains(out.stdout, "stale") {
		t.Error(out.stdout)
	}
}
