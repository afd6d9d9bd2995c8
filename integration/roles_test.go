package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// roleAuth is the credentials of the user who has a role and no other; instances have the group's.
func roleAuth(role string) string {
	if role == admin.RoleInstances {
		return ourAuth
	}
	return role + ":s3cret"
}

var allRoles = []string{admin.RoleViewers, admin.RoleOperators, admin.RoleAdmins, admin.RoleInstances, admin.RoleGuards, admin.RoleSenders}

func roles() admin.Roles {
	given := admin.Roles{}
	for _, role := range allRoles {
		given[role] = []string{admin.DigestIdentity(role, "s3cret")}
	}
	given[admin.RoleInstances] = []string{admin.DigestIdentity("billing", "s3cret")}
	return given
}

// A group that runs gets roles, which are interrupted twice, without a tick lost. Then each role
// tries everything: ZooKeeper refuses all that the table does not allow.
func TestRolesOfARunningGroup(t *testing.T) {
	t.Parallel()
	const size, jobs = 3, 6
	c := newClusterAt(t, sharedServer.get(t), "", ourAuth)
	var names []string
	for k := range jobs {
		names = append(names, fmt.Sprintf("job-%d", k))
		c.submitJob(job.Job{Name: names[k], Schedule: everySecond, Handler: work, Misfire: job.MisfireAll, Overlap: job.OverlapQueue}, admin.SubmitOptions{})
	}
	c.submitJob(job.Job{Name: "sharded", Schedule: "@daily", Shards: 2, Handler: work}, admin.SubmitOptions{})
	c.submitJob(job.Job{Name: "waiting", Schedule: "@daily", Handler: "nobody"}, admin.SubmitOptions{})
	for range size {
		c.start(steady())
	}
	for _, name := range names {
		c.awaitRun(name, time.Time{})
	}
	from := time.Now()
	for nodes := 20; nodes <= 60; nodes += 40 { // ended after so many
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		ended := c.dial(admin.Config{Auth: ourAuth, OnRead: func(int) {
			if seen++; seen == nodes {
				cancel()
			}
		}})
		if done, err := ended.SetRoles(ctx, roles()); !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted after %d nodes: %+v, %v", nodes, done, err)
		}
		cancel()
	}
	done, err := c.admin.SetRoles(t.Context(), roles())
	c.must(err)
	t.Logf("%d nodes, %d changed by the last call", done.Nodes, done.Changed)
	to := time.Now().Add(5 * time.Second)
	for _, name := range names {
		c.awaitRun(name, to, func(r run) bool { return r.Tick.After(to) })
		seen := make(map[int64]bool)
		for _, r := range c.runs(name) {
			seen[r.Tick.Unix()] = true
		}
		past, err := c.admin.History(t.Context(), name)
		c.must(err)
		for tick := from.Unix() + 1; tick <= to.Unix(); tick++ {
			if !seen[tick] {
				t.Errorf("%s: the tick of %v was not run: %+v", name, time.Unix(tick, 0).Format(time.TimeOnly), past.Entries)
			}
		}
	}
	c.start(options{ID: "later"})
	c.eventually("the instance that comes later", func() error {
		live, err := c.admin.Instances(t.Context())
		if err == nil && len(live) != size+1 {
			err = fmt.Errorf("%d instances", len(live))
		}
		return err
	})
	for _, role := range allRoles {
		c.tryAll(role)
	}
	found, err := c.dial(admin.Config{Auth: roleAuth(admin.RoleViewers)}).CheckRoles(t.Context())
	if err != nil || len(found.Other) > 0 || !slices.Equal(found.Own, []string{admin.RoleViewers}) {
		t.Errorf("CheckRoles: %+v, %v; want no other lists", found, err)
	}
	wantDenied(t, "no credentials", c, "")
}

// tryAll has the user of a role try everything.
func (c *cluster) tryAll(role string) {
	c.t.Helper()
	ctx, raw := c.t.Context(), c.raw(roleAuth(role))
	client := c.dial(admin.Config{Auth: roleAuth(role)})
	reads := []string{admin.RoleViewers, admin.RoleOperators, admin.RoleAdmins, admin.RoleInstances, admin.RoleSenders}
	asks := []string{admin.RoleOperators, admin.RoleAdmins, admin.RoleInstances}
	changes, admins := []string{admin.RoleAdmins, admin.RoleInstances}, []string{admin.RoleAdmins}
	try := func(verb string, may []string, do func() error) {
		c.t.Helper()
		err := do()
		switch {
		case slices.Contains(may, role) && err != nil:
			c.t.Errorf("%s: %s: %v", role, verb, err)
		case !slices.Contains(may, role) && !errors.Is(err, admin.ErrDenied) && !errors.Is(err, zk.ErrNoAuth) && !errors.Is(err, admin.ErrCutOff):
			c.t.Errorf("%s: %s: %v, want %v", role, verb, err, admin.ErrDenied)
		}
	}
	prepare := func(_ any, err error) { c.must(err) } // so that there is something to undo
	try("list", reads, func() error { _, err := client.List(ctx); return err })
	try("history", reads, func() error { _, err := client.History(ctx, "job-0"); return err })
	try("log", reads, func() error { _, err := client.Log(ctx, admin.LogOptions{}); return err })
	try("pause", asks, func() error {
		_, err := client.Pause(ctx, "job-0", admin.PauseOptions{Reason: role})
		return err
	})
	prepare(c.admin.Pause(ctx, "job-0", admin.PauseOptions{}))
	try("resume", asks, func() error { _, err := client.Resume(ctx, "job-0", admin.ResumeOptions{}); return err })
	try("trigger", asks, func() error { _, err := client.Trigger(ctx, "job-1", admin.TriggerOptions{}); return err })
	try("trigger shards", asks, func() error { _, err := client.Trigger(ctx, "sharded", admin.TriggerOptions{}); return err })
	prepare(c.admin.Trigger(ctx, "waiting", admin.TriggerOptions{WaitForHandler: true}))
	try("requests cancel", asks, func() error { _, err := client.CancelRequests(ctx, "waiting", ""); return err })
	try("drain", asks, func() error {
		_, err := client.Drain(ctx, "later", admin.OrderOptions{Reason: role})
		return err
	})
	prepare(c.admin.Drain(ctx, "later", admin.OrderOptions{}))
	try("enable", asks, func() error { _, err := client.Enable(ctx, "later"); return err })
	try("disable a job on a host", asks, func() error {
		_, err := client.DisableAt(ctx, admin.Target{Host: "none", Job: "job-0"}, admin.OrderOptions{Reason: role})
		return err
	})
	try("set", changes, func() error {
		_, err := client.Edit(ctx, "job-0", func(j *job.Job) error { j.Args = map[string]string{"by": role}; return nil }, admin.EditOptions{})
		return err
	})
	try("submit and cancel", changes, func() error {
		_, err := client.Submit(ctx, job.Job{Name: "new", Schedule: "@daily"}, admin.SubmitOptions{})
		if err == nil {
			_, err = client.Cancel(ctx, "new")
		}
		return err
	})
	try("cancel", changes, func() error {
		_, err := client.Cancel(ctx, "sharded")
		if err == nil {
			c.submitJob(job.Job{Name: "sharded", Schedule: "@daily", Shards: 2, Handler: work}, admin.SubmitOptions{})
			c.eventually("the shards of "+role, func() error {
				_, err := c.admin.Trigger(ctx, "sharded", admin.TriggerOptions{})
				return err
			})
		}
		return err
	})
	try("acl init", admins, func() error {
		given := roles()
		given[admin.RoleViewers] = append(given[admin.RoleViewers], admin.DigestIdentity("another", role))
		_, err := client.SetRoles(ctx, given)
		if err == nil {
			_, err = client.SetRoles(ctx, roles())
		}
		return err
	})
	// Nodes by themselves, whatever a client would do.
	set := func(parts ...string) func() error {
		return func() error {
			path := c.node(parts...)
			data, stat, err := raw.Get(path)
			if errors.Is(err, zk.ErrNoAuth) {
				return err
			}
			c.must(err)
			_, err = raw.Set(path, data, stat.Version)
			return err
		}
	}
	remove := func(parts ...string) func() error {
		return func() error { return raw.Delete(c.node(parts...), 12345) } // of which ZooKeeper looks at the right first
	}
	refused := func(do func() error) func() error {
		return func() error {
			if err := do(); !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNotEmpty) {
				return err
			}
			return nil
		}
	}
	try("write roles", admins, set("_acl"))
	try("write a spec", changes, set("job-0"))
	try("write a tick", changes, refused(set("job-0", "tick")))
	try("delete a tick", changes, refused(remove("job-0", "tick")))
	try("delete a job", changes, refused(remove("job-0")))
	try("delete roles", changes, refused(remove("_acl")))
	try("write notices", []string{admin.RoleAdmins, admin.RoleSenders}, set("_notify"))
	try("write handlers", changes, set("_handlers"))
	try("delete a registration", []string{admin.RoleAdmins, admin.RoleInstances, admin.RoleGuards}, refused(remove("_instances", "later")))
	try("change an access list", admins, func() error {
		acl, _, err := raw.GetACL(c.node("job-0"))
		if errors.Is(err, zk.ErrNoAuth) {
			return err
		}
		c.must(err)
		_, err = raw.SetACL(c.node("job-0"), acl, -1)
		return err
	})
}
