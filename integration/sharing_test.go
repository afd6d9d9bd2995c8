package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
)

func TestJobWithoutHandler(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	c.start(options{})
	c.submit("job", "translate")
	check := func() error {
		status := c.get("job")
		if status.State != admin.StateUnowned || status.Owner != nil || !strings.Contains(status.Reason.String(), `"translate"`) {
			return fmt.Errorf("%+v", status)
		}
		return nil
	}
	c.must(check())
	ctx, cancel := contextFor(t, 2*time.Second)
	defer cancel()
	if _, err := c.admin.AwaitOwner(ctx, "job"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"translate"`) {
		t.Errorf("await owner: %v, want the end of its context, and why", err)
	}
	c.throughout(2*syncPeriod, "unowned, with the reason", check)

	c.start(options{Handle: map[string]singleworker.Handler{"translate": handlers()[work]}})
	c.awaitRun("job", time.Time{})
}

func TestHandlerOnSomeInstances(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	able := []*instance{c.start(options{ID: "able-1"}), c.start(options{ID: "able-2"})}
	c.start(options{ID: "unable", Handlers: []string{fails}})
	names := c.submitAll(4, "job")
	c.submit("other", fails)
	c.eventually("each instance has a share of what it can run", func() error {
		owner, counts, err := c.owners()
		if err == nil && (len(owner) != 5 || owner["other"] != "unable" || counts["able-1"] != 2) {
			err = fmt.Errorf("owned by %v", owner)
		}
		return err
	})
	for _, name := range names {
		c.awaitRun(name, time.Time{})
		if registered := strings.Join(c.get(name).Registered, " "); registered != "able-1 able-2" {
			t.Errorf("%s: registered %q", name, registered)
		}
	}
	for _, i := range able {
		c.must(c.stop(i))
	}
	c.eventually("what nobody else can run is unowned", func() error {
		for _, name := range names {
			if status := c.get(name); status.State != admin.StateUnowned || !strings.Contains(status.Reason.String(), work) {
				return fmt.Errorf("%+v", status)
			}
		}
		return nil
	})
	for _, r := range c.runs("") {
		if r.SID == "unable" && r.Job != "other" {
			t.Errorf("ran on an instance without the handler: %v", r)
		}
	}
}

func TestMaxSlotsIsHardLimit(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	two := steady()
	two.MaxSlots = 2
	c.start(two)
	c.start(two)
	c.submitAll(5, "job")
	full := func() error {
		owner, counts, err := c.owners()
		if err == nil && (len(owner) != 4 || counts["a"] != 2 || counts["b"] != 2) {
			err = fmt.Errorf("%d jobs are owned, by %v", len(owner), counts)
		}
		return err
	}
	c.eventually("two jobs each", full)
	c.throughout(4*syncPeriod, "two jobs each", full)
	c.start(options{})
	c.eventually("the fifth job has an owner", func() error {
		owner, _, err := c.owners()
		if err == nil && len(owner) != 5 {
			err = fmt.Errorf("owned by %v", owner)
		}
		return err
	})
}

// Someone manually deletes nodes of running instances.
func TestNodesDeletedManually(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	raw := c.raw("")
	c.start(options{})
	c.start(options{})
	names := c.submitAll(3, "job")
	c.awaitEven(len(names), 2)
	const job = "job-001"
	owner := func() string { return c.awaitRun(job, time.Now()).SID }

	for _, hand := range []struct {
		what string
		do   func(sid string) error
	}{
		{"heartbeat", func(sid string) error { return remove(raw, c.node(job, "alive", sid)) }},
		{"alive", func(sid string) error {
			return errors.Join(remove(raw, c.node(job, "alive", sid)), remove(raw, c.node(job, "alive")))
		}},
		{"owner record", func(string) error { _, err := raw.Set(c.node(job, "alive"), nil, -1); return err }},
		{"owner record by garbage", func(string) error {
			_, err := raw.Set(c.node(job, "alive"), []byte("\x00{"), -1)
			return err
		}},
		{"tick", func(string) error { return remove(raw, c.node(job, "tick")) }},
		{"tick by garbage, and repaired", func(string) error {
			_, err := raw.Set(c.node(job, "tick"), []byte("?"), -1)
			if err != nil {
				return err
			}
			nodes, err := c.admin.Unreadable(t.Context(), job)
			if err == nil && len(nodes) != 1 {
				err = fmt.Errorf("unreadable: %v", nodes)
			}
			return errors.Join(err, c.admin.Repair(t.Context(), job, nodes))
		}},
		{"registration", func(sid string) error { return remove(raw, c.node(job, "register", sid)) }},
		{"register", func(string) error {
			for _, sid := range []string{"a", "b"} {
				if err := remove(raw, c.node(job, "register", sid)); err != nil {
					return err
				}
			}
			return remove(raw, c.node(job, "register"))
		}},
		{"instance", func(sid string) error { return remove(raw, c.node("_instances", sid)) }},
		{"everything", func(string) error {
			if err := removeAll(raw, c.node(job)); err == nil {
				return nil
			}
			return c.removeAtOnce(raw, c.node(job)) // on a busy machine, instances create nodes again faster than they are deleted
		}},
	} {
		sid := owner()
		at := time.Now()
		if hand.what == "instance" {
			c.ledger.add(entry{Event: expelled, SID: sid})
		}
		c.eventually(hand.what+" is gone", func() error { return hand.do(sid) })
		if hand.what == "everything" {
			c.submit(job, work)
		}
		next := c.awaitRun(job, at)
		c.awaitEven(len(names), 2)
		next = c.awaitRun(job, next.At)
		t.Logf("%s: job continues after %v", hand.what, next.At.Sub(at).Round(time.Millisecond))
		c.eventually("both instances are registered", func() error {
			if registered := c.get(job).Registered; len(registered) != 2 {
				return fmt.Errorf("only %q", registered)
			}
			return nil
		})
	}
}

// remove deletes a node if it exists.
func remove(conn *zk.Conn, path string) error {
	err := conn.Delete(path, -1)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// removeAtOnce deletes a node and its descendants in one transaction.
func (c *cluster) removeAtOnce(conn *zk.Conn, path string) error {
	c.t.Helper()
	var ops []any
	for _, node := range slices.Backward(c.tree(conn, path)) {
		ops = append(ops, &zk.DeleteRequest{Path: node, Version: -1})
	}
	_, err := conn.Multi(ops...)
	return err
}

// removeAll deletes a node and its descendants one by one, like ZooKeeper's shell.
func removeAll(conn *zk.Conn, path string) error {
	children, _, err := conn.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	for _, child := range children {
		err = errors.Join(err, removeAll(conn, path+"/"+child))
	}
	return errors.Join(err, remove(conn, path))
}
