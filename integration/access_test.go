package integration

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

const (
	ourAuth   = "billing:s3cret"
	otherAuth = "billing:guessed"
)

func TestCredentialsKeepOthersOut(t *testing.T) {
	t.Parallel()
	c := newClusterAt(t, sharedServer.get(t), "", ourAuth)
	c.start(options{})
	c.start(options{})
	names := c.submitAll(4, "job")
	c.awaitEven(len(names), 2)
	for _, name := range names {
		c.awaitRun(name, time.Time{}, ended)
	}

	raw := c.raw(ourAuth)
	digest := zk.DigestACL(zk.PermAll, "billing", "s3cret")
	paths := c.wantACL(raw, digest)
	if len(paths) < 1+3+len(names)*6 {
		t.Errorf("only %d nodes were checked: %q", len(paths), paths)
	}

	for who, auth := range map[string]string{"wrong password": otherAuth, "no credentials": ""} {
		c.auth = auth // for the calls below
		began := time.Now()
		err := c.wait(c.start(options{ID: "intruder"}))
		wantErr(t, who+": Run", err, singleworker.ErrAccessDenied)
		t.Logf("%s: refused after %v: %v", who, time.Since(began).Round(time.Millisecond), err)
		if err != nil && !strings.Contains(err.Error(), "/"+c.group) {
			t.Errorf("%s: error %q does not name the path", who, err)
		}
		wantDenied(t, who, c, auth)
	}
	if live, err := c.admin.Instances(t.Context()); err != nil || len(live) != 2 {
		t.Errorf("instances: %v, %v; want the two with credentials", live, err)
	}
	c.awaitRun(names[0], time.Now())
}

// wantDenied checks that an operator with those credentials is refused.
func wantDenied(t *testing.T, who string, c *cluster, auth string) {
	t.Helper()
	ctx, cancel := contextFor(t, patience)
	defer cancel()
	client, err := admin.Dial(ctx, admin.Config{Servers: c.servers, ServerType: c.group, Auth: auth})
	if err != nil {
		wantErr(t, who+": dial", err, admin.ErrDenied)
		return
	}
	defer client.Close()
	_, err = client.List(ctx)
	wantErr(t, who+": list", err, admin.ErrDenied)
	_, err = client.Cancel(ctx, "job-000")
	wantErr(t, who+": cancel", err, admin.ErrDenied)
	_, err = client.Submit(ctx, job.Job{Name: "intruding", Schedule: everySecond}, admin.SubmitOptions{})
	wantErr(t, who+": submit", err, admin.ErrDenied)
}

func TestACLCanLetOthersRead(t *testing.T) {
	t.Parallel()
	c := newClusterAt(t, sharedServer.get(t), "", ourAuth)
	c.acl = "auth::cdrwa,world:anyone:r"
	c.start(options{})
	c.eventually("the group's root", func() error {
		live, err := c.admin.Instances(t.Context())
		if err == nil && len(live) == 0 {
			err = admin.ErrNotFound
		}
		return err
	})
	// Without an ACL, an operator's nodes get the root's.
	operator := c.dial(admin.Config{Auth: ourAuth})
	if _, err := operator.Submit(t.Context(), job.Job{Name: "job", Schedule: everySecond, Handler: work},
		admin.SubmitOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitRun("job", time.Time{}, ended)

	reader := c.raw("")
	for _, path := range c.tree(reader, c.node()) {
		if _, _, err := reader.Get(path); err != nil && !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("read %s without credentials: %v", path, err)
		}
	}
	guest := c.dial(admin.Config{})
	if jobs, err := guest.List(t.Context()); err != nil || len(jobs) != 1 || jobs[0].State != admin.StateOwned {
		t.Errorf("list without credentials: %+v, %v", jobs, err)
	}
	_, err := guest.Cancel(t.Context(), "job")
	wantErr(t, "cancel without credentials", err, admin.ErrDenied)
	_, err = guest.Submit(t.Context(), job.Job{Name: "job2", Schedule: everySecond}, admin.SubmitOptions{})
	wantErr(t, "submit without credentials", err, admin.ErrDenied)
}

// wantACL checks the ACL of each of the group's nodes, and returns their paths.
func (c *cluster) wantACL(conn *zk.Conn, want []zk.ACL) (paths []string) {
	c.t.Helper()
	paths = c.tree(conn, c.node())
	for _, path := range paths {
		acl, _, err := conn.GetACL(path)
		if errors.Is(err, zk.ErrNoNode) {
			continue // of a takeover that is over
		}
		if err != nil || !slices.Equal(acl, want) {
			c.t.Errorf("%s has the ACL %v, %v; want %v", path, acl, err, want)
		}
	}
	return paths
}

// tree lists a node and all below it, of which some may be gone by now.
func (c *cluster) tree(conn *zk.Conn, path string) []string {
	c.t.Helper()
	children, _, err := conn.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	c.must(err)
	paths := []string{path}
	for _, child := range children {
		paths = append(paths, c.tree(conn, path+"/"+child)...)
	}
	return paths
}

func TestChrootsAreIsolated(t *testing.T) {
	t.Parallel()
	server := sharedServer.get(t)
	// Neither chroot exists yet, nor its parent.
	one := newClusterAt(t, server, "/chroots/deep/one", "")
	two := newClusterAt(t, server, "/chroots/deep/two", "")
	three := newClusterAt(t, server, "/chroots/three", "")

	one.start(options{}) // the instance comes first
	one.submit("job", work)
	two.submit("job", work) // the job comes first
	two.submit("more", work)
	two.start(options{})
	one.awaitRun("job", time.Time{})
	two.awaitRun("job", time.Time{})
	two.awaitRun("more", time.Time{})

	for c, want := range map[*cluster]int{one: 1, two: 2, three: 0} {
		jobs, err := c.admin.List(t.Context())
		if err != nil || len(jobs) != want {
			t.Errorf("%s: %d jobs, %v; want %d", c.chroot, len(jobs), err, want)
		}
		live, err := c.admin.Instances(t.Context())
		if err != nil || len(live) != min(want, 1) {
			t.Errorf("%s: instances %v, %v; want %d", c.chroot, live, err, min(want, 1))
		}
	}
	if runs := one.runs("more"); len(runs) != 0 {
		t.Errorf("one chroot ran another's job: %v", runs)
	}
	_, err := one.admin.Cancel(t.Context(), "job")
	one.must(err)
	two.awaitRun("job", time.Now())
	raw := one.raw("")
	if one.exists(raw, "job") || !two.exists(raw, "job") {
		t.Errorf("a cancel in one chroot was not one there, or was one in another")
	}
}
