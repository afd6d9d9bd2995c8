package integration

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
)

func TestTakeoverUnderGuard(t *testing.T) { //nolint:paralleltest // it measures
	const jobs = 9
	c := newCluster(t, sharedServer.get(t))
	names := make([]string, jobs)
	victim := steady()
	victim.ID = "victim"
	guard := c.spawnUnder([]string{buildSwctl(t), "guard", "--zk", c.servers, "--server-type", c.group, "--"}, victim)
	t.Cleanup(func() { _ = guard.terminate() }) // killing it does not end the process that it started
	for k := range names {
		names[k] = string(rune('p' + k))
		c.submit(names[k], hold)
	}
	for _, name := range names {
		c.awaitRun(name, time.Time{}, on("victim"))
	}
	c.start(options{ID: "heir"})
	live, err := c.admin.Instances(t.Context())
	c.must(err)
	pid := live[slices.IndexFunc(live, func(i admin.Instance) bool { return i.ID == "victim" })].PID

	at := time.Now()
	c.must(syscall.Kill(pid, syscall.SIGKILL))
	c.ledger.add(entry{Event: killed, SID: "victim"})
	var times []time.Duration
	for _, name := range names {
		times = append(times, c.awaitRun(name, at, on("heir")).At.Sub(at).Round(time.Millisecond))
	}
	slices.Sort(times)
	t.Logf("FIGURE kill -9 under guard to first run elsewhere: %v (documented: 200ms; session %v)", times, victim.Session)
	if times[jobs-1] > victim.Session/2 {
		t.Errorf("it took %v, want no session timeout, %v, for any", times, victim.Session)
	}
	<-guard.ended
	if log := guard.logTail(); !strings.Contains(log, "killed); removed the registration of victim") {
		t.Errorf("guard has not said what it did:\n%s", log)
	}
}
