package member_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// publish creates a list of handlers, and returns its path and hash.
func publish(g *roomtest.Group, names ...string) (path, hash string) {
	g.T.Helper()
	if err := g.Editor.EnsureRoot(g.T.Context(), g.Tree.Handlers()); err != nil {
		g.T.Fatal(err)
	}
	hash, data, _ := zkrec.EncodeHandlers(names, map[string]string{})
	g.Create(g.Tree.HandlerList(hash), string(data))
	return g.Tree.HandlerList(hash), hash
}

// An instance's record names its handlers, which are published before it.
func TestHandlersArePublishedWithTheRecord(t *testing.T) {
	t.Parallel()
	tooLong := strings.Repeat("x", 33*zkrec.MaxHandlersBytes) // too long to be compressed, too
	for what, test := range map[string]struct {
		handlers []string
		refuse   zkdev.Op
		want     bool
	}{
		"some":                  {[]string{"stats", "daily"}, 0, true},
		"none":                  {[]string{}, 0, true},
		"too many":              {[]string{tooLong}, 0, false},
		"they may not be added": {[]string{"daily"}, zkdev.OpCreate, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
					if first := r.Ops[0]; first.Op == test.refuse && strings.HasPrefix(first.Path, g.Tree.Handlers()) {
						return zkdev.Refuse(zkdev.NoAuth)
					}
					return zkdev.Pass()
				})
				for _, sid := range []string{"a", "b"} {
					if _, err := enter(g, member.Config{ID: sid, Handlers: test.handlers}, appear); err != nil {
						g.T.Fatal(err)
					}
					hash := record(g, sid).Handlers
					if (hash != "") != test.want {
						g.T.Fatalf("the record names the handlers %q, want that to be %v", hash, test.want)
					}
					if !test.want {
						continue
					}
					data, _, _ := g.Get(g.Tree.HandlerList(hash))
					if names, err := zkrec.ParseHandlers(hash, data); err != nil || len(names) != len(test.handlers) {
						g.T.Errorf("published %q, %v", names, err)
					}
				}
			})
		})
	}
}

// An instance's later records still name its handlers.
func TestHandlersStayPublished(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a := start(g, member.Config{ID: "a", Handlers: []string{"daily"}})
		was := record(g, "a").Handlers
		a.Do(a.Member.Leave)
		if r := record(g, "a"); r.State != zkrec.InstanceStopping || r.Handlers != was || was == "" {
			g.T.Errorf("record %+v, want the handlers %q", r, was)
		}
	})
}

// A member's record names the list of its handlers as it has become, or none if that cannot be
// published.
func TestHandlersChange(t *testing.T) {
	t.Parallel()
	tooLong := strings.Repeat("x", 33*zkrec.MaxHandlersBytes) // too long to be compressed, too
	for what, test := range map[string]struct {
		added  string
		refuse zkdev.Op // of what is done with the list
		want   bool
	}{
		"it is published":         {"added", 0, true},
		"it is too long":          {tooLong, 0, false},
		"it may not be created":   {"added", zkdev.OpCreate, false},
		"it may only be created":  {"added", zkdev.OpSetData, true},
		"it is there, of another": {"other", 0, true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				publish(g, "daily", "other")
				a := start(g, member.Config{ID: "a", Handlers: []string{"daily"}})
				g.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
					if first := r.Ops[0]; first.Op == test.refuse && strings.HasPrefix(first.Path, g.Tree.Handlers()) {
						return zkdev.Refuse(zkdev.NoAuth)
					}
					return zkdev.Pass()
				})
				names := []string{"daily", test.added}
				a.Do(func() {
					a.Entry.SetHandlers(names)
					a.Member.Publish()
				})
				hash := record(g, "a").Handlers
				want, _, _ := zkrec.EncodeHandlers(names, map[string]string{})
				if (hash != "") != test.want || test.want && hash != want {
					g.T.Fatalf("the record names the handlers %q, want %q: %v", hash, want, test.want)
				}
				if test.want {
					data, _, _ := g.Get(g.Tree.HandlerList(hash))
					if names, err := zkrec.ParseHandlers(hash, data); err != nil || len(names) != 2 {
						g.T.Errorf("published %q, %v", names, err)
					}
				}
				before := g.Server.Zxid()
				a.Do(a.Member.Publish)
				if g.Server.Zxid() != before {
					g.T.Error("what is published, or cannot be, was published again")
				}
			})
		})
	}
}

// A list that a member begins to name is not removed as old by an instance that has just looked.
func TestOldListThatIsNamedAgainStays(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		old, _ := publish(g, "daily", "old")
		roomtest.Pass(25 * time.Hour)
		a := start(g, member.Config{ID: "a", Handlers: []string{"daily"}})
		b, err := enter(g, member.Config{ID: "b", Handlers: []string{"daily"}}, appear)
		if err != nil {
			g.T.Fatal(err)
		}
		g.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action { // the removal comes late
			if slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool { return op.Path == old && op.Op == zkdev.OpDelete }) {
				return zkdev.Delay(time.Second)
			}
			return zkdev.Pass()
		})
		b.Do(b.Entry.Sweep)
		a.Do(func() {
			a.Entry.SetHandlers([]string{"daily", "old"})
			a.Member.Publish()
		})
		roomtest.Pass(2 * time.Second)
		g.WantNodes(true, old)
		if hash := record(g, "a").Handlers; g.Tree.HandlerList(hash) != old {
			g.T.Errorf("the record names %q, want %q", hash, old)
		}
	})
}

// Lists that no live instance names are removed when they are more than a day old.
func TestOldListsOfHandlersAreRemoved(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		old, _ := publish(g, "old")
		named, hash := publish(g, "named")
		mine, _ := publish(g, "mine")
		g.Multi(zkconn.CreateEphemeralOp(g.Tree.Instance("x"), zkrec.Instance{Incarnation: "x-1", Handlers: hash}.Encode()))
		sweep := func(sid string) {
			g.T.Helper()
			a, err := enter(g, member.Config{ID: sid, Handlers: []string{"mine"}}, appear)
			if err != nil {
				g.T.Fatal(err)
			}
			a.Do(a.Entry.Sweep)
		}
		roomtest.Pass(23 * time.Hour)
		recent, _ := publish(g, "recent")
		sweep("a")
		g.WantNodes(true, old, named, mine, recent)
		roomtest.Pass(2 * time.Hour)
		// An instance that joins while the lists are judged may name one.
		g.OnMulti(old, zkdev.Delay(time.Second))
		sweep("b")
		g.Multi(zkconn.SetOp(g.Tree.Instances(), nil, zkconn.AnyVersion))
		roomtest.Pass(2 * time.Second)
		g.WantNodes(true, old, named, mine, recent)
		sweep("c")
		g.WantNodes(true, named, mine, recent)
		g.WantNodes(false, old)
	})
}

// An instance that joins may rely on registrations that it found: they are not removed with a dead
// one's.
func TestRegistrationsStayWhenAnInstanceJoins(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		registration := g.Tree.Registration("job", "b")
		g.Create(registration, "")
		a := start(g, member.Config{ID: "a"})
		follow(a)
		jobs := []member.Traced{{Job: "job", Slots: []string{"job"}}}
		g.OnMulti(registration, zkdev.Delay(time.Second))
		a.Do(func() {
			a.Member.Cleanup.Registered([]string{"b"})
			a.Member.Cleanup.Tidy([]string{"b"}, jobs)
		})
		if _, err := enter(g, member.Config{ID: "b"}, appear); err != nil {
			g.T.Fatal(err)
		}
		roomtest.Pass(2 * time.Second)
		g.WantNodes(true, registration)
	})
}
