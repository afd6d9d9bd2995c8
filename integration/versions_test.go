package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

// mixedWith is the commit whose library, and swctl, must get on with those of today: before there
// were tombstones, versions of jobs, instances on record that are gone, roles, and names of those
// who asked for runs.
const mixedWith = "84b1ebdebcc14fb67910a1b88d61a12907e03123"

// buildFormer builds a program of the commit mixedWith, whose files come from this clone.
func (c *cluster) buildFormer(pkg string) (program string) {
	c.t.Helper()
	dir := filepath.Join(c.dir, "former")
	run := func(in, name string, args ...string) {
		c.t.Helper()
		cmd := exec.CommandContext(c.t.Context(), name, args...)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "GOWORK=off")
		if output, err := cmd.CombinedOutput(); err != nil {
			c.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, output)
		}
	}
	if _, err := os.Stat(dir); err != nil {
		c.must(os.Mkdir(dir, 0o700))
		run("..", "git", "archive", "-o", dir+".tar", mixedWith) // it fails in a clone without its past
		run(dir, "tar", "-xf", dir+".tar")
	}
	program = filepath.Join(c.dir, "former-"+filepath.Base(pkg))
	run(dir, "go", "build", "-o", program, pkg)
	return program
}

// A deploy replaces the former library by this one instance by instance, while operators of both
// submit, change, pause, ask and cancel. No tick is lost or claimed twice, as both audits say, and
// what only the new one writes is still there.
func TestVersionsMix(t *testing.T) {
	t.Parallel()
	c := newCluster(t, zkserver.Start(t))
	formerCtl, ctl := c.swctl(c.buildFormer("./cmd/swctl")), c.swctl(buildSwctl(t))
	former, present := c.buildFormer("./integration/chaos/instance"), filepath.Join(c.dir, "instance")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", present, "./chaos/instance").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	started := 0
	start := func(program, id string) *child {
		started++
		return c.spawnProgram(id, "NOTHING=", program, "-servers", c.servers, "-group", c.group, "-id", id, "-session", session.String(),
			"-ledger", filepath.Join(c.dir, fmt.Sprintf("ledger-%d", started)))
	}
	for k := range 6 {
		c.submitJob(job.Job{Name: fmt.Sprintf("job-%d", k), Schedule: everySecond, Handler: "work", Misfire: job.MisfireAll, Overlap: job.OverlapQueue}, admin.SubmitOptions{})
	}
	formerCtl.run(exitOK, "submit", "shards", everySecond, "--handler", "work", "--shards", "3")
	ctl.run(exitOK, "submit", "flaky", "*/2 * * * * ?", "--handler", "flaky", "--retries", "2", "--backoff", "100ms")
	ctl.run(exitOK, "submit", "long", everySecond, "--handler", "work", "--arg", "for=1m")
	group := []*child{start(former, "a"), start(former, "b"), start(former, "c")}
	names := []string{"job-0", "job-1", "job-2", "job-3", "job-4", "job-5", "shards[0]", "shards[1]", "shards[2]", "flaky"}
	runs := func(since time.Time) {
		t.Helper()
		for _, name := range names {
			c.eventually("a run of "+name, func() error {
				past, err := c.admin.History(t.Context(), name)
				if err == nil && !slices.ContainsFunc(past.Entries, func(e history.Entry) bool { return e.State == stateOK && e.Tick.After(since) }) {
					err = fmt.Errorf("there are %v", past.Entries)
				}
				return err
			})
		}
	}
	runs(time.Time{})
	for k, old := range group { // one is killed, the others stop
		if k == 0 {
			old.kill()
		} else if err := old.terminate(); err != nil {
			t.Errorf("%s: %v\n%s", old.id, err, old.logTail())
		}
		at := time.Now()
		start(present, old.id)
		if k == 0 { // while both are there
			ctl.run(exitOK, "set", "job-1", "--description", "changed", "--by", "ann")
			formerCtl.run(exitOK, "set", "job-2", "--description", "changed")
			formerCtl.run(exitOK, "pause", "job-3", "--reason", "repairs")
			ctl.run(exitOK, "resume", "job-3", "--missed", "all")
			ctl.run(exitOK, "trigger", "job-4", "--by", "ann", "--reason", "again")
			formerCtl.run(exitOK, "trigger", "job-5")
			ctl.run(exitOK, "cancel", "job-5", "--yes", "--by", "ann")
			ctl.run(exitOK, "undelete", "job-5")
			ctl.run(exitOK, "list")
			formerCtl.run(exitOK, "list")
			formerCtl.run(exitOK, "show", "job-1")
			formerCtl.run(exitOK, "history", "job-4")
		}
		runs(at)
	}
	ctl.run(exitOK, "trigger", "job-4", "--by", "ann", "--reason", "again")
	if text := ctl.run(exitOK, "history", "job-4").stdout; !strings.Contains(text, "asked for by ann: again") {
		t.Errorf("nobody knows who asked:\n%s", text)
	}
	for _, by := range []*swctl{ctl, formerCtl} {
		if text := by.run(exitOK, "audit", "--txnlog", c.server.LogDir()).stdout; !strings.Contains(text, "PASS") {
			t.Error(text)
		}
	}
	for _, name := range names[:5] {
		ctl.isAccounted(name, time.Second)
	}
}
