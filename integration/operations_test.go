package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/job"
)

// triggered is the part of swctl trigger --wait that the tests use.
type triggered struct {
	Request string    `json:"request"`
	Run     jsonEntry `json:"run"`
}

func (s *swctl) trigger(want int, job string, args ...string) jsonEntry {
	s.t.Helper()
	out := s.run(want, append([]string{"trigger", job, "--wait", "--timeout", "60s", "-o", "json"}, args...)...)
	result := decode[triggered](s.t, out.stdout)
	if result.Request == "" || result.Run.Manual != result.Request {
		s.t.Errorf("trigger %s: %+v", job, result)
	}
	return result.Run
}

func TestTrigger(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	ctl := c.swctl(buildSwctl(t))
	ctl.run(exitNotFound, "trigger", "job", "--wait")
	i := c.start(options{Handle: map[string]singleworker.Handler{
		"greet": singleworker.JSONHandler(func(_ context.Context, run *singleworker.Run, payload struct{ To []string }) error {
			if !run.Manual || run.Args["greeting"] != "ahoy" || run.Args["loud"] != "yes" || len(payload.To) != 2 {
				return fmt.Errorf("manual %v, args %v, payload %s", run.Manual, run.Args, run.Payload)
			}
			return nil
		}),
	}})
	for _, handler := range []string{work, fails, "greet", "nobody"} {
		ctl.run(exitOK, "submit", handler, "@yearly", "--arg", "greeting=hello", "--arg", "loud=yes", "--args-json", `{"to": ["a"]}`)
	}
	c.awaitEven(3, 1)

	if run := ctl.trigger(exitOK, "greet", "--arg", "greeting=ahoy", "--args-json", `{"to": ["a", "b"]}`); run.State != stateOK || run.InstanceID != i.id {
		t.Errorf("trigger greet: %v", run)
	}
	failed := ctl.trigger(exitNo, fails)
	if failed.State != stateFailed || failed.Error != errPaper.Error() {
		t.Errorf("trigger fails: %v", failed)
	}
	ctl.why(fails, failed.Tick, stateFailed, "The manual run requested at", errPaper.Error())
	refused := ctl.run(exitConflict, "trigger", "nobody")
	if !strings.Contains(refused.stderr, `"nobody"`) {
		t.Errorf("trigger of a job without a handler: %s", refused.stderr)
	}
	ctl.why("nobody", time.Time{}, "coming", `The job has no owner: no instance has registered handler "nobody"`)

	// Two requests at once are two consecutive runs: the end of the test checks that none overlap.
	var both sync.WaitGroup
	runs := make([]jsonEntry, 2)
	for k := range runs {
		both.Go(func() { runs[k] = ctl.trigger(exitOK, work, "--arg", "for=500ms") })
	}
	both.Wait()
	if runs[0].RunID == runs[1].RunID || len(c.runs(work)) != 2 {
		t.Errorf("two triggers: %v; ran: %v", runs, c.runs(work))
	}
	if entries := ctl.history(work); len(entries) != 2 || entries[0].Manual == "" || entries[1].StartedAt.Before(entries[0].EndedAt) {
		t.Errorf("history after two triggers: %v", entries)
	}
	ctl.run(exitConflict, "stop-run", work)
	ctl.run(exitOK, "cancel", work, "--yes")
	ctl.run(exitNotFound, "trigger", work)
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	const paused = 3 * time.Second
	c := newCluster(t, sharedServer.get(t))
	ctl := c.swctl(buildSwctl(t))
	c.start(options{})
	names := []string{"all", "once", "skip"}
	for _, name := range names {
		ctl.run(exitOK, "submit", name, everySecond, "--handler", work)
	}
	awaitAll(c, names, time.Time{})
	ctl.run(exitOK, append([]string{"pause", "--by", "ann", "--reason", "repairs"}, names...)...)
	told := time.Now() // a tick claimed before the owner noticed may still run
	c.eventually("the pause to reach the owner", func() error {
		for _, r := range c.runs("") {
			if r.Tick.After(time.Now().Add(-1500 * time.Millisecond)) {
				return fmt.Errorf("ran: %v", r)
			}
		}
		return nil
	})
	for _, r := range c.runs("") {
		if late := r.Tick.Sub(told); late > session {
			t.Errorf("a tick %v after the pause was run: %v", late, r)
		}
	}
	began := time.Now()
	c.throughout(paused, "no tick runs", func() error {
		for _, r := range c.runs("") {
			if r.At.After(began) {
				return fmt.Errorf("ran: %v", r)
			}
		}
		return nil
	})
	if again := ctl.run(exitOK, "pause", "all", "--by", "bob", "--reason", "more repairs").stdout; !strings.Contains(again, "bob: more repairs") {
		t.Errorf("pausing a paused job says %q", again)
	}
	if list := ctl.run(exitOK, "list").stdout; strings.Count(list, "paused") < 6 || !strings.Contains(list, "ann: repairs") {
		t.Errorf("list:\n%s", list)
	}
	ctl.why("skip", time.Time{}, "paused", "the job was paused by ann", "repairs")
	if run := ctl.trigger(exitOK, "skip"); run.State != stateOK {
		t.Errorf("trigger of a paused job: %v", run)
	}
	c.throughout(time.Second, "it stays paused", func() error { return wantRuns(c, "skip", began, 1) })

	until := map[string]time.Time{}
	for _, name := range names {
		out := ctl.run(exitOK, "resume", name, "--missed", name, "-o", "json").stdout
		result := decode[jsonList[struct {
			Missed int
			Pause  struct{ Until time.Time }
		}]](t, out).Items[0]
		if until[name] = result.Pause.Until; result.Missed < int(paused/time.Second) {
			t.Errorf("resume %s tells of %d ticks", name, result.Missed)
		}
	}
	if again := ctl.run(exitOK, "resume", "all").stdout; !strings.HasPrefix(again, "unchanged") {
		t.Errorf("resuming a job that is not paused says %q", again)
	}
	for _, name := range names {
		c.awaitRun(name, until[name], func(r run) bool { return r.Tick.After(until[name]) }, ended)
		late := 0
		for _, e := range ctl.history(name) {
			if e.RunID != "" && e.Manual == "" && e.Tick.After(began) && e.Tick.Before(until[name]) {
				late++
			}
		}
		// The latest tick is the one after the pause if the owner has heard of the end when that was due.
		next := until[name].Truncate(time.Second).Add(time.Second)
		onlyNext := late == 0 && next.Sub(until[name]) < 300*time.Millisecond
		want := map[string]bool{"all": late >= int(paused/time.Second), "once": late == 1 || onlyNext, "skip": late == 0}
		if !want[name] {
			t.Errorf("resumed with --missed %s: %d ticks of the pause were run: %v", name, late, ctl.history(name))
		}
		ctl.isAccounted(name, time.Second)
	}
	row := ctl.await(c, "skip", 1, func(e jsonEntry) bool { return e.State == stateSkipped && e.Reason == "paused" })[0]
	ctl.why("skip", row.LastTick, stateSkipped, "did not run: the job was paused by ann")
}

// wantRuns checks how many runs of a job began after a time.
func wantRuns(c *cluster, job string, since time.Time, want int) error {
	n := 0
	for _, r := range c.runs(job) {
		if r.At.After(since) {
			n++
		}
	}
	if n != want {
		return fmt.Errorf("%d runs of %s, want %d: %v", n, job, want, c.runs(job))
	}
	return nil
}

func TestFailedAndOverlappingRuns(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	ctl := c.swctl(buildSwctl(t))
	c.start(options{Handle: map[string]singleworker.Handler{
		"flaky": func(_ context.Context, run *singleworker.Run) error {
			if run.Attempt < 3 {
				return errPaper
			}
			return nil
		},
	}})
	ten := rareFrom(soon(3 * time.Second))
	ctl.run(exitOK, "submit", "flaky", ten, "--retries", "3", "--backoff", "100ms")
	ctl.run(exitOK, "submit", "slow", ten, "--handler", hold, "--run-timeout", "300ms")
	ctl.run(exitOK, "submit", "broken", ten, "--handler", panics)
	ctl.run(exitOK, "submit", "busy", everySecond, "--handler", work, "--arg", "for=2500ms")
	ctl.run(exitOK, "submit", "patient", everySecond, "--handler", work, "--arg", "for=2500ms", "--overlap", "queue")

	ok := ctl.await(c, "flaky", 1, in(stateOK))[0]
	failed := ctl.await(c, "flaky", 2, in(stateFailed))
	for k, e := range append(failed[:2:2], ok) {
		if e.Attempt != k+1 || !e.Tick.Equal(ok.Tick) || (e.State == stateFailed) != (e.Error == errPaper.Error()) {
			t.Errorf("attempt %d of flaky: %v", k+1, e)
		}
	}
	pauses := []time.Duration{failed[1].StartedAt.Sub(failed[0].EndedAt), ok.StartedAt.Sub(failed[1].EndedAt)}
	t.Logf("pauses before the retries: %v (backoff 100ms, doubling)", pauses)
	if pauses[0] < 100*time.Millisecond || pauses[1] < 200*time.Millisecond {
		t.Errorf("pauses before the retries: %v, want 100ms and 200ms", pauses)
	}
	ctl.why("flaky", ok.Tick, stateOK, "attempt 3", "Attempt 1, on")

	timedOut := ctl.await(c, "slow", 1, in(stateTimedOut))[0]
	if took := timedOut.EndedAt.Sub(timedOut.StartedAt); took < 300*time.Millisecond || !strings.Contains(timedOut.Error, "timed out after 300ms") {
		t.Errorf("slow ended after %v: %v", took, timedOut)
	}
	ctl.why("slow", timedOut.Tick, stateTimedOut, "timed out")
	broken := ctl.await(c, "broken", 1, in(stateFailed))[0]
	if !strings.Contains(broken.Error, "out of ink") || !strings.Contains(broken.Error, "integration.handlers") {
		t.Errorf("broken: %v, want the panic with its stack", broken)
	}

	row := ctl.await(c, "busy", 1, in(stateSkipped))[0]
	ctl.why("busy", row.Tick, stateSkipped, "the previous run was still in progress", "overlap policy is skip")
	queued := ctl.await(c, "patient", 2, in(stateOK))
	if !queued[1].Tick.Before(queued[0].EndedAt) {
		t.Errorf("no tick of patient has waited for the end of a run: %v", queued)
	}
	for job, period := range map[string]time.Duration{"flaky": rarePeriod, "slow": rarePeriod, "broken": rarePeriod} {
		ctl.isAccounted(job, period)
	}
	// A running run has no entry yet, but the ticks skipped because of it do: only a finished run is
	// complete.
	ctl.run(exitOK, "pause", "busy", "patient")
	for _, job := range []string{"busy", "patient"} {
		c.eventually("the end of "+job, func() error { return accounted(ctl.history(job), time.Second) })
	}

	// The next runs use the new settings.
	changed := ctl.run(exitOK, "set", "busy", "--arg", "for=1ms", "--retries", "2", "--overlap", "queue").stdout
	if !strings.HasPrefix(changed, "changed busy") {
		t.Errorf("set says %q", changed)
	}
	if same := ctl.run(exitOK, "set", "busy", "--retries", "2").stdout; !strings.HasPrefix(same, "unchanged busy") {
		t.Errorf("set to what it is says %q", same)
	}
	if run := ctl.trigger(exitOK, "busy"); run.EndedAt.Sub(run.StartedAt) > 2*time.Second {
		t.Errorf("after set: %v", run)
	}
	var shown struct{ Spec job.Job }
	if err := json.Unmarshal([]byte(ctl.run(exitOK, "show", "busy", "-o", "json").stdout), &shown); err != nil ||
		shown.Spec.Retries != 2 || shown.Spec.Overlap != job.OverlapQueue || shown.Spec.Args["for"] != "1ms" {
		t.Errorf("show after set: %+v, %v", shown, err)
	}
}
