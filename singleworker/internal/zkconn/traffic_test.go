package zkconn

import (
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Requests are counted by kind and with their bytes, over all connections; bulk requests as the
// frames sent for them.
func TestTraffic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/there", "data", 5)
		traffic := new(Traffic)
		conn := s.open(t, Config{Traffic: traffic}, nil)
		if _, _, err := conn.Get(t.Context(), "/there"); err != nil {
			t.Fatal(err)
		}
		before, receivedBefore := traffic.Bytes()
		if _, _, err := conn.Get(t.Context(), "/there"); err != nil {
			t.Fatal(err)
		}
		// A get: length, xid, type, a path with its length, a flag. Its reply: length, header, data with
		// its length, a stat.
		sent, received := traffic.Bytes()
		if sent-before != 4+4+4+4+6+1 || received-receivedBefore != lengthBytes+headerBytes+4+4+statBytes {
			t.Errorf("a get: %d bytes sent, %d received", sent-before, received-receivedBefore)
		}
		for _, r := range conn.ReadMany(t.Context(), []Read{data("/there"), children("/there")}) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		if _, err := conn.Multi(t.Context(), SetOp("/there", nil, AnyVersion), CheckOp("/there", AnyVersion)); err != nil {
			t.Fatal(err)
		}
		s.client.Disconnect()
		synctest.Wait()
		time.Sleep(time.Second)
		if _, _, err := conn.Children(t.Context(), "/there"); err != nil {
			t.Fatal(err)
		}
		pings := traffic.Requests()["ping"]
		time.Sleep(time.Minute)
		got := traffic.Requests()
		if got["ping"] < pings+10 {
			t.Errorf("%d pings in a minute", got["ping"]-pings)
		}
		maps.DeleteFunc(got, func(kind string, n uint64) bool { return kind == "ping" || n == 0 })
		if want := map[string]uint64{"get": 2, "multi_read": 1, "set_watches": 1, "multi": 1, "children": 1}; !maps.Equal(got, want) {
			t.Errorf("requests: %v, want %v", got, want)
		}
	})
}

// It is counted how long requests took that were answered, refusals included.
func TestTimesOfRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/there", "data", 5)
		traffic := new(Traffic)
		conn := s.open(t, Config{Traffic: traffic}, nil)
		slow := func(op zkdev.Op) {
			s.Control(op, func(*zkdev.Request) zkdev.Action { return zkdev.Delay(300 * time.Millisecond) })
		}
		slow(zkdev.OpGetData)
		if _, _, err := conn.Get(t.Context(), "/there"); err != nil {
			t.Fatal(err)
		}
		slow(zkdev.OpMultiRead)
		conn.ReadMany(t.Context(), []Read{data("/there"), children("/there")})
		slow(zkdev.OpMulti)
		if _, err := conn.Multi(t.Context(), CheckOp("/not", AnyVersion)); !errors.Is(err, ErrNoNode) {
			t.Errorf("Multi = %v, want ErrNoNode", err)
		}
		got := traffic.Took()
		delete(got, "ping")
		if len(got) != 3 {
			t.Errorf("timed %v", got)
		}
		want := Times{Sum: 300 * time.Millisecond}
		want.Buckets[9] = 1 // over 250 ms, up to 500 ms
		for _, kind := range []string{"get", "multi_read", "multi"} {
			if got[kind] != want {
				t.Errorf("%s: %+v, want %+v", kind, got[kind], want)
			}
		}
		s.Control(zkdev.OpGetData, func(*zkdev.Request) zkdev.Action { return zkdev.CutBefore() })
		if _, _, err := conn.Get(t.Context(), "/there"); err == nil {
			t.Error("a request that the server did not get has succeeded")
		}
		if times := traffic.Took()["get"]; times != want {
			t.Errorf("a request without an answer is timed: %+v", times)
		}
	})
}

// A fragment that is no request, or not a whole one, is not counted as one, and does no harm.
func TestTrafficOfFragments(t *testing.T) {
	t.Parallel()
	var traffic Traffic
	for _, frames := range [][]byte{{}, {0}, {0, 0, 0, 9, 1}, {0xff, 0xff, 0xff, 0xff, 0}, {0, 0, 0, 4, 0, 0, 0, 1}} {
		traffic.send(frames)
	}
	for kind, n := range traffic.Requests() {
		if n != 0 {
			t.Errorf("%d requests of kind %s", n, kind)
		}
	}
	var nobody *Traffic
	nobody.send([]byte{0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, opGetData})
	nobody.receive(nil)
}
