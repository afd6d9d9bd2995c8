package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/access"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/latch"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// as dials with the password "pw" of a user.
func (w *world) as(user string) *Client {
	w.Helper()
	c, err := Dial(w.Context(), Config{Servers: "zkdev:1", ServerType: "billing", Dial: w.server.Dial, Auth: user + ":pw"})
	w.must(err)
	w.Cleanup(c.Close)
	return c
}

// oneEach gives each role to the user with its name, instances to "app".
func oneEach() Roles {
	roles := Roles{}
	for _, role := range []string{RoleAdmins, RoleOperators, RoleViewers, RoleGuards, RoleSenders} {
		roles[role] = []string{DigestIdentity(role, "pw")}
	}
	roles[RoleInstances] = []string{DigestIdentity("app", "pw")}
	return roles
}

// closed makes a group that belongs to the user "app": jobs with and without shards, one of which
// is everywhere, and an instance, app-1.
func (w *world) closed() *Client {
	w.Helper()
	app := w.as("app")
	for _, j := range []job.Job{{Name: "job", Schedule: "@hourly"}, {Name: "sharded", Schedule: "@hourly", Shards: 2}, {Name: "gone", Schedule: "@hourly"}} {
		_, err := app.Submit(w.Context(), j, SubmitOptions{})
		w.must(err)
	}
	w.must(app.conn.EnsureRoot(w.Context(), app.tree.Instances()))
	ops := []zkconn.Op{zkconn.CreateEphemeralOp(app.tree.Instance("app-1"), zkrec.Instance{Incarnation: "app-1-1", State: InstanceActive}.Encode())}
	for shard := range 2 {
		for _, node := range app.tree.NewShard(zkrec.ShardSlot("sharded", shard), 0) {
			ops = append(ops, zkconn.CreateOp(node.Path, node.Data))
		}
	}
	_, err := app.conn.Multi(w.Context(), ops...)
	w.must(err)
	return app
}

func (w *world) wantEnforced(c *Client) {
	w.Helper()
	if found, err := c.CheckRoles(w.Context()); err != nil || len(found.Other) > 0 || found.Nodes < 100 {
		w.Errorf("CheckRoles: %+v, %v; want more than 100 nodes with the lists of the roles", found, err)
	}
}

// verbs are all verbs, each with the roles that may do it.
func verbs() []struct {
	name string
	may  []string
	do   func(ctx context.Context, c *Client) error
} {
	reads := []string{RoleViewers, RoleOperators, RoleAdmins, "app", RoleSenders}
	asks := []string{RoleOperators, RoleAdmins, "app"}
	changes := []string{RoleAdmins, "app"}
	waits := TriggerOptions{WaitForHandler: true}
	return []struct {
		name string
		may  []string
		do   func(ctx context.Context, c *Client) error
	}{
		{"list", reads, func(ctx context.Context, c *Client) error { _, err := c.List(ctx); return err }},
		{"history", reads, func(ctx context.Context, c *Client) error { _, err := c.History(ctx, "job"); return err }},
		{"log", reads, func(ctx context.Context, c *Client) error { _, err := c.Log(ctx, LogOptions{}); return err }},
		{"check roles", reads, func(ctx context.Context, c *Client) error { _, err := c.CheckRoles(ctx); return err }},
		{"pause", asks, func(ctx context.Context, c *Client) error {
			_, err := c.Pause(ctx, "job", PauseOptions{Reason: c.conn.Identity()})
			return err
		}},
		{"resume", asks, func(ctx context.Context, c *Client) error {
			_, err := c.Resume(ctx, "job", ResumeOptions{})
			if err == nil {
				_, err = c.Pause(ctx, "job", PauseOptions{})
			}
			return err
		}},
		{"pause shards", asks, func(ctx context.Context, c *Client) error {
			_, err := c.Pause(ctx, "sharded", PauseOptions{Reason: c.conn.Identity()})
			return err
		}},
		{"trigger", asks, func(ctx context.Context, c *Client) error { _, err := c.Trigger(ctx, "job", waits); return err }},
		{"trigger shards", asks, func(ctx context.Context, c *Client) error { _, err := c.Trigger(ctx, "sharded", waits); return err }},
		{"withdraw", asks, func(ctx context.Context, c *Client) error {
			_, err := c.CancelRequests(ctx, "sharded", "")
			if err == nil {
				_, err = c.Trigger(ctx, "sharded", waits)
			}
			return err
		}},
		{"drain", asks, func(ctx context.Context, c *Client) error {
			_, err := c.Drain(ctx, "app-1", OrderOptions{Reason: c.conn.Identity()})
			return err
		}},
		{"enable", asks, func(ctx context.Context, c *Client) error {
			_, err := c.Enable(ctx, "app-1")
			if err == nil {
				_, err = c.Drain(ctx, "app-1", OrderOptions{})
			}
			return err
		}},
		{"disable a host", asks, func(ctx context.Context, c *Client) error {
			_, err := c.DisableAt(ctx, Target{Host: "db8"}, OrderOptions{Reason: c.conn.Identity()})
			return err
		}},
		{"edit", changes, func(ctx context.Context, c *Client) error {
			_, err := c.Edit(ctx, "job", func(j *job.Job) error { j.Args = map[string]string{"by": c.conn.Identity()}; return nil }, EditOptions{})
			return err
		}},
		{"replace", changes, func(ctx context.Context, c *Client) error {
			j := job.Job{Name: "sharded", Schedule: "@hourly", Shards: 2, Args: map[string]string{"by": c.conn.Identity()}}
			_, err := c.Submit(ctx, j, SubmitOptions{Replace: true})
			return err
		}},
		{"submit and cancel", changes, func(ctx context.Context, c *Client) error {
			_, err := c.Submit(ctx, job.Job{Name: "new", Schedule: "@hourly"}, SubmitOptions{})
			if err == nil {
				_, err = c.Cancel(ctx, "new")
			}
			return err
		}},
		{"cancel", changes, func(ctx context.Context, c *Client) error {
			_, err := c.Cancel(ctx, "gone")
			if err == nil {
				_, err = c.Submit(ctx, job.Job{Name: "gone", Schedule: "@hourly"}, SubmitOptions{})
			}
			return err
		}},
		{"give roles", []string{RoleAdmins}, func(ctx context.Context, c *Client) error {
			roles := oneEach()
			roles[RoleViewers] = append(roles[RoleViewers], DigestIdentity("another", c.conn.Identity()))
			_, err := c.SetRoles(ctx, roles)
			return err
		}},
	}
}

// Each role does its verbs, and is refused the others. The refusal names the role that it takes.
func TestEachRoleTriesEverything(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		app := w.closed()
		_, err := app.SetRoles(w.Context(), oneEach())
		w.must(err)
		for _, user := range []string{RoleViewers, RoleOperators, RoleAdmins, "app", RoleSenders, RoleGuards, "stranger"} {
			c, err := Dial(w.Context(), Config{Servers: "zkdev:1", ServerType: "billing", Dial: w.server.Dial, Auth: user + ":pw"})
			if user == "stranger" {
				if !errors.Is(err, ErrDenied) {
					t.Errorf("a stranger dials: %v, want %v", err, ErrDenied)
				}
				continue
			}
			w.must(err)
			defer c.Close()
			for _, verb := range verbs() {
				err := verb.do(w.Context(), c)
				switch may := slices.Contains(verb.may, user); {
				case may && err != nil:
					t.Errorf("%s: %s: %v", user, verb.name, err)
				case may:
				case user != "app" && errors.Is(err, ErrCutOff): // only an admin or an instance gives roles
				case !errors.Is(err, ErrDenied):
					t.Errorf("%s: %s: %v, want %v", user, verb.name, err, ErrDenied)
				case user == RoleGuards: // first it is refused to read
				default:
					if needed := NeededRole("billing", err); needed != verb.may[0] {
						t.Errorf("%s: %s: %v: needs role %q, want %q", user, verb.name, err, needed, verb.may[0])
					}
				}
			}
		}
		w.wantEnforced(app)
	})
}

// A guard removes an instance's registration, and a sender writes its notes: nobody else of
// those who may only read.
func TestGuardsAndSenders(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		app := w.closed()
		_, err := app.SetRoles(w.Context(), oneEach())
		w.must(err)
		for _, user := range []string{RoleViewers, RoleOperators, RoleSenders, RoleGuards} {
			c := w.as(user)
			_, err := c.conn.Multi(w.Context(), zkconn.CreateOp(c.tree.Notices()+"/0", nil), zkconn.DeleteOp(c.tree.Notices()+"/0", 0))
			if (err == nil) != (user == RoleSenders) {
				t.Errorf("%s writes notices: %v", user, err)
			}
			_, parent, err := c.conn.Children(w.Context(), c.tree.Instances())
			w.must(err)
			_, err = c.conn.Multi(w.Context(), zkconn.CheckOp(c.tree.Instances(), parent.Version), zkconn.DeleteOp(c.tree.Instance("app-1"), 0))
			if (err == nil) != (user == RoleGuards) {
				t.Errorf("%s removes a registration: %v", user, err)
			}
		}
	})
}

// The election of the sender is the sender's, and its nodes have the lists of the roles, too.
func TestElectionOfTheSender(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		app := w.closed()
		_, err := app.SetRoles(w.Context(), oneEach())
		w.must(err)
		leads := func(user string) error {
			l, err := latch.New(latch.Config{Servers: "zkdev:1", Path: app.tree.Notices() + "/leader", Auth: user + ":pw", Dial: w.server.Dial})
			w.must(err)
			ctx := zkconn.WithPrepare(w.Context(), func(ctx context.Context, conn *zkconn.Conn) error {
				_, err := access.Follow(ctx, conn, app.tree)
				return err
			})
			return l.Lead(ctx, func(context.Context) error {
				w.wantEnforced(app)
				return errLed
			})
		}
		if err := leads(RoleSenders); !errors.Is(err, errLed) {
			t.Errorf("a sender: %v, want %v", err, errLed)
		}
		for _, user := range []string{RoleOperators, "stranger"} {
			if err := leads(user); !errors.Is(err, latch.ErrAccessDenied) {
				t.Errorf("%s: %v, want %v", user, err, latch.ErrAccessDenied)
			}
		}
	})
}

var errLed = errors.New("led")

// SetRoles can be ended after each change, and the same call completes it. Another one changes
// nothing. Clear leaves no roles.
func TestSetRolesIsCompleted(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		app := w.closed()
		if _, err := app.Roles(w.Context()); !errors.Is(err, ErrNoRoles) {
			t.Errorf("Roles: %v, want %v", err, ErrNoRoles)
		}
		for ends := 1; ; ends += 40 {
			ctx, cancel := context.WithCancel(w.Context())
			n := 0
			remove := w.server.ControlKeep(zkdev.OpSetACL, func(*zkdev.Request) zkdev.Action {
				if n++; n == ends {
					cancel()
				}
				return zkdev.Pass()
			})
			done, err := app.SetRoles(ctx, oneEach())
			cancel()
			remove()
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) || done.Changed > ends {
				t.Fatalf("ended after %d: %+v, %v", ends, done, err)
			}
		}
		admin := w.as(RoleAdmins)
		w.wantEnforced(admin)
		done, err := app.SetRoles(w.Context(), oneEach())
		if err != nil || done.Changed > 0 || done.Nodes < 100 {
			t.Errorf("once more: %+v, %v; want no change", done, err)
		}
		roles, err := admin.Roles(w.Context())
		if err != nil || !maps.EqualFunc(roles, oneEach(), slices.Equal) {
			t.Errorf("Roles: %v, %v; want %v", roles, err, oneEach())
		}
		if got := w.entriesOf(admin, "acl"); got != 1 {
			t.Errorf("%d entries in the log, want one", got)
		}

		app.Close() // and with it the instance
		cleared, err := admin.Clear(w.Context(), ClearOptions{Jobs: 3})
		if err != nil || len(cleared.Left) > 0 || w.exists() {
			t.Errorf("Clear: %+v, %v; want nothing left", cleared, err)
		}
	})
}

// entriesOf counts a client's entries of the log that have that kind.
func (w *world) entriesOf(c *Client, kind string) (n int) {
	w.Helper()
	entries, err := c.Log(w.Context(), LogOptions{})
	w.must(err)
	for _, e := range entries {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// What would cut off the caller or an instance that runs, and what cannot be enforced, is refused
// before anything is written.
func TestSetRolesRefused(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		app := w.closed()
		with := func(role string, identities ...string) Roles {
			roles := oneEach()
			roles[role] = identities
			return roles
		}
		me := DigestIdentity("app", "pw")
		for what, test := range map[string]struct {
			roles Roles
			want  string
		}{
			"an instance": {Roles{RoleAdmins: {me}, RoleInstances: {DigestIdentity("new", "pw")}}, "set roles: would be cut off: app-1, which connects with no identity of the instances"},
			"the caller":  {with(RoleInstances, DigestIdentity("new", "pw")), "set roles: would be cut off: this client, whose identity (digest:app:"},
			"no admin":    {with(RoleAdmins), `Roles "admins": needs an identity`},
			"a role":      {with("owners", me), `Roles "owners": is no role: want one of viewers, operators, admins, instances, guards, senders`},
			"no hash":     {with(RoleViewers, "digest:a:secret"), `Roles "viewers": identity digest:a:secret: is not digest:USER:HASH`},
			"everybody":   {with(RoleOperators, "world:anyone"), `may only be world:anyone, and only among the viewers`},
			"an address":  {with(RoleViewers, "ip:10.1"), "is not an address, or a range of addresses"},
			"no name":     {with(RoleViewers, "x509:"), "has no name"},
			"a scheme":    {with(RoleViewers, "auth:"), `scheme "auth" is not digest`},
		} {
			_, err := app.SetRoles(w.Context(), test.roles)
			if err == nil || !strings.Contains(err.Error(), test.want) || !errors.Is(err, ErrCutOff) && !errors.As(err, new(*invalid.FieldError)) {
				t.Errorf("%s: %v, want %s", what, err, test.want)
			}
		}
		if _, err := app.CheckRoles(w.Context()); !errors.Is(err, ErrNoRoles) {
			t.Errorf("CheckRoles: %v, want %v", err, ErrNoRoles)
		}
	})
}

// A node with another list is found, with the hashes hidden, and mended. Nodes that a program goes
// on to create with another one are an error in the end.
func TestCheckRoles(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		app := w.closed()
		_, err := app.SetRoles(w.Context(), oneEach())
		w.must(err)
		admin, path := w.as(RoleAdmins), app.tree.Tick("job")
		me := DigestIdentity(RoleAdmins, "pw")
		w.must(admin.conn.SetACL(w.Context(), path, []zkconn.Grant{{Who: me, Perms: zkconn.ParsePerms("cdrwa")}, {Who: "world:anyone", Perms: zkconn.ParsePerms("rw")}}))
		found, err := admin.CheckRoles(w.Context())
		if err != nil || len(found.Other) != 1 || fmt.Sprint(found.Own) != "[admins]" {
			t.Fatalf("CheckRoles: %+v, %v; want one node, by an admin", found, err)
		}
		other := found.Other[0]
		if got := fmt.Sprint(other.Path, other.Has); got != path+"["+Hidden(me)+" cdrwa world:anyone rw]" || strings.Contains(got, me) {
			t.Errorf("found %s", got)
		}
		done, err := admin.SetRoles(w.Context(), oneEach())
		if err != nil || done.Changed != 1 {
			t.Errorf("SetRoles: %+v, %v; want one change", done, err)
		}
		another := w.as(RoleAdmins)
		admin.heard = func(int) {
			w.must(another.conn.SetACL(w.Context(), path, []zkconn.Grant{{Who: me, Perms: zkconn.ParsePerms("cdrwa")}}))
		}
		admin.heard(0)
		if _, err := admin.SetRoles(w.Context(), oneEach()); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), path) {
			t.Errorf("SetRoles while a node gets another list again and again: %v, want %v that names it", err, ErrConflict)
		}
	})
}
