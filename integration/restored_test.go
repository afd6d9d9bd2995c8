package integration

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/notify"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

// before is the entries, except runs that began after the server's data was replaced; there may be
// no such time.
func (c *cluster) before(entries []entry) []entry { return c.chosen(entries, true) }

// after is the entries, except runs that began before that, and of which the server has lost the
// result.
func (c *cluster) after(entries []entry) []entry {
	if c.restoredAt.IsZero() {
		return nil
	}
	return c.chosen(entries, false)
}

func (c *cluster) chosen(entries []entry, before bool) []entry {
	drop := make(map[string]bool)
	for _, r := range runsOf(entries) {
		if isBefore := c.restoredAt.IsZero() || r.At.Before(c.restoredAt); isBefore {
			drop[r.ID] = !before && (r.End.IsZero() || !r.End.Before(c.restoredTo))
		} else {
			drop[r.ID] = before
		}
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return e.ID != "" && drop[e.ID] })
}

// says waits until a program has logged a text, and returns how often.
func (c *cluster) says(ch *child, text string) (times int) {
	c.t.Helper()
	c.eventually(ch.id+" to say "+text, func() error {
		log, err := os.ReadFile(ch.log)
		if err != nil {
			return err
		}
		if times = strings.Count(string(log), text); times == 0 {
			return errors.New("it does not")
		}
		return nil
	})
	return times
}

// answers waits until a page has a text, which it had not before something changed.
func (c *cluster) answers(url, text string) {
	c.t.Helper()
	client := &http.Client{Timeout: 10 * time.Second}
	c.eventually(url+" to have "+text, func() error {
		request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, url, nil)
		c.must(err)
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && (response.StatusCode != http.StatusOK || !strings.Contains(string(body), text)) {
			err = fmt.Errorf("%s: %s", response.Status, body[:min(len(body), 2000)])
		}
		return err
	})
}

// listens returns the address that a program says that it listens at.
func (c *cluster) listens(ch *child) (url string) {
	c.t.Helper()
	c.says(ch, "http://127.0.0.1:")
	log, err := os.ReadFile(ch.log)
	c.must(err)
	return regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(string(log))
}

// The data of a server is replaced by an older copy, by nothing, or by a copy that swctl serve
// restore has renewed, while a group runs on it. Clients that have seen more come back: instances
// give their sessions up, or find them gone, say so, and join again. So do those who only look, and
// those who keep a position say that something is missing. Jobs that were submitted and lost are
// gone, those that are declared come back, and no run outlives its lease. Only in renewed data is
// each token higher than all before.
func TestServersDataIsReplaced(t *testing.T) {
	t.Parallel()
	exporter := filepath.Join(t.TempDir(), "swexporter")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../singleworker/prom", "-o", exporter, "./cmd/swexporter")
	build.Env = append(os.Environ(), "GOWORK=") // that of the clone, also if this module is tested without one
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build swexporter: %v\n%s", err, output)
	}
	for _, what := range []string{"restored", "emptied", "renewed"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			testReplacedData(t, exporter, what)
		})
	}
}

func testReplacedData(t *testing.T, exporter, what string) {
	t.Helper()
	emptied, renewed := what == "emptied", what == "renewed"
	given := "session given up: the server knows less than it has seen"
	if renewed {
		given = "session expired; joining again"
	}
	c := newCluster(t, zkserver.Start(t))
	declared := singleworker.Job{Name: "declared", Schedule: everySecond, Handler: work}
	var instances []*child
	for range 3 {
		o := steady()
		o.Session, o.Jobs = session, []singleworker.Job{declared}
		instances = append(instances, c.spawn(o))
	}
	old := c.submitAll(3, "old")
	c.submit("open", hold)
	dir := filepath.Join(c.dir, "runlog")
	c.must(os.Mkdir(dir, 0o700))
	c.spawnConfig(nil, childConfig{Options: c.complete(options{ID: "reader"}), RunLog: dir})
	h := newHook(t)
	sender := c.spawnNotifier("sender", h.url, time.Millisecond)
	c.awaitSender(c.raw(""), sender.id)
	swctl := buildSwctl(t)
	watch := c.spawnProgram("watch", "SWCTL_ZK="+c.servers, swctl, "watch", "-o", "jsonl", "--server-type", c.group)
	page := c.spawnProgram("ui", "SWCTL_ZK="+c.servers, swctl, "ui", "--listen", "127.0.0.1:0", "--server-type", c.group)
	metrics := c.spawnProgram("exporter", "SWCTL_ZK="+c.servers, exporter, "-listen", "127.0.0.1:0", "-interval", "1s", "-server-type", c.group)
	c.awaitEven(5, 3)
	c.awaitRun("open", time.Time{})
	pages, numbers := c.listens(page)+"api/v1/jobs", c.listens(metrics)+"metrics"
	c.answers(pages, "old-000")
	c.answers(numbers, `job_name="old-000"`)

	backup := ""
	if !emptied {
		c.restoredTo = time.Now()
		backup = c.server.Backup()
	}
	lost := c.submitAll(3, "lost")
	for _, name := range append(lost, old...) {
		c.awaitRun(name, time.Now(), ended)
	}
	c.awaitEven(8, 3)
	c.says(watch, `"job":"lost-000"`)
	c.answers(pages, "lost-000")
	c.restoredAt = time.Now()
	if renewed {
		c.server.Kill()
		backup = c.renewed(swctl, backup)
	}
	c.server.Replace(backup)
	c.server.Restart()
	back := time.Now()

	for _, i := range instances {
		if n := c.says(i, given); n != 1 {
			t.Errorf("%s gives its session up %d times", i.id, n)
		}
	}
	took := time.Since(back)
	t.Logf("FIGURE %s: server back after %v; the last one has given its session up %v later (session %v)",
		t.Name(), back.Sub(c.restoredAt).Round(time.Millisecond), took.Round(time.Millisecond), session)
	jobs := []string{"declared"}
	if !emptied {
		jobs = append(jobs, old...)
	}
	for _, name := range jobs {
		c.awaitRun(name, back, ended)
	}
	t.Logf("FIGURE %s: every job has run again %v after the server was back", t.Name(), time.Since(back).Round(time.Millisecond))
	for _, name := range append(lost, old...) {
		if _, err := c.admin.Get(t.Context(), name); !slices.Contains(jobs, name) != errors.Is(err, admin.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.runsEnd()
	const leap = 1 << 47 // half of the one of swctl serve restore
	if before, after := c.tokens(back); (after-before >= leap) != renewed {
		t.Errorf("the highest token before is %#x, the lowest since %#x", before, after)
	}

	now := time.Now()
	c.awaitSender(c.raw(""), sender.id)
	c.submitJob(job.Job{
		Name: "new", Schedule: "@manually", Handler: fails, Notify: map[string][]job.NotifyKind{"hook": {job.NotifyFailed}},
	}, admin.SubmitOptions{})
	_, err := c.admin.Trigger(t.Context(), "new", admin.TriggerOptions{WaitForHandler: true})
	c.must(err)
	c.awaitTold(h, notify.Failed, "new")
	c.says(watch, `"event":"gap"`)
	if renewed { // otherwise the server may have counted as far again when they come back
		c.says(watch, `"what":"lost"`)
		c.says(sender, "notifications may be missing")
	}
	c.says(watch, `"job":"new"`)
	c.answers(pages, `"new"`)
	c.answers(numbers, `job_name="new"`)
	c.eventually("the run log to continue, after a hole", func() error {
		holes := 0
		for _, l := range c.logged(dir) {
			if l.Kind == runlog.Hole && l.At.After(c.restoredAt) {
				holes++
			}
			if l.Slot == "declared" && l.Tick.After(now) && holes > 0 {
				return nil
			}
		}
		return fmt.Errorf("there is nothing new after %d holes", holes)
	})
	for _, ch := range c.children {
		select {
		case <-ch.ended:
			t.Errorf("%s has ended: %v", ch.id, ch.err)
		default:
		}
	}
}

// renewed has swctl serve restore make a directory of a backup, for Replace, whose numbers are
// above the server's. The server does not run.
func (c *cluster) renewed(swctl, backup string) string {
	c.t.Helper()
	lost := filepath.Dir(c.server.LogDir())
	data, to := filepath.Base(lost), c.t.TempDir()
	cmd := exec.CommandContext(c.t.Context(), swctl, "serve", "restore", "--from", filepath.Join(backup, data), "--data", filepath.Join(to, data), "--lost", lost)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("swctl serve restore: %v: %s", err, out)
	}
	return to
}

// tokens returns the highest token of the runs before the server's data was replaced, and the
// lowest of those that began after a time.
func (c *cluster) tokens(back time.Time) (before, after int64) {
	for _, r := range c.runs("") {
		switch {
		case r.At.Before(c.restoredAt):
			before = max(before, r.Token)
		case r.At.After(back) && (after == 0 || r.Token < after):
			after = r.Token
		}
	}
	return before, after
}

// runsEnd checks that no run that the server may have lost has outlived its lease.
func (c *cluster) runsEnd() {
	c.t.Helper()
	const busy = session / 4 // before the next owner may begin
	for _, r := range c.runs("") {
		if end := r.End; r.At.Before(c.restoredAt) && (end.IsZero() || end.After(c.restoredAt.Add(session*3/4+busy))) {
			c.t.Errorf("%v lasts %v after the server was gone", r, end.Sub(c.restoredAt))
		}
	}
}
