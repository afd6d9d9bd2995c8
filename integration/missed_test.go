package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
)

// A tick that is due while its job has no owner runs at once at the takeover: a job that runs every
// ten seconds would otherwise wait for up to ten more.
func TestMissedTickIsRunAtTakeover(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	ctl := c.swctl(buildSwctl(t))
	ctl.run(exitOK, "submit", "rare", "@yearly", "--handler", work)
	long := options{Session: 2 * session} // the owner is missed at the tick, not before
	owner, other := c.spawn(long), c.spawn(long)
	c.eventually("two instances, and an owner", func() error { return c.even(1, 2) })
	if c.get("rare").Owner.InstanceID == other.id {
		owner, other = other, owner
	}
	tick := soon(4 * time.Second)
	ctl.run(exitOK, "set", "rare", "--schedule", rareFrom(tick))
	at := owner.kill()
	first := c.awaitRun("rare", time.Time{}, on(other.id), ended)
	t.Logf("FIGURE kill -9 to first run of a job every %v: %v, %v after its tick (session %v)", rarePeriod,
		first.At.Sub(at).Round(time.Millisecond), first.At.Sub(first.Tick).Round(time.Millisecond), long.Session)
	if !first.Tick.Equal(tick) || !first.At.Before(tick.Add(rarePeriod)) || first.Attempt != 1 {
		t.Errorf("first run after the kill: %v, want the tick of %s, before the next one", first, clock(tick))
	}
	entry := ctl.await(c, "rare", 1, in(stateOK))[0]
	if !entry.Tick.Equal(tick) || entry.RunID != first.ID || entry.InstanceID != other.id {
		t.Errorf("history: %v, want %v", entry, first)
	}
	ctl.why("rare", tick, stateOK, "ran on "+other.id, "succeeded", other.id+" has owned the job since")
	ctl.isAccounted("rare", rarePeriod)
}

// The job's policy determines the fate of ticks missed in an outage of all instances.
func TestWholeGroupOutage(t *testing.T) {
	t.Parallel()
	const away = 4 * time.Second
	const onTime = time.Second // a tick up to this late runs whatever the policy: see Job.Misfire
	c := newCluster(t, sharedServer.get(t))
	ctl := c.swctl(buildSwctl(t))
	before := c.start(options{})
	names := []string{"once", "skip", "all"}
	for _, policy := range names {
		ctl.run(exitOK, "submit", policy, everySecond, "--handler", work, "--misfire", policy)
	}
	awaitAll(c, names, time.Time{})
	c.must(c.stop(before))
	left := time.Now()
	c.throughout(away, "nothing runs without an instance", func() error {
		for _, r := range c.runs("") {
			if r.At.After(left) {
				return errors.New(r.String())
			}
		}
		return nil
	})
	back := time.Now()
	after := c.start(options{})

	for _, policy := range names {
		// The first tick that is neither missed nor late marks the end of the outage.
		c.awaitRun(policy, back, func(r run) bool { return r.Tick.After(back) }, ended)
		entries := ctl.history(policy)
		var row, first jsonEntry  // of the ticks that nobody owned; the first run after
		var missedUntil time.Time // the last tick before that run
		late := 0                 // runs of ticks of the outage
		for _, e := range entries {
			switch {
			case e.RunID != "" && e.InstanceID == after.id:
				if first.RunID == "" {
					first = e
				}
				if e.StartedAt.Sub(e.Tick) > onTime && e.Tick.Before(back) {
					late++
				}
			case e.State == stateMissed && e.LastTick.After(left) && first.RunID == "":
				if missedUntil = e.LastTick; row.Count == 0 {
					row = e
				}
			}
		}
		missed := int(away / time.Second)
		switch {
		case policy == "all" && (row.Count != 0 || late < missed-1):
			t.Errorf("all: %d ticks missed, %d run late, in %v", row.Count, late, entries)
		case policy == "once" && (row.Count < missed-2 || row.Reason != "no_owner" || late > 1 || !first.Tick.Equal(missedUntil.Add(time.Second))),
			policy == "skip" && (row.Count < missed-1 || row.Reason != "no_owner" || late > 0):
			t.Errorf("%s: missed %v, then %v; %d run late, in %v", policy, row, first, late, entries)
		}
		if row.Count > 0 {
			ctl.why(policy, row.LastTick, stateMissed, "the job had no owner at that time", "misfire policy is "+policy)
		}
		ctl.isAccounted(policy, time.Second)
	}
}

// Depending on the job's policy, the run of a killed process is retried as a second attempt, or
// skipped.
func TestInterruptedRunIsRetried(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	ctl := c.swctl(buildSwctl(t))
	first := c.spawn(options{})
	tick := soon(2 * time.Second)
	ctl.run(exitOK, "submit", "rerun", rareFrom(tick), "--handler", hold)
	ctl.run(exitOK, "submit", "skip", rareFrom(tick), "--handler", hold, "--interrupted", "skip")
	begun := map[string]run{}
	for _, job := range []string{"rerun", "skip"} {
		begun[job] = c.awaitRun(job, time.Time{})
		ctl.why(job, begun[job].Tick, stateRunning, "has been running on "+first.id)
	}
	second := c.spawn(options{})
	c.eventually("a second instance", func() error {
		live, err := c.admin.Instances(t.Context())
		if err == nil && len(live) != 2 {
			err = fmt.Errorf("instances: %v", live)
		}
		return err
	})
	at := first.kill()

	again := c.awaitRun("rerun", at, on(second.id))
	t.Logf("FIGURE kill -9 to second attempt: %v (session %v)", again.At.Sub(at).Round(time.Millisecond), session)
	if !again.Tick.Equal(begun["rerun"].Tick) || again.Attempt != 2 || again.Token <= begun["rerun"].Token {
		t.Errorf("after the kill of %v: %v, attempt %d", begun["rerun"], again, again.Attempt)
	}
	lost := ctl.await(c, "skip", 1, in(stateLost))[0]
	if lost.RunID != begun["skip"].ID || lost.Attempt != 1 || lost.Error == "" {
		t.Errorf("history of skip: %v, want the run lost that was killed: %v", lost, begun["skip"])
	}
	ctl.why("skip", begun["skip"].Tick, stateLost, "was lost: how far it got is unknown", first.id)

	// An operator stops the second attempt: there is no third.
	stopped := ctl.run(exitOK, "stop-run", "rerun", again.ID, "--by", "ann", "--reason", "enough").stdout
	if !strings.Contains(stopped, stateInterrupted) || !strings.Contains(stopped, "ann: enough") {
		t.Errorf("stop-run says %q", stopped)
	}
	c.awaitRun("rerun", time.Time{}, is(again), endedBy(singleworker.ErrStopped))
	entries := ctl.await(c, "rerun", 2, in(stateInterrupted))
	if entries[0].RunID != begun["rerun"].ID || entries[1].RunID != again.ID || entries[1].Attempt != 2 ||
		!strings.Contains(entries[1].Error, "enough") {
		t.Errorf("history of rerun: %v, want both attempts interrupted", entries)
	}
	ctl.why("rerun", begun["rerun"].Tick, stateInterrupted, "attempt 2", "Attempt 1, on "+first.id)
	ctl.isAccounted("rerun", rarePeriod)
}

// A handler that crashes its process does not crash all instances.
func TestRunThatKillsItsProcesses(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	ctl := c.swctl(buildSwctl(t))
	alive := map[string]*child{}
	for range 3 {
		ch := c.spawn(options{Session: 2 * time.Second})
		alive[ch.id] = ch
	}
	c.eventually("three instances", func() error { return c.even(0, 3) })
	ctl.run(exitOK, "submit", "deadly", "@at "+soon(4*time.Second).UTC().Format(time.RFC3339), "--handler", dies, "--max-attempts", "2")
	var last run
	for attempt := 1; attempt <= 2; attempt++ {
		last = c.awaitRun("deadly", last.At)
		if last.Attempt != attempt {
			t.Errorf("attempt %d: %v", attempt, last)
		}
		alive[last.SID].awaitDeath(t)
		delete(alive, last.SID)
	}
	lost := ctl.await(c, "deadly", 1, in(stateLost))[0]
	if lost.RunID != last.ID || lost.Attempt != 2 {
		t.Errorf("history: %v, want that the second attempt is lost: %v", lost, last)
	}
	ctl.why("deadly", lost.Tick, stateLost, "attempt 2", "it will not run again")
	c.eventually("the job is done", func() error {
		if status := c.get("deadly"); status.State != admin.StateDone || status.Owner != nil {
			return fmt.Errorf("it is %s, owned by %v", status.State, status.Owner)
		}
		return nil
	})
	for id, ch := range alive {
		c.must(ch.terminate())
		if n := len(c.runs("deadly")); n != 2 {
			t.Errorf("%d runs, of which none is to be on %s: %v", n, id, c.runs("deadly"))
		}
	}
}

// The result of a run that ends during a server outage is written after it.
func TestResultWaitsForTheServer(t *testing.T) {
	t.Parallel()
	server := zkserver.Start(t)
	c := newCluster(t, server)
	ctl := c.swctl(buildSwctl(t))
	c.start(steady())
	tick := soon(2 * time.Second)
	ctl.run(exitOK, "submit", "job", rareFrom(tick), "--handler", work, "--arg", "for=3s")
	running := c.awaitRun("job", time.Time{})
	server.Kill()
	away := time.Now()
	done := c.awaitRun("job", time.Time{}, is(running), ended)
	if done.End.Before(away) || done.Cause != "" {
		t.Fatalf("the run ended before the server: %v", done)
	}
	server.Restart()
	up := time.Now()
	entry := ctl.await(c, "job", 1, func(e jsonEntry) bool { return e.RunID == running.ID && e.State != stateRunning })[0]
	t.Logf("result written within %v of the server's return", time.Since(up).Round(time.Millisecond))
	if entry.State != stateOK || !entry.EndedAt.Before(up) {
		t.Errorf("history: %v, want it ok, and ended before %s", entry, clock(up))
	}
	ctl.isAccounted("job", rarePeriod)
}

// A job that no live instance can run is reported once, by one of them.
func TestDeadMansSwitch(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	ctl := c.swctl(buildSwctl(t))
	c.start(options{})
	c.start(options{})
	ctl.run(exitOK, "submit", "orphan", everySecond, "--handler", "nobody", "--alarm-after", "2s")
	ctl.run(exitOK, "submit", "fine", everySecond, "--handler", work, "--alarm-after", "30s")
	raised := func() (raised []entry) {
		for _, e := range c.entries() {
			if e.Event == tickMissed {
				raised = append(raised, e)
			}
		}
		return raised
	}
	c.eventually("an alarm", func() error {
		if len(raised()) == 0 {
			return errors.New("none")
		}
		return nil
	})
	alarm := raised()[0]
	t.Logf("alarm raised %v after the tick (alarm after 2s, sync period %v)", alarm.At.Sub(alarm.Tick).Round(time.Millisecond), syncPeriod)
	if late := alarm.At.Sub(alarm.Tick); alarm.Job != "orphan" || late < 2*time.Second {
		t.Errorf("raised for %s %v after the tick", alarm.Job, late)
	}
	overdue := func() map[string]bool {
		overdue := map[string]bool{}
		for _, job := range decode[jsonList[struct {
			Name    string     `json:"name"`
			Overdue *time.Time `json:"overdue_tick"`
		}]](t, ctl.run(exitOK, "list", "-o", "json").stdout).Items {
			overdue[job.Name] = job.Overdue != nil && job.Overdue.Equal(alarm.Tick)
		}
		return overdue
	}
	if late := overdue(); !late["orphan"] || late["fine"] {
		t.Errorf("list: late are %v", late)
	}
	if table := ctl.run(exitOK, "list").stdout; !strings.Contains(table, "late since") {
		t.Errorf("list:\n%s", table)
	}
	ctl.why("orphan", alarm.Tick, "late", "is late", alarm.SID+" reported", `no instance has registered handler "nobody"`)
	c.throughout(3*syncPeriod, "one alarm", func() error {
		if all := raised(); len(all) != 1 {
			return fmt.Errorf("raised: %v", all)
		}
		return nil
	})
	// An instance that can run it starts.
	c.start(options{Handle: map[string]singleworker.Handler{"nobody": handlers()[work]}})
	c.awaitRun("orphan", time.Time{}, ended)
	c.eventually("the job in time again", func() error {
		if overdue()["orphan"] {
			return errors.New("it is late")
		}
		return nil
	})
	if status := c.get("orphan"); status.State != admin.StateOwned || status.Alarm == nil || len(raised()) != 1 {
		t.Errorf("orphan: %+v; raised: %v", status, raised())
	}
}
