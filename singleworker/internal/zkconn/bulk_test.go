package zkconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// seen collects the paths of the nodes that have changed.
type seen struct {
	mu    sync.Mutex
	paths []string
	lost  int // connections
}

func (s *seen) event(ev Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch ev.Kind {
	case NodeChanged:
		s.paths = append(s.paths, ev.Path)
	case Disconnected:
		s.lost++
	case Connected, Expired:
	}
}

// want waits until everything rests and compares the events since the last call.
func (s *seen) want(t *testing.T, paths ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.paths)
	if !slices.Equal(s.paths, paths) {
		t.Errorf("changed nodes: %q, want %q", s.paths, paths)
	}
	s.paths = nil
}

// change changes nodes by another client.
func (s *server) change(t *testing.T, ops ...Op) {
	t.Helper()
	if _, err := s.hand.Multi(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
}

func data(path string) Read     { return Read{Path: path, Watch: true} }
func children(path string) Read { return Read{Path: path, Children: true, Watch: true} }

// text describes results.
func text(results []ReadResult) string {
	var all []string
	for _, r := range results {
		slices.Sort(r.Names)
		switch {
		case r.Err != nil:
			all = append(all, r.Err.Error())
		case r.Names != nil:
			all = append(all, fmt.Sprint(r.Names))
		default:
			all = append(all, fmt.Sprintf("%s v%d", r.Data, r.Stat.Version))
		}
	}
	return strings.Join(all, "; ")
}

func wantResults(t *testing.T, got []ReadResult, want string) {
	t.Helper()
	if text := text(got); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestReadMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/app", "", 0)
		s.have(t, "/app/a", "one", 2)
		s.have(t, "/app/b", "two", 0)
		s.have(t, "/app/b/x", "", 0)
		s.have(t, "/app/b/y", "", 0)
		s.have(t, "/app/secret", "three", 0)
		s.protect(t, "/app/secret", zk.DigestACL(zk.PermAll, "somebody", "else")...)
		var seen seen
		conn := s.open(t, Config{Servers: "zk1/app"}, seen.event)
		synctest.Wait() // until it is connected: watches of an earlier connection are set again
		reads := []Read{
			data("/b"), children("/b"), data("/none"), data("/secret"), data("/a"), children("/a"), children("/none"), {Path: "/b"},
		}
		const want = "two v0; [x y]; zookeeper get /none: no such node; zookeeper get /secret: access denied by the node's ACL; " +
			"one v2; []; zookeeper children /none: no such node; two v0"
		for range 2 {
			wantResults(t, conn.ReadMany(t.Context(), reads), want)
		}
		s.wantRequests(t, "setWatches ", "multiRead ", "setWatches ", "multiRead ")
		for i, paths := range [][]string{
			{"/app/b", "/app/none", "/app/secret", "/app/a", "/app/b", "/app/a", "/app/none"},
			{"/app/none", "/app/secret", "/app/none"}, // the others are watched
		} {
			var got []string
			for _, op := range s.requests()[2*i].Ops {
				got = append(got, op.Path)
			}
			if !slices.Equal(got, paths) {
				t.Errorf("watches set: %q, want %q", got, paths)
			}
		}
		seen.want(t)
		_, stat, err := s.hand.Get(t.Context(), "/app/b")
		if got := conn.ReadMany(t.Context(), []Read{{Path: "/b"}})[0].Stat; got != stat || err != nil || stat.NumChildren != 2 || stat.Czxid == 0 {
			t.Errorf("the Stat is %+v, want %+v, %v", got, stat, err)
		}
		s.change(t, SetOp("/app/a", nil, AnyVersion), CreateOp("/app/b/z", nil), DeleteOp("/app/b/x", 0), SetOp("/app/b", nil, AnyVersion),
			SetOp("/app/a", nil, AnyVersion), CreateOp("/app/none", nil), CreateOp("/app/a/1", nil))
		seen.want(t, "/a", "/a", "/b", "/b")
		if got := conn.ReadMany(t.Context(), nil); len(got) > 0 {
			t.Errorf("nothing was asked for: %v", got)
		}
	})
}

// Many reads go in few requests, and a watched node reports each change once.
func TestReadManyInFewRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		const n = 1000
		var ops, sets []Op
		var reads []Read
		var paths []string
		for i := range n {
			path := fmt.Sprintf("/%0*d", 1+i%300, i)
			ops = append(ops, CreateOp(path, []byte(path)))
			sets = append(sets, SetOp(path, nil, AnyVersion))
			reads, paths = append(reads, data(path)), append(paths, path)
		}
		s.change(t, ops...)
		var seen seen
		conn := s.open(t, Config{}, seen.event)
		for i, r := range conn.ReadMany(t.Context(), reads) {
			if string(r.Data) != reads[i].Path || r.Err != nil {
				t.Fatalf("reading %d of %s: %q, %v", i, reads[i].Path, r.Data, r.Err)
			}
		}
		if got := len(s.requests()); got != 8 {
			t.Errorf("%d requests for %d nodes: %q; want 8", got, n, named(s.requests()))
		}
		s.change(t, sets...)
		s.change(t, sets...)
		slices.Sort(paths)
		seen.want(t, paths...)
	})
}

// A change between the watch and the reading is reported. So is the deletion of a node that was
// there again when it was read, and is not watched.
func TestReadManyDuringChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		for _, path := range []string{"/a", "/b", "/c"} {
			s.have(t, path, "old", 0)
		}
		var seen seen
		conn := s.open(t, Config{}, seen.event)
		s.Control(zkdev.OpMultiRead, func(*zkdev.Request) zkdev.Action { return zkdev.Delay(time.Second) })
		answer := make(chan []ReadResult, 1)
		go func() {
			answer <- conn.ReadMany(t.Context(), []Read{data("/a"), data("/b"), data("/c"), data("/d"), data("/e")})
		}()
		synctest.Wait()
		s.change(t, SetOp("/a", []byte("new"), AnyVersion), DeleteOp("/b", AnyVersion), CreateOp("/d", []byte("new")))
		got := <-answer
		wantResults(t, got, "new v1; zookeeper get /b: no such node; old v0; new v0; zookeeper get /e: no such node")
		seen.want(t, "/a", "/b", "/d")
		s.change(t, SetOp("/d", nil, AnyVersion))
		seen.want(t)
		conn.ReadMany(t.Context(), []Read{data("/d")})
		s.change(t, SetOp("/d", nil, AnyVersion), SetOp("/c", nil, AnyVersion))
		seen.want(t, "/c", "/d")
	})
}

// The deletion of a node that somebody else watches, too, is always reported.
func TestReadManyHidesNothingFromOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/a", "", 0)
		var seen seen
		conn := s.open(t, Config{}, seen.event)
		if _, _, err := conn.ChildrenW(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		s.Control(zkdev.OpSetWatches, func(*zkdev.Request) zkdev.Action { return zkdev.Delay(time.Second) })
		answer := make(chan []ReadResult, 1)
		go func() { answer <- conn.ReadMany(t.Context(), []Read{data("/a")}) }()
		synctest.Wait()
		s.change(t, DeleteOp("/a", AnyVersion))
		wantResults(t, <-answer, "zookeeper get /a: no such node")
		synctest.Wait()
		if !slices.Contains(seen.paths, "/a") {
			t.Error("the deletion of /a was not reported")
		}
	})
}

// A watch that somebody else has set in another way does not take the place of one: the library's
// are set again some time after the next connection was made, and a bulk request's watches are not.
// A change is reported once.
func TestReadManyAndGetWWatchTheSameNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/a", "", 0)
		var seen seen
		conn := s.open(t, Config{}, seen.event)
		getW := func() {
			t.Helper()
			if _, _, err := conn.GetW(t.Context(), "/a"); err != nil {
				t.Error(err)
			}
		}
		getW()
		conn.ReadMany(t.Context(), []Read{data("/a")})
		s.change(t, SetOp("/a", nil, AnyVersion))
		seen.want(t, "/a")
		conn.ReadMany(t.Context(), []Read{data("/a")})
		getW()
		s.change(t, SetOp("/a", nil, AnyVersion))
		seen.want(t, "/a")
		s.wantRequests(t, "getData /a and watch", "setWatches ", "multiRead ", "setWatches ", "multiRead ", "getData /a and watch")
	})
}

// Watches that the library does not know end with the connection.
func TestBulkWatchesEndWithTheConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/a", "", 0)
		var seen seen
		conn := s.open(t, Config{}, seen.event)
		conn.ReadMany(t.Context(), []Read{data("/a")})
		s.Disconnect(conn.SessionID())
		time.Sleep(time.Minute) // reconnects
		s.change(t, SetOp("/a", nil, AnyVersion))
		seen.want(t)
		conn.ReadMany(t.Context(), []Read{data("/a")})
		s.change(t, SetOp("/a", nil, AnyVersion))
		seen.want(t, "/a")
		s.wantRequests(t, "setWatches ", "multiRead ", "setWatches ", "multiRead ")
	})
}

// A bulk request that is lost, refused or unclear fails every read, and its watches are set again
// by the next one.
func TestReadManyFails(t *testing.T) {
	t.Parallel()
	for what, control := range map[string]struct {
		op     zkdev.Op
		action zkdev.Action
		want   error
	}{
		"the connection is lost":         {zkdev.OpMultiRead, zkdev.CutAfter(), ErrLost},
		"the connection is lost between": {zkdev.OpSetWatches, zkdev.CutAfter(), ErrLost},
		"the watches are refused":        {zkdev.OpSetWatches, zkdev.Refuse(zkdev.OperationTimeout), ErrUnclear},
		"the reads are refused":          {zkdev.OpMultiRead, zkdev.Refuse(zkdev.OperationTimeout), ErrUnclear},
		"nothing is answered":            {zkdev.OpMultiRead, zkdev.Delay(time.Hour), context.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t)
			s.have(t, "/a", "", 0)
			var seen seen
			conn := s.open(t, Config{}, seen.event)
			s.Control(control.op, func(*zkdev.Request) zkdev.Action { return control.action })
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			for _, r := range conn.ReadMany(ctx, []Read{data("/a"), data("/b")}) {
				if !errors.Is(r.Err, control.want) || !IsUnknown(r.Err) {
					t.Errorf("%s: %v, want %v", what, r.Err, control.want)
				}
			}
			if !errors.Is(control.want, ErrUnclear) { // a refusal leaves the connection, and no watch that counts
				s.Disconnect(conn.SessionID())
			}
			time.Sleep(time.Minute)
			seen.want(t)
			wantResults(t, conn.ReadMany(t.Context(), []Read{data("/a"), data("/b")}), " v0; zookeeper get /b: no such node")
			if got := named(s.requests()); !slices.Equal(got[len(got)-2:], []string{"setWatches ", "multiRead "}) {
				t.Errorf("%s: requests %q, want that the watches are set again", what, got)
			}
			s.change(t, SetOp("/a", nil, AnyVersion), CreateOp("/b", nil))
			seen.want(t, "/a")
		})
	}
}

// The parts of a bulk request meet the development server's controls like separate readings.
func TestPartsOfReadManyAreControlled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/a", "one", 0)
		s.have(t, "/b", "two", 0)
		conn := s.open(t, Config{}, func(Event) {})
		refuse := func(r *zkdev.Request) zkdev.Action {
			if r.Path == "/a" {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		}
		for op, want := range map[zkdev.Op]string{
			zkdev.OpGetData:      "zookeeper get /a: access denied by the node's ACL; []; two v0",
			zkdev.OpGetChildren2: "one v0; zookeeper children /a: access denied by the node's ACL; two v0",
		} {
			remove := s.ControlKeep(op, refuse)
			wantResults(t, conn.ReadMany(t.Context(), []Read{data("/a"), children("/a"), data("/b")}), want)
			remove()
		}
		s.Control(zkdev.OpGetData, func(*zkdev.Request) zkdev.Action { return zkdev.Delay(time.Second) })
		start := time.Now()
		wantResults(t, conn.ReadMany(t.Context(), []Read{data("/a"), data("/b")}), "one v0; two v0")
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v, want the delay of one part, a second", took)
		}
	})
}

// A reply that is too long is not read, and its reads are made in smaller requests.
func TestReadManyLongReplies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		var seen seen
		conn := s.open(t, Config{}, seen.event)
		const n, size = 20, 900 << 10
		var reads []Read
		for i := range n {
			path := fmt.Sprintf("/%d", i)
			s.have(t, path, strings.Repeat("x", size), 0)
			reads = append(reads, data(path))
		}
		for i, r := range conn.ReadMany(t.Context(), reads) {
			if len(r.Data) != size || r.Err != nil {
				t.Errorf("reading %d: %d bytes, %v; want %d", i, len(r.Data), r.Err, size)
			}
		}
		if seen.lost > 0 {
			t.Errorf("the connection was lost %d times", seen.lost)
		}
	})
}

// A server that does not know bulk requests is asked once. From then on it is asked node by node,
// with a bounded number of requests under way.
func TestReadManyFromAnOldServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/a", "one", 0)
		var seen seen
		conn := s.open(t, Config{}, seen.event)
		s.Control(zkdev.OpMultiRead, func(*zkdev.Request) zkdev.Action { return zkdev.Refuse(zkdev.Unimplemented) })
		const want = "one v0; zookeeper get /b: no such node; []"
		reads := []Read{data("/a"), data("/b"), children("/a")}
		wantResults(t, conn.ReadMany(t.Context(), reads), want)
		wantResults(t, conn.ReadMany(t.Context(), reads), want)
		s.change(t, SetOp("/a", nil, AnyVersion))
		seen.want(t, "/a")
		got := named(s.requests())
		if n := len(slices.DeleteFunc(slices.Clone(got), func(name string) bool { return name != "multiRead " })); n != 1 {
			t.Errorf("%d bulk requests: %q; want one", n, got)
		}

		s.ControlKeep(zkdev.OpGetData, func(*zkdev.Request) zkdev.Action { return zkdev.DelayReply(time.Second) })
		before := len(s.requests())
		answer := make(chan []ReadResult, 1)
		go func() { answer <- conn.ReadMany(t.Context(), slices.Repeat([]Read{{Path: "/a"}}, 1000)) }()
		synctest.Wait()
		if n := len(s.requests()) - before; n != bulksAtOnce*singlesAtOnce {
			t.Errorf("%d requests under way, want %d", n, bulksAtOnce*singlesAtOnce)
		}
		if n := len(<-answer); n != 1000 {
			t.Errorf("%d answers", n)
		}
	})
}
