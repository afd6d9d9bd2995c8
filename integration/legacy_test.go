package integration

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// javaJob is a job name as in the published sample: a class.
const javaJob = "com.example.jobs.PrintNumber$Daily"

// leaveSampleTree creates the nodes of one job like the published sample, with two machines.
func leaveSampleTree(c *cluster, conn *zk.Conn) {
	c.t.Helper()
	c.create(conn, "")
	c.create(conn, everySecond, javaJob)
	c.create(conn, "", javaJob, "register")
	c.create(conn, "", javaJob, "register", "192.168.1.7")
	c.create(conn, "", javaJob, "register", "192.168.1.8")
	c.create(conn, "", javaJob, "alive")
	c.create(conn, millis(time.Now().Add(-24*time.Hour)), javaJob, "alive", "192.168.1.7")
}

func millis(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }

// sampleOptions describes an instance with the sample's handler.
func sampleOptions() options {
	return options{
		Session: 2 * time.Second,
		Handle:  map[string]singleworker.Handler{javaJob: handlers()[work]},
	}
}

// The sample's server type, if its application gives none, is a name that is reserved otherwise.
func TestPublishedSampleTreeIsTakenOver(t *testing.T) {
	t.Parallel()
	c := newClusterOf(t, sharedServer.get(t), "/sample-"+groupOf(t), "", "_-default-_")
	raw := c.raw("")
	_, err := raw.Create(c.chroot, nil, 0, zk.WorldACL(zk.PermAll))
	c.must(err)
	leaveSampleTree(c, raw)

	status := c.get(javaJob)
	if status.Job.Schedule != everySecond || status.Owner != nil || status.State != admin.StateUnowned {
		t.Errorf("the sample's job is shown as %+v", status)
	}
	at := time.Now()
	c.start(sampleOptions())
	c.start(sampleOptions())
	first := c.awaitRun(javaJob, at, ended)
	stale := 2 * time.Second * 3 / 2
	t.Logf("started to first run: %v (stale limit %v)", first.At.Sub(at).Round(time.Millisecond), stale)
	if first.At.Sub(at) < stale {
		t.Errorf("first run after %v, want the heartbeat to be watched for %v", first.At.Sub(at), stale)
	}
	c.eventually("last run recorded", func() error {
		if last := c.get(javaJob).LastRun; last == nil || last.State != "ok" {
			return fmt.Errorf("last run %+v", last)
		}
		return nil
	})
	if c.exists(raw, javaJob, "alive", "192.168.1.7") {
		t.Errorf("the stale heartbeat is still there")
	}
	if data, _, err := raw.Get(c.node(javaJob)); err != nil || string(data) != everySecond {
		t.Errorf("job node: %q, %v; want the plain cron text as it was", data, err)
	}
	_, err = c.admin.Cancel(t.Context(), javaJob)
	c.must(err)
	if c.exists(raw, javaJob) {
		t.Errorf("the job is there after a cancel")
	}
}

func TestFreshForeignHeartbeatIsRespected(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	raw := c.raw("")
	leaveSampleTree(c, raw)
	var silent time.Time
	beat := func() error {
		silent = time.Now() // after this heartbeat
		_, err := raw.Set(c.node(javaJob, "alive", "192.168.1.7"), []byte(millis(time.Now())), -1)
		return err
	}
	c.must(beat())
	o := sampleOptions()
	c.start(o)
	c.start(o)
	c.throughout(3*o.Session, "the old machine keeps its job", func() error {
		if runs := c.runs(javaJob); len(runs) != 0 {
			return fmt.Errorf("it was run: %v", runs)
		}
		return beat()
	})
	first := c.awaitRun(javaJob, silent)
	stale := o.Session * 3 / 2
	t.Logf("fell silent to first run: %v (stale limit %v)", first.At.Sub(silent).Round(time.Millisecond), stale)
	if took := first.At.Sub(silent); took < stale {
		t.Errorf("taken over after %v, want the heartbeat to be stale first, %v", took, stale)
	}
}

func TestForeignHeartbeatBesideOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	raw := c.raw("")
	c.start(steady())
	c.start(steady())
	c.submit("job", work)
	first := c.awaitRun("job", time.Time{})

	c.create(raw, millis(time.Now()), "job", "alive", "old-machine")
	c.eventually("the stray heartbeat is cleared away", func() error {
		if c.exists(raw, "job", "alive", "old-machine") {
			return errors.New("it is there")
		}
		return nil
	})
	c.awaitRun("job", time.Now())
	if owner := c.get("job").Owner; owner == nil || owner.Token != first.Token {
		t.Errorf("owner %+v, want it unimpressed, with token %#x", owner, first.Token)
	}
}

func TestUnreadableJobsDoNotAffectOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	raw := c.raw("")
	bad := map[string]struct{ data, reason string }{
		"garbage":   {"\x00\xff{not a cron", ""},
		"prose":     {"every now and then", ""},
		"empty":     {"", "empty"},
		"broken":    {`{"schema":1,"schedule":`, ""},
		"future":    {`{"schema":99,"when":"soon"}`, "99"},
		"zone":      {`{"schema":1,"schedule":"* * * * * ?","time_zone":"Moon/Tycho","handler":"work"}`, "Moon/Tycho"},
		"never":     {`{"schema":1,"schedule":"0 0 0 30 2 ?","handler":"work"}`, ""},
		"bare-node": {"* * * * * ?", "-"}, // valid, but without a handler
	}
	c.create(raw, "")
	before := time.Now()
	for name, job := range bad {
		c.create(raw, job.data, name)
	}
	c.start(options{})
	c.start(options{})
	for name, job := range bad { // again, now that instances watch
		c.create(raw, job.data, name+"-2")
	}
	good := c.submitAll(4, "good")
	for _, name := range good {
		c.awaitRun(name, before)
	}
	c.throughout(2*syncPeriod, "bad jobs do not run", func() error {
		for name := range bad {
			if runs := append(c.runs(name), c.runs(name+"-2")...); len(runs) != 0 {
				return fmt.Errorf("%v", runs)
			}
		}
		return nil
	})
	for name, job := range bad {
		for _, name := range []string{name, name + "-2"} {
			status := c.get(name)
			want := admin.StateInvalid
			if job.reason == "-" || strings.HasPrefix(name, "never") {
				want = status.State // either is right
			}
			if status.State != want || status.Reason.IsZero() || !strings.Contains(status.Reason.String(), strings.Trim(job.reason, "-")) {
				t.Errorf("%s is %s because %q; want %s, and %q named", name, status.State, status.Reason, want, job.reason)
			}
			if data, stat, err := raw.Get(c.node(name)); err != nil || string(data) != job.data || stat.Version != 0 {
				t.Errorf("%s holds %q, version %d, %v; want it untouched", name, data, stat.Version, err)
			}
		}
	}
	c.awaitEven(len(good), 2)

	// Submit or cancel repairs it, but never a newer version's record.
	repaired := time.Now()
	for _, name := range []string{"garbage", "broken", "zone"} {
		job := job.Job{Name: name, Schedule: everySecond, Handler: work}
		_, err := c.admin.Submit(t.Context(), job, admin.SubmitOptions{})
		wantErr(t, "submit over "+name, err, admin.ErrExists)
		c.submitJob(job, admin.SubmitOptions{Replace: true})
		c.awaitRun(name, repaired)
	}
	_, err := c.admin.Submit(t.Context(), job.Job{Name: "future", Schedule: everySecond}, admin.SubmitOptions{Replace: true})
	wantErr(t, "replace a newer version's job", err, admin.ErrExists)
	_, err = c.admin.Cancel(t.Context(), "prose")
	c.must(err)
}
