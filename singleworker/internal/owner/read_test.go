package owner

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A reading of a slot, its record and the heartbeats, shows it as it was at one moment, also if the
// slot changes in between, and has the heartbeats of all.
func TestReadingIsOfOneMoment(t *testing.T) {
	t.Parallel()
	tree := zkrec.NewTree("group")
	alive := tree.Alive("job")
	set := func(owner string) zkconn.Op {
		record := zkrec.Owner{SID: owner, Incarnation: owner + "-1"}
		return zkconn.SetOp(alive, record.Encode(), zkconn.AnyVersion)
	}
	add := func(sid string) zkconn.Op { return zkconn.CreateOp(tree.Heartbeat("job", sid), nil) }
	remove := func(sid string) zkconn.Op {
		return zkconn.DeleteOp(tree.Heartbeat("job", sid), zkconn.AnyVersion)
	}
	for what, test := range map[string]struct {
		before, between []zkconn.Op // between: after the record was read
		owner           string
		beats           []string
	}{
		"nothing changes":                      {[]zkconn.Op{set("b"), add("b")}, nil, "b", []string{"b"}},
		"another heartbeat beside the owner's": {[]zkconn.Op{set("b"), add("b"), add("x")}, nil, "b", []string{"b", "x"}},
		"the slot passes to another instance": {
			[]zkconn.Op{set("b"), add("b")}, []zkconn.Op{set("c"), remove("b"), add("c")},
			"c", []string{"c"},
		},
		"it is released and taken again by the same": {
			[]zkconn.Op{set("b"), add("b")}, []zkconn.Op{set(""), remove("b"), set("b"), add("b")},
			"b", []string{"b"},
		},
		"it is taken beside the heartbeat of another": {
			[]zkconn.Op{add("x")}, []zkconn.Op{set("c"), add("c")},
			"c", []string{"c", "x"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := zkdev.Start(t, zkdev.Config{NoListen: true})
				editor, conn := open(t, server.Client("editor").Dial), open(t, server.Client("a").Dial)
				if err := editor.EnsureRoot(t.Context(), alive); err != nil {
					t.Fatal(err)
				}
				change := func(ops []zkconn.Op) {
					if _, err := editor.Multi(t.Context(), ops...); err != nil {
						t.Fatal(err)
					}
				}
				change(test.before)
				if test.between != nil {
					requests := 0
					server.ControlKeep(zkdev.OpMultiRead, func(*zkdev.Request) zkdev.Action {
						if requests++; requests == 2 {
							return zkdev.Delay(time.Second)
						}
						return zkdev.Pass()
					})
					time.AfterFunc(500*time.Millisecond, func() { change(test.between) })
				}
				slots := slotReader{&session.Loop{Conn: conn, Tree: tree, Log: slog.New(slog.DiscardHandler)}, new(lives)}
				r := &reading{slot: "job"}
				if slots.fetch(t.Context(), []*reading{r}); r.err != nil {
					t.Fatal(r.err)
				}
				rec := r.rec
				_, stat, err := editor.Get(t.Context(), alive)
				if err != nil || rec.Owner.SID != test.owner || rec.Version != stat.Version || rec.Mzxid != stat.Mzxid {
					t.Errorf("read %+v, want it to be %s's, as it is in the end: %+v, %v", rec, test.owner, stat, err)
				}
				var beats []string
				for _, b := range rec.Beats {
					beats = append(beats, b.SID)
				}
				if slices.Sort(beats); !slices.Equal(beats, test.beats) {
					t.Errorf("heartbeats of %q, want %q", beats, test.beats)
				}
			})
		})
	}
}

func open(t *testing.T, dial func(ctx context.Context, network, address string) (net.Conn, error)) *zkconn.Conn {
	t.Helper()
	conn, err := zkconn.Open(zkconn.Config{
		Servers: "zk1", SessionTimeout: 4 * time.Second, Dial: dial, Logger: slog.New(slog.DiscardHandler),
	}, func(zkconn.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// A reading after a server has lagged behind waits until it has caught up, once for all slots.
func TestReadingAfterALag(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := zkdev.Start(t, zkdev.Config{NoListen: true})
		conn := open(t, server.Client("a").Dial)
		synctest.Wait()
		var ops []zkdev.Op
		server.ControlKeep(zkdev.OpAny, func(r *zkdev.Request) zkdev.Action {
			ops = append(ops, r.Op)
			return zkdev.Pass()
		})
		slots := slotReader{&session.Loop{Conn: conn, Tree: zkrec.NewTree("group"), Log: slog.New(slog.DiscardHandler)}, new(lives)}
		read := []*reading{{slot: "a"}, {slot: "b", sync: true}, {slot: "c", sync: true}}
		slots.fetch(t.Context(), read)
		if want := []zkdev.Op{zkdev.OpSync, zkdev.OpSetWatches, zkdev.OpMultiRead}; !slices.Equal(ops, want) {
			t.Errorf("the server is asked for %v, want %v", ops, want)
		}
		server.Control(zkdev.OpSync, func(*zkdev.Request) zkdev.Action { return zkdev.CutBefore() })
		read = []*reading{{slot: "a"}, {slot: "b", sync: true}}
		slots.fetch(t.Context(), read)
		for _, r := range read {
			if !zkconn.IsUnknown(r.err) {
				t.Errorf("%s is read with %v although the server has not caught up", r.slot, r.err)
			}
		}
	})
}
