package zkconn

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// readUntil reads until there are answers, as those who lost a connection do, for at most a minute.
func readUntil(t *testing.T, conn *Conn, reads ...Read) []ReadResult {
	t.Helper()
	var results []ReadResult
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
		results = conn.ReadMany(t.Context(), reads)
		if !slices.ContainsFunc(results, func(r ReadResult) bool { return IsUnknown(r.Err) }) {
			return results
		}
	}
	t.Fatalf("no answers within a minute: %s", text(results))
	return nil
}

// A server that hangs up on a request that it does not know, each time that a client is back, is
// not sent it any more. Watches work nevertheless, also those that a connection has outlived.
func TestServerThatHangsUpOnUnknownRequests(t *testing.T) {
	t.Parallel()
	for _, op := range []zkdev.Op{zkdev.OpSetWatches, zkdev.OpMultiRead} {
		t.Run(op.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t)
				s.have(t, "/a", "one", 0)
				s.ControlKeep(op, func(r *zkdev.Request) zkdev.Action {
					if r.Client != "tested" {
						return zkdev.Pass()
					}
					return zkdev.CutBefore()
				})
				var out bytes.Buffer
				var seen seen
				conn := s.open(t, Config{Logger: slog.New(slog.NewTextHandler(&out, nil))}, seen.event)
				const want = "one v0; zookeeper get /b: no such node; []"
				reads := []Read{data("/a"), data("/b"), children("/a")}
				wantResults(t, readUntil(t, conn, reads...), want)
				session := conn.SessionID()
				for range 3 {
					wantResults(t, readUntil(t, conn, reads...), want)
				}
				seen.want(t)

				s.Disconnect(session)
				time.Sleep(10 * time.Second)
				if op == zkdev.OpSetWatches {
					seen.want(t, "/a", "/a") // its data and its children: nobody watches them now
				}
				wantResults(t, readUntil(t, conn, reads...), want)
				s.change(t, SetOp("/a", []byte("two"), AnyVersion))
				seen.want(t, "/a")
				if seen.lost != enough+1 || conn.SessionID() != session {
					t.Errorf("the connection was lost %d times, the session %#x is now %#x; want that nothing is in vain", seen.lost, session, conn.SessionID())
				}
				ofType := func(r zkdev.Request) bool { return r.Op == op }
				if got := s.requests(); len(got)-len(slices.DeleteFunc(slices.Clone(got), ofType)) != enough {
					t.Errorf("requests %q, want %d %v", named(got), enough, op)
				}
				if n := strings.Count(out.String(), "hangs up on a request"); n != 1 || !strings.Contains(out.String(), "request="+op.String()) {
					t.Errorf("%d lines say what the server does not know, want one:\n%s", n, out.String())
				}
			})
		})
	}
}

// A server that has answered such requests, and dies while some are under way, goes on to get them.
func TestServerThatDiesKnowsRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/a", "one", 0)
		conn := s.open(t, Config{}, nil)
		readUntil(t, conn, data("/a"))
		for range 2 * enough { // each of them acts once
			s.Control(zkdev.OpMultiRead, func(*zkdev.Request) zkdev.Action { return zkdev.CutBefore() })
		}
		wantResults(t, readUntil(t, conn, data("/a")), "one v0")
		for _, r := range s.requests() {
			if r.Op == zkdev.OpGetData {
				t.Errorf("requests %q, want nodes in bulk only", named(s.requests()))
			}
		}
	})
}
