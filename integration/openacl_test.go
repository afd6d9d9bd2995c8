package integration

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/integration/zkserver"
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// setACL does the same as setAcl -R of ZooKeeper's shell.
func (c *cluster) setACL(conn *zk.Conn, acl []zk.ACL) {
	c.t.Helper()
	for _, path := range c.tree(conn, c.node()) {
		if _, err := conn.SetACL(path, acl, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			c.t.Fatalf("setAcl %s: %v", path, err)
		}
	}
}

// Anyone may create a group's root before its first instance does, and have it run anything then.
func TestRootOfAStrangerIsRefused(t *testing.T) {
	t.Parallel()
	c := newClusterAt(t, sharedServer.get(t), "", ourAuth)
	stranger := c.raw("")
	c.create(stranger, "")

	err := c.wait(c.start(options{}))
	wantErr(t, "Run below a root that anyone may change", err, singleworker.ErrOpenACL)
	if want := "setAcl -R " + c.node() + " auth::cdrwa"; err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %q, and does not say %q", err, want)
	}

	var warned error
	operator := c.dial(admin.Config{Auth: ourAuth, OnOpenACL: func(err error) { warned = err }})
	wantErr(t, "the operator's warning", warned, admin.ErrOpenACL)
	if jobs, err := operator.List(t.Context()); err != nil || len(jobs) > 0 {
		t.Errorf("List: %v, %v; want no jobs", jobs, err)
	}
	_, err = operator.Submit(t.Context(), job.Job{Name: "pay", Schedule: everySecond, Handler: work}, admin.SubmitOptions{})
	wantErr(t, "Submit below a root that anyone may change", err, admin.ErrOpenACL)

	mine := zk.DigestACL(zk.PermAll, "billing", "s3cret")
	c.setACL(c.raw(ourAuth), mine)
	c.admin = c.dial(admin.Config{Auth: ourAuth})
	c.start(options{})
	c.submit("pay", work)
	c.awaitRun("pay", time.Time{}, ended)
	if _, err := stranger.Create(c.node("pwn"), nil, 0, zk.WorldACL(zk.PermAll)); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("the stranger submits a job once it is closed: %v, want %v", err, zk.ErrNoAuth)
	}
}

// ZooKeeper knows a client with a certificate by that, too, and "auth" in an ACL means all that it
// knows a client by. Who has the certificate needs the password nevertheless.
func TestCertificateIsNoPassword(t *testing.T) {
	t.Parallel()
	pair := newKeyPair(t)
	var pem []byte
	for _, file := range []string{pair.key, pair.cert} {
		part, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pem = append(pem, part...)
	}
	c := newClusterAt(t, zkserver.StartTLS(t, pem), "", ourAuth)
	c.start(options{TLS: pair.clientConfig()})
	secure := admin.Config{Auth: ourAuth, TLS: pair.clientConfig()}
	_, err := c.dial(secure).Submit(t.Context(), job.Job{Name: "job", Schedule: everySecond, Handler: work}, admin.SubmitOptions{})
	c.must(err)
	c.awaitRun("job", time.Time{}, ended)

	us := c.raw(ourAuth)
	mine := zk.DigestACL(zk.PermAll, "billing", "s3cret")
	c.wantACL(us, mine)
	for who, auth := range map[string]string{"wrong password": otherAuth, "no password": ""} {
		c.auth = auth // of those that are started from here on
		wantErr(t, who+": Run", c.wait(c.start(options{ID: "intruder", TLS: pair.clientConfig()})), singleworker.ErrAccessDenied)
		ctx, cancel := contextFor(t, patience)
		defer cancel()
		client, err := admin.Dial(ctx, admin.Config{Servers: c.servers, ServerType: c.group, Auth: auth, TLS: pair.clientConfig()})
		if err == nil {
			_, err = client.List(ctx)
			client.Close()
		}
		wantErr(t, who+": list", err, admin.ErrDenied)
	}
}

// A group without credentials gets them while it runs, in the order of OPERATE.md: no tick is lost.
func TestRunningGroupIsClosed(t *testing.T) {
	t.Parallel()
	const size, jobs = 3, 6
	c := newCluster(t, sharedServer.get(t))
	var names []string
	for k := range jobs {
		names = append(names, fmt.Sprintf("job-%d", k))
		// A machine that is busy makes ticks late, and by default only the last of late ticks is run.
		c.submitJob(job.Job{Name: names[k], Schedule: everySecond, Handler: work, Misfire: job.MisfireAll}, admin.SubmitOptions{})
	}
	var instances []*instance
	for range size {
		instances = append(instances, c.start(steady()))
	}
	c.awaitEven(jobs, size)
	for _, name := range names {
		c.awaitRun(name, time.Time{})
	}
	from := time.Now()
	deploy := func(auth, acl string) {
		for k, i := range instances {
			c.must(c.stop(i))
			o := steady()
			o.ID, o.Auth, o.ACL = i.id, auth, acl
			instances[k] = c.start(o)
			c.awaitEven(jobs, size)
		}
	}
	mine := zk.DigestACL(zk.PermAll, "billing", "s3cret")

	deploy(ourAuth, "auth::cdrwa,world:anyone:cdrwa")
	us := c.raw(ourAuth)
	c.setACL(us, mine)
	c.admin = c.dial(admin.Config{Auth: ourAuth})
	deploy(ourAuth, "")
	c.setACL(us, mine)

	to := time.Now()
	for _, name := range names {
		c.awaitRun(name, to, func(r run) bool { return r.Tick.After(to) })
		seen := make(map[int64]bool)
		for _, r := range c.runs(name) {
			seen[r.Tick.Unix()] = true
		}
		for tick := from.Unix() + 1; tick <= to.Unix(); tick++ {
			if !seen[tick] {
				t.Errorf("%s: the tick of %v was not run", name, time.Unix(tick, 0).Format(time.TimeOnly))
			}
		}
	}
	c.wantACL(us, mine)
	wantDenied(t, "no credentials", c, "")
}
